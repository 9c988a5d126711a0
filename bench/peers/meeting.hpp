// Where the ranks of a run meet outside of the library under test: a small shared file, named by BENCH_MEETING and
// created zeroed by the driver. The same for all libraries, so that none is timed with another's barrier.
// One per process, used by one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace peers {

class Meeting {
 public:
  static constexpr int kMaxRanks = 64;

  /// `cores`: those the run is confined to. With more ranks than cores, waits yield.
  Meeting(int rank, int size, std::vector<int> cores);

  void barrier() { meet(is_crowded() ? Wait::yield : Wait::spin); }
  /// The largest `value` any rank gave.
  double largest(double value);
  /// Rank 0's value.
  double first(double value);

  /// Nanoseconds of a cache line's way from one core to another, the best of several tries of there and back: what
  /// tells the states of a small virtual machine apart. Measured on the first two cores; 0 with fewer.
  double stamp();

 private:
  struct Page;
  enum class Wait : std::uint8_t { spin, yield, sleep };

  bool is_crowded() const { return static_cast<std::size_t>(size_) > cores_.size(); }
  void meet(Wait how);
  double exchange(std::uint32_t rounds);

  int rank_;
  int size_;
  std::vector<int> cores_;
  Page* page_;
};

/// Confines this process to its own core, where there is one for each rank. The rank is the launcher's.
void pin_to_core(const std::vector<int>& cores, int size);

}  // namespace peers
