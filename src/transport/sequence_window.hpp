// Items numbered without gaps, of which a window [first, end) is held: a ring that grows when it must and never
// shrinks, so that a steady flow of chunks allocates nothing. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tutti {

template <typename T>
class SequenceWindow {
 public:
  std::uint64_t first() const { return first_; }
  std::uint64_t end() const { return end_; }
  bool holds(std::uint64_t number) const { return number >= first_ && number < end_; }

  T& operator[](std::uint64_t number) { return items_[number & (items_.size() - 1)]; }
  const T& operator[](std::uint64_t number) const { return items_[number & (items_.size() - 1)]; }

  /// Appends a default item and returns it.
  T& extend() {
    if (end_ - first_ == items_.size()) grow();
    T& item = (*this)[end_++];
    item = T{};
    return item;
  }

  /// Drops the first item.
  void advance() { (*this)[first_++] = T{}; }

 private:
  void grow() {
    std::vector<T> larger(items_.empty() ? 16 : items_.size() * 2);
    for (std::uint64_t number = first_; number != end_; ++number)
      larger[number & (larger.size() - 1)] = std::move((*this)[number]);
    items_ = std::move(larger);
  }

  std::vector<T> items_;  // a power of two
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace tutti
