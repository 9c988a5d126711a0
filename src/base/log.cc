#include "base/log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>

#include "base/settings.hpp"

namespace tutti::log {
namespace {

struct Sink {
  std::atomic<Level> level = Level::warn;  // alone: orders nothing
  int descriptor = STDERR_FILENO;

  Sink() {
    const std::string wanted = settings().log;
    if (wanted == "off") level = Level::off;
    if (wanted == "error") level = Level::error;
    if (wanted == "info") level = Level::info;
    if (wanted == "debug") level = Level::debug;
    if (settings().log_file.empty()) return;
    const int opened = ::open(settings().log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (opened >= 0) descriptor = opened;
  }
};

Sink& sink() {
  static Sink instance;
  return instance;
}

constexpr std::string_view kNames[] = {"debug", "info", "warn", "error"};

}  // namespace

bool enabled(Level level) { return level >= sink().level.load(std::memory_order_relaxed); }

void raise_level(Level level) {
  if (enabled(level)) sink().level.store(level, std::memory_order_relaxed);
}

void write(Level level, std::string_view text) {
  const int saved_errno = errno;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  localtime_r(&now.tv_sec, &parts);
  const std::string line = fmt::format("[{:02}:{:02}:{:02}.{:03}] tutti {}: {}\n", parts.tm_hour, parts.tm_min,
                                       parts.tm_sec, now.tv_nsec / 1000000, kNames[static_cast<int>(level)], text);
  // One write per line keeps lines of several ranks whole.
  [[maybe_unused]] const auto written = ::write(sink().descriptor, line.data(), line.size());
  errno = saved_errno;
}

}  // namespace tutti::log
