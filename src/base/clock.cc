#include "base/clock.hpp"

#include <cpuid.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace tutti {
namespace {

bool does_cpu_promise() {
  constexpr unsigned kPowerLeaf = 0x80000007;
  constexpr unsigned kInvariant = 1U << 8;  // of edx
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(kPowerLeaf, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariant) != 0;
}

std::string available_sources() {
  std::ifstream file("/sys/devices/system/clocksource/clocksource0/available_clocksource");
  std::string line;
  std::getline(file, line);
  return line;
}

/// The same moment on both clocks.
struct ClockPair {
  std::chrono::steady_clock::time_point time;
  std::uint64_t ticks = 0;
};

/// Reads the clock between two readings of the counter. Of several tries the one counts in which the least time passed:
/// the thread may lose its core in between, for milliseconds on a busy machine.
ClockPair read_both() {
  constexpr int kTries = 16;
  ClockPair best;
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < kTries; ++i) {
    const std::uint64_t before = ticks();
    const auto time = std::chrono::steady_clock::now();
    const std::uint64_t width = ticks() - before;
    if (width >= least) continue;
    least = width;
    best = {time, before + width / 2};
  }
  return best;
}

double calibrate() {
  const ClockPair start = read_both();
  while (std::chrono::steady_clock::now() - start.time < std::chrono::milliseconds(2)) {
  }
  const ClockPair end = read_both();
  const std::chrono::duration<double, std::micro> elapsed = end.time - start.time;
  return static_cast<double>(end.ticks - start.ticks) / elapsed.count();
}

// Before the constructors of others, which may take the time.
[[gnu::constructor(101)]] void examine_counter() {
  g_is_counter_unsteady = !is_counter_steady(does_cpu_promise(), available_sources());
}

}  // namespace

constinit bool g_is_counter_unsteady = false;

bool is_counter_steady(bool cpu_promises, std::string_view available) {
  if (!cpu_promises) return false;
  while (!available.empty()) {
    const auto end = std::min(available.find(' '), available.size());
    if (available.substr(0, end) == "tsc") return true;
    available.remove_prefix(std::min(end + 1, available.size()));
    if (available.empty()) return false;
  }
  return true;  // the kernel does not say, as in a sandbox: the CPU has
}

std::uint64_t monotonic_nanoseconds_now() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

double ticks_per_microsecond() {
  if (g_is_counter_unsteady) return 1000;
  static const double rate = calibrate();
  return rate;
}

Deadline Deadline::in(double seconds) {
  Deadline deadline;
  if (std::isfinite(seconds) && seconds < 1e9)
    deadline.at_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  return deadline;
}

double Deadline::seconds_left() const {
  if (is_never()) return std::numeric_limits<double>::infinity();
  return std::max(0.0, std::chrono::duration<double>(at_ - Clock::now()).count());
}

int Deadline::poll_milliseconds(int limit) const {
  if (is_never()) return limit;
  return static_cast<int>(std::min<double>(limit, std::ceil(seconds_left() * 1000)));
}

}  // namespace tutti
