#include "deadlines.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace tutti::labs {

namespace {

constexpr std::int64_t kTick = 20'000'000;
constexpr std::int64_t kUsualDelay = 30'000'000;  // of a tick, which says nothing of the process

std::int64_t lateness(std::int64_t since) { return std::max<std::int64_t>(now() - since - kTick - kUsualDelay, 0); }

}  // namespace

Deadlines::Deadlines(Journal& journal)
    : journal_(journal), schedstat_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)), last_tick_(now()) {
  if (schedstat_ < 0) journal_.give_up("cannot read /proc/thread-self/schedstat: expected a kernel with SCHED_INFO");
  ticker_ = std::thread([this] { tick(); });
}

Deadlines::~Deadlines() {
  stop_.store(true, std::memory_order_relaxed);
  ticker_.join();
  ::close(schedstat_);
}

void Deadlines::tick() {
  while (!stop_.load(std::memory_order_relaxed)) {
    const std::int64_t before = now();
    last_tick_.store(before, std::memory_order_relaxed);
    sleep_for(kTick);
    stood_still_.fetch_add(lateness(before), std::memory_order_relaxed);
  }
}

/// Returns the nanoseconds in which this thread was ready and did not run.
std::int64_t Deadlines::queued() const {
  char text[128] = {};
  if (::pread(schedstat_, text, sizeof text - 1, 0) <= 0) return 0;
  char* rest = nullptr;
  std::strtoll(text, &rest, 10);
  return std::strtoll(rest, nullptr, 10);
}

Deadlines::Moment Deadlines::moment() const {
  // This thread may run before the ticker does, after both stood still.
  const std::int64_t overdue = lateness(last_tick_.load(std::memory_order_relaxed));
  return {now(), stood_still_.load(std::memory_order_relaxed) + overdue, queued()};
}

void Deadlines::judge(const char* what, double seconds, const Moment& begun) {
  const Moment end = moment();
  // A process that waits for a core counts in both.
  const std::int64_t excused = std::max(end.stood_still - begun.stood_still, end.queued - begun.queued);
  const double took = static_cast<double>(std::max<std::int64_t>(end.time - begun.time - excused, 0)) / 1e9;
  Longest& longest = longest_[what];
  if (took - seconds > longest.seconds - longest.limit || longest.seconds == 0) longest = {took, seconds};
  if (took <= seconds + kSlack) return;
  journal_.write("late", std::string(what) + " " + std::to_string(took) + " " + std::to_string(seconds));
}

void Deadlines::write_longest() {
  for (const auto& [what, longest] : longest_)
    journal_.write("longest", what + " " + std::to_string(longest.seconds) + " " + std::to_string(longest.limit));
}

}  // namespace tutti::labs
