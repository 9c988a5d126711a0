#include "program/formats/format.hpp"

#include <fmt/format.h>

#include "documents/text_file.hpp"
#include "program/check/check.hpp"
#include "program/file/format_json.hpp"

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

Status save_program(const Program& program, const std::string& path, const MscclOptions& xml,
                    const MscclppOptions& plan) {
  const auto text = [&]() -> Result<std::string> {
    if (ends_with(path, ".mscclpp.json")) return save_mscclpp(program, plan);
    if (ends_with(path, ".json")) return save_json(program);
    if (ends_with(path, ".xml")) return save_msccl(program, xml);
    return fail(ErrorCode::invalid_argument, "the name must end in .json, .xml or .mscclpp.json");
  }();
  if (!text) return tl::unexpected(about_file(path, text.error()));
  return replace_text(path, *text);
}

}  // namespace tutti
