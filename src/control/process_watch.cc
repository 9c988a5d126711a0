#include "control/process_watch.hpp"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "base/settings.hpp"

namespace tutti {
namespace {

/// Empty where the process ends meanwhile: reading fails then, and a bare stream buffer would throw.
std::string contents_of(const std::string& path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string target_of(const char* link) {
  std::array<char, 256> target{};
  const ssize_t length = ::readlink(link, target.data(), target.size());
  return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

}  // namespace

std::optional<std::uint64_t> start_time_of(pid_t pid) {
  const std::string stat = contents_of(fmt::format("/proc/{}/stat", pid));
  // The name, second field, may hold anything, parentheses and spaces included; the start time is field 22.
  const std::size_t after_name = stat.rfind(')');
  if (after_name == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(after_name + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t start_time = 0;
  if (!(fields >> start_time)) return std::nullopt;
  return start_time;
}

std::string host_identity() {
  std::string boot = contents_of("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  return fmt::format("{} {} {}", boot, target_of("/proc/self/ns/pid"), settings().host_id);
}

ProcessWatch watch_process(pid_t pid, std::uint64_t start_time) {
  ProcessWatch watch;
  watch.descriptor = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));  // close-on-exec by itself
  if (!watch.descriptor) {
    watch.gone = errno == ESRCH;
    return watch;
  }
  // Read after opening: if the process that the descriptor holds is the right one, it stays the right one.
  const auto actual = start_time_of(pid);
  if (actual == start_time) return watch;
  watch.gone = actual.has_value();
  watch.descriptor.reset();
  return watch;
}

}  // namespace tutti
