// Two ranks of a host for micro-benchmarks: the benchmark's thread is rank 0, a second thread is rank 1 and answers
// until the Responder goes. Each keeps to a core of its own.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "transport/shm/host.hpp"

namespace micro {

inline void pin_to(int index) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<std::size_t>(index), &cores);
  pthread_setaffinity_np(pthread_self(), sizeof cores, &cores);
}

/// Runs `step` over and over on a thread of its own.
class Responder {
 public:
  explicit Responder(std::function<void()> step)
      : thread_([this, answer = std::move(step)] {
          pin_to(1);
          while (!stop_.load(std::memory_order_relaxed)) answer();
        }) {
    pin_to(0);
  }
  ~Responder() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Both ranks' views of their host, attached to each other.
struct Pair {
  std::vector<tutti::Host> hosts;

  Pair() {
    std::vector<tutti::Segment> segments;
    std::vector<tutti::SegmentName> names;
    for (int rank = 0; rank < 2; ++rank) {
      segments.push_back(std::move(tutti::Segment::create(2).value()));
      names.push_back(segments.back().name());
    }
    for (int rank = 0; rank < 2; ++rank) {
      hosts.emplace_back(std::move(segments[static_cast<std::size_t>(rank)]), names, rank);
      if (!hosts.back().attach(1 - rank)) std::abort();
    }
  }
};

}  // namespace micro
