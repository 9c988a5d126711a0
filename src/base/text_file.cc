#include "base/text_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tutti {

tl::unexpected<Error> file_error(const std::string& path, std::string_view what) {
  return fail(ErrorCode::system, fmt::format("{}: cannot be {}: {}", path, what, std::strerror(errno)));
}

Error about_file(const std::string& path, Error error) {
  error.message = fmt::format("{}: {}", path, error.message);
  return error;
}

Status make_folder(const std::string& path) {
  std::error_code why;
  std::filesystem::create_directories(path, why);
  if (!why) return {};
  return fail(ErrorCode::system, fmt::format("{}: cannot be made: {}", path, why.message()));
}

Result<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return file_error(path, "opened");
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad() || text.bad()) return file_error(path, "read");
  return text.str();
}

Status replace_text(const std::string& path, std::string_view text) {
  const std::string draft = path + ".part";
  std::ofstream file(draft, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return file_error(draft, "written");
  if (std::rename(draft.c_str(), path.c_str()) != 0) return file_error(path, "replaced");
  return {};
}

}  // namespace tutti
