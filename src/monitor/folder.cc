#include "monitor/folder.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "base/fd.hpp"

namespace tutti::monitor {

std::string default_folder() { return fmt::format("/dev/shm/tutti-{}", ::geteuid()); }

Status prepare_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return system_error(fmt::format("cannot make {}", folder));
  struct stat found {};
  if (::lstat(folder.c_str(), &found) != 0) return system_error(fmt::format("cannot look at {}", folder));
  if (!S_ISDIR(found.st_mode) || found.st_uid != ::geteuid() || (found.st_mode & 022) != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} is not a folder that belongs to user {} alone", folder, ::geteuid()));
  return {};
}

bool is_written(int descriptor) {
  if (::flock(descriptor, LOCK_SH | LOCK_NB) != 0) return errno == EWOULDBLOCK;
  ::flock(descriptor, LOCK_UN);
  return false;
}

namespace {

/// Returns whether a process with the number with which the name of a recording begins lives. One of another container
/// may live and not be seen: ask the recording itself then.
bool lives(const std::string& name) {
  const int pid = std::atoi(name.c_str());
  return pid > 0 && (::kill(pid, 0) == 0 || errno != ESRCH);
}

constexpr std::chrono::seconds kYoung(60);

bool is_young(const std::filesystem::directory_entry& entry) {
  std::error_code error;
  const auto written = entry.last_write_time(error);
  return !error && std::filesystem::file_time_type::clock::now() - written < kYoung;
}

}  // namespace

// A young recording of a process that lives is not opened: of a thousand processes that start together, each finds
// those of all others. An older one is, since another process may have that number now.
void remove_orphans(const std::string& folder) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().extension() != kSuffix || (is_young(entry) && lives(entry.path().filename()))) continue;
    const Fd file(::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (file && !is_written(file.get())) ::unlink(entry.path().c_str());
  }
}

}  // namespace tutti::monitor
