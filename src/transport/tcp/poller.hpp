// The epoll set of all data connections of a process, with the counters they share. Any thread.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "base/fd.hpp"

namespace tutti {

struct TcpCounters {
  std::uint64_t frames_sent = 0;
  std::uint64_t frames_received = 0;
  std::uint64_t payload_sent = 0;  // bytes of chunks
  std::uint64_t payload_received = 0;
  std::uint64_t bytes_sent = 0;  // with headers
  std::uint64_t bytes_received = 0;
  std::uint64_t strangers = 0;  // connections turned away before they were lanes
};

class Poller {
 public:
  Poller() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {}

  int descriptor() const { return epoll_.get(); }
  std::uint64_t new_id() { return next_id_.fetch_add(1, std::memory_order_relaxed); }
  void add(int descriptor, std::uint64_t id) { control(EPOLL_CTL_ADD, descriptor, id, EPOLLIN); }
  void change(int descriptor, std::uint64_t id, std::uint32_t events) {
    control(EPOLL_CTL_MOD, descriptor, id, events);
  }
  void remove(int descriptor, std::uint64_t id);
  /// Which were removed since this was last asked.
  std::vector<std::uint64_t> take_removed();

  struct Counters {
    std::atomic<std::uint64_t> frames_sent{0};
    std::atomic<std::uint64_t> frames_received{0};
    std::atomic<std::uint64_t> payload_sent{0};
    std::atomic<std::uint64_t> payload_received{0};
    std::atomic<std::uint64_t> bytes_sent{0};
    std::atomic<std::uint64_t> bytes_received{0};
    std::atomic<std::uint64_t> strangers{0};
  };
  Counters& counters() { return counters_; }
  TcpCounters read_counters() const;

 private:
  void control(int operation, int descriptor, std::uint64_t id, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = id;
    ::epoll_ctl(epoll_.get(), operation, descriptor, &event);
  }

  Fd epoll_;
  std::atomic<std::uint64_t> next_id_{1};
  Counters counters_;
  std::mutex removed_mutex_;
  std::vector<std::uint64_t> removed_;
  std::atomic<bool> any_removed_{false};
};

inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

inline void Poller::remove(int descriptor, std::uint64_t id) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr);
  const std::lock_guard lock(removed_mutex_);
  removed_.push_back(id);
  any_removed_.store(true, std::memory_order_relaxed);
}

inline std::vector<std::uint64_t> Poller::take_removed() {
  if (!any_removed_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(removed_mutex_);
  any_removed_.store(false, std::memory_order_relaxed);
  return std::exchange(removed_, {});
}

inline TcpCounters Poller::read_counters() const {
  const auto read = [](const std::atomic<std::uint64_t>& value) { return value.load(std::memory_order_relaxed); };
  return {read(counters_.frames_sent),      read(counters_.frames_received), read(counters_.payload_sent),
          read(counters_.payload_received), read(counters_.bytes_sent),      read(counters_.bytes_received),
          read(counters_.strangers)};
}

}  // namespace tutti
