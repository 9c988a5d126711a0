#include "journal.hpp"

#include <time.h>

#include <algorithm>
#include <cstdlib>

namespace tutti::labs {

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

void sleep_for(std::int64_t nanoseconds) {
  const std::int64_t end = now() + nanoseconds;
  const timespec time{end / 1000000000, end % 1000000000};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
  }
}

Journal::Journal(const std::string& path) : file_(std::fopen(path.c_str(), "w")) {
  if (file_) return;
  std::fprintf(stderr, "chaos_rank: cannot write %s\n", path.c_str());
  std::exit(1);
}

void Journal::write(const std::string& word, const std::string& text) {
  std::string line = text;
  std::replace(line.begin(), line.end(), '\n', ' ');
  const std::lock_guard lock(mutex_);
  std::fprintf(file_.get(), "%lld %s%s%s\n", static_cast<long long>(now()), word.c_str(), line.empty() ? "" : " ",
               line.c_str());
  std::fflush(file_.get());
}

void Journal::give_up(const std::string& why) {
  write("violation", why);
  std::fprintf(stderr, "chaos_rank: %s\n", why.c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

}  // namespace tutti::labs
