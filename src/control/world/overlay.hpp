// Who holds connections with whom, and which broadcasts were seen: the pure parts of flooding. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <set>
#include <vector>

namespace tutti {

/// Those at distance 1, 2, 4, ... from `self`, both ways, on the ring of the living, ascending: connected while any
/// living are left, at a degree of about 2 log2(n). Symmetric: whoever is mine has me.
std::vector<int> overlay_neighbours(int self, const std::vector<bool>& living);

/// Remembers which numbered broadcasts came, per origin, in bounded memory.
class SeenBroadcasts {
 public:
  explicit SeenBroadcasts(std::size_t origins = 0) : origins_(origins) {}
  /// True the first time. Numbers start at 0 and come nearly in order; one that is `kWindow` behind counts as seen.
  bool first_time(int origin, std::uint64_t number);

  static constexpr std::size_t kWindow = 1024;

 private:
  struct Origin {
    std::uint64_t all_below = 0;
    std::set<std::uint64_t> above;
  };
  std::vector<Origin> origins_;
};

/// The latest frames that were flooded, for a neighbour that comes later.
class FloodHistory {
 public:
  void add(std::vector<std::byte> frame);
  const std::deque<std::vector<std::byte>>& frames() const { return frames_; }

  static constexpr std::size_t kFrames = 512;
  static constexpr std::size_t kBytes = 4 << 20;

 private:
  std::deque<std::vector<std::byte>> frames_;
  std::size_t bytes_ = 0;
};

}  // namespace tutti
