#include "program/format.hpp"

#include <fmt/format.h>

#include "base/text_file.hpp"
#include "program/check.hpp"
#include "program/format_json.hpp"

namespace tutti {
namespace {

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

Result<Program> parse_program(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && text[start] == '{') return load_json(text);
  if (start != std::string_view::npos && text[start] == '<') {
    Result<Program> program = load_msccl(text);
    if (!program || !reduces(program->shape.collective)) return program;
    return annotate_completion(*program);
  }
  return fail(ErrorCode::invalid_argument, "neither a program in JSON, which begins with '{', nor in XML, with '<'");
}

Result<Program> load_program(const std::string& path) {
  const Result<std::string> text = read_text(path);
  if (!text) return tl::unexpected(text.error());
  Result<Program> program = parse_program(*text);
  if (!program) return tl::unexpected(about_file(path, program.error()));
  return program;
}

Status save_program(const Program& program, const std::string& path, const MscclOptions& options) {
  const bool xml = ends_with(path, ".xml");
  if (!xml && !ends_with(path, ".json"))
    return fail(ErrorCode::invalid_argument, fmt::format("{}: the name must end in .json or .xml", path));
  const Result<std::string> text = xml ? save_msccl(program, options) : save_json(program);
  if (!text) return tl::unexpected(about_file(path, text.error()));
  return replace_text(path, *text);
}

}  // namespace tutti
