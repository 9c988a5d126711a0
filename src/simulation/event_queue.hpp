// What is still to come, earliest first; what is due at the same time comes in the order it was added.
//
// A heap of four children a node: half as deep as one of two, and the four lie in two cache lines. Used by one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tutti::simulation {

struct ScheduledEvent {
  double time = 0;
  std::uint64_t order = 0;
  std::uint32_t subject = 0;  // whom it is about, as `kind` says
  std::uint32_t kind = 0;
};

class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }

  void add(double time, std::uint32_t kind, std::uint32_t subject) {
    const ScheduledEvent event{time, added_++, subject, kind};
    std::size_t at = heap_.size();
    heap_.push_back(event);
    while (at > 0) {
      const std::size_t parent = (at - 1) / kChildren;
      if (!before(event, heap_[parent])) break;
      heap_[at] = heap_[parent];
      at = parent;
    }
    heap_[at] = event;
  }

  /// There must be one.
  ScheduledEvent take() {
    const ScheduledEvent first = heap_.front();
    const ScheduledEvent last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return first;
  }

 private:
  static constexpr std::size_t kChildren = 4;

  static bool before(const ScheduledEvent& one, const ScheduledEvent& other) {
    return one.time < other.time || (one.time == other.time && one.order < other.order);
  }

  /// Puts an event into the hole at the top.
  void sink(const ScheduledEvent& event) {
    std::size_t hole = 0;
    while (true) {
      const std::size_t first = hole * kChildren + 1;
      if (first >= heap_.size()) break;
      const std::size_t end = std::min(first + kChildren, heap_.size());
      std::size_t least = first;
      for (std::size_t child = first + 1; child < end; ++child)
        if (before(heap_[child], heap_[least])) least = child;
      if (!before(heap_[least], event)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = event;
  }

  std::vector<ScheduledEvent> heap_;
  std::uint64_t added_ = 0;
};

}  // namespace tutti::simulation
