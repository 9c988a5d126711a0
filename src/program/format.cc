#include "program/format.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "program/check.hpp"
#include "program/format_json.hpp"

namespace tutti {
namespace {

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

tl::unexpected<Error> system_error(const std::string& path, std::string_view what) {
  return fail(ErrorCode::system, fmt::format("{}: cannot be {}: {}", path, what, std::strerror(errno)));
}

Error about(const std::string& path, Error error) {
  error.message = fmt::format("{}: {}", path, error.message);
  return error;
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
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error(path, "opened");
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || text.bad()) return system_error(path, "read");
  Result<Program> program = parse_program(text.str());
  if (!program) return tl::unexpected(about(path, program.error()));
  return program;
}

Status save_program(const Program& program, const std::string& path, const MscclOptions& options) {
  const bool xml = ends_with(path, ".xml");
  if (!xml && !ends_with(path, ".json"))
    return fail(ErrorCode::invalid_argument, fmt::format("{}: the name must end in .json or .xml", path));
  const Result<std::string> text = xml ? save_msccl(program, options) : save_json(program);
  if (!text) return tl::unexpected(about(path, text.error()));
  const std::string draft = path + ".part";
  std::ofstream file(draft, std::ios::binary | std::ios::trunc);
  file << *text;
  file.close();
  if (!file) return system_error(draft, "written");
  if (std::rename(draft.c_str(), path.c_str()) != 0) return system_error(path, "replaced");
  return {};
}

}  // namespace tutti
