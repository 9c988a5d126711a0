#include "documents/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
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

namespace {

/// Writes all and closes. errno says why not.
bool write_and_close(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int why = written == 0 ? ENOSPC : errno;
      ::close(file);
      errno = why;
      return false;
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return ::close(file) == 0;
}

/// Writes into what is there, and replaces nothing: a device, a pipe, what a link points to.
Status write_into(const std::string& path, std::string_view text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
  if (file < 0) return file_error(path, "opened");
  if (!write_and_close(file, text)) return file_error(path, "written");
  return {};
}

}  // namespace

Status replace_text(const std::string& path, std::string_view text) {
  struct stat found {};
  const bool is_there = ::lstat(path.c_str(), &found) == 0;
  if (is_there && !S_ISREG(found.st_mode)) return write_into(path, text);
  // A name of its own: two that write the same file at once must not publish each other's draft.
  const std::string draft = fmt::format("{}.{:08x}", path, std::random_device()());
  const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (file < 0) return file_error(draft, "opened");
  if (is_there) (void)::fchmod(file, found.st_mode & 0777);
  const bool written = write_and_close(file, text);
  if (written && std::rename(draft.c_str(), path.c_str()) == 0) return {};
  const int why = errno;
  ::unlink(draft.c_str());
  errno = why;
  return file_error(path, written ? "replaced" : "written");
}

}  // namespace tutti
