#include "net/event_loop.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>

namespace tutti {
namespace {

constexpr std::uint64_t kWakeKey = 0;

}  // namespace

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool EventLoop::is_forked() const { return owner_ != ::getpid(); }

Status EventLoop::open() {
  owner_ = ::getpid();
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error("opening an epoll descriptor");
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_) return system_error("opening an event descriptor");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeKey;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) return system_error("watching a descriptor");
  now_ = clock_();
  return {};
}

Result<std::uint64_t> EventLoop::watch(int descriptor, std::uint32_t events, Ready ready) {
  const std::uint64_t key = next_key_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) return system_error("watching a descriptor");
  watched_[key] = {descriptor, events, std::make_shared<Ready>(std::move(ready))};
  return key;
}

void EventLoop::change(std::uint64_t key, std::uint32_t events) {
  const auto found = watched_.find(key);
  if (found == watched_.end() || found->second.events == events) return;
  found->second.events = events;
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, found->second.descriptor, &event);
}

void EventLoop::unwatch(std::uint64_t key) {
  const auto found = watched_.find(key);
  if (found == watched_.end() || is_forked()) return;
  // By hand, not by closing: a copy of the descriptor in a child would keep it in the set.
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.descriptor, nullptr);
  watched_.erase(found);
}

void EventLoop::post(std::function<void()> work) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(work));
  }
  if (!first) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void EventLoop::run_once(double until) {
  const double seconds = std::clamp(until - (clock_() - lost_), 0.0, 3600.0);
  const int milliseconds = static_cast<int>(std::ceil(seconds * 1000));
  std::array<epoll_event, 64> events;
  const int ready = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds);
  advance_clock(milliseconds / 1000.0);
  for (int at = 0; at < ready; ++at) {
    if (events[at].data.u64 == kWakeKey) {
      std::uint64_t count = 0;
      [[maybe_unused]] const auto got = ::read(wake_.get(), &count, sizeof count);
      continue;
    }
    // A callback earlier in this turn may have ended this one.
    const auto found = watched_.find(events[at].data.u64);
    if (found == watched_.end()) continue;
    const auto callback = found->second.ready;
    (*callback)(events[at].events);
  }
  run_posted();
}

void EventLoop::advance_clock(double waited_for) {
  const double real = clock_();
  if (last_turn_ >= 0) {
    const double late = real - last_turn_ - waited_for;
    if (late > absence_) lost_ += late;
  }
  last_turn_ = real;
  now_ = real - lost_;
}

void EventLoop::run_posted() {
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (const auto& piece : work) piece();
}

}  // namespace tutti
