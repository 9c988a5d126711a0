#include "transport/tcp/driving_callers.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <ctime>

namespace tutti {
namespace {

// Counts what happened anywhere that a sleeper might wait for; each thread remembers how far it has seen.
std::atomic<std::uint64_t> g_happenings{0};
thread_local std::uint64_t t_seen = 0;

}  // namespace

DrivingCallers::DrivingCallers() : bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void DrivingCallers::wake() {
  // Pairs with wait(): either the sleeper-to-be sees the happening, or we see the sleeper.
  g_happenings.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) ::eventfd_write(bell_.get(), 1);
}

void DrivingCallers::wait(int data, std::chrono::microseconds at_most) {
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  if (g_happenings.load(std::memory_order_seq_cst) == t_seen) {
    pollfd entries[2] = {{data, POLLIN, 0}, {bell_.get(), POLLIN, 0}};
    const auto us = std::max<std::int64_t>(at_most.count(), 0);
    const timespec limit{static_cast<time_t>(us / 1000000), static_cast<long>(us % 1000000 * 1000)};
    ::ppoll(entries, 2, &limit, nullptr);
  }
  t_seen = g_happenings.load(std::memory_order_seq_cst);
  drove();
  if (sleepers_.fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  // The last to leave resets the bell; for whoever came meanwhile it rings once more.
  eventfd_t rings = 0;
  if (::eventfd_read(bell_.get(), &rings) == 0 && sleepers_.load(std::memory_order_seq_cst) > 0)
    ::eventfd_write(bell_.get(), 1);
}

bool DrivingCallers::is_driven() {
  const std::uint64_t drives = drives_.load(std::memory_order_relaxed);
  const bool driven = drives != drives_seen_ || sleepers_.load(std::memory_order_relaxed) > 0;
  drives_seen_ = drives;
  return driven;
}

}  // namespace tutti
