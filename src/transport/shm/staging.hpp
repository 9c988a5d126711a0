// Copies into shared memory that a rank on another core reads next.
//
// Plain stores are best where the two cores share a cache. Where they do not, each line has to be won back from the
// reader's cache first, and stores that go past the caches are several times faster. Which it is shows in the time of
// the copies themselves; the way that looks worse is tried again now and then, since virtual cores move.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

class StagingCopy {
 public:
  /// What is copied is visible to whoever sees a store made after this with release.
  void operator()(std::byte* to, const std::byte* from, std::size_t bytes);

 private:
  void judge(bool past, float cost);

  bool past_ = false;  // the way in use: past the caches
  unsigned turn_ = 0;  // in the window
  unsigned window_ = kShortest;
  float best_[2] = {kNever, kNever};  // ticks per byte in this window: plain, past the caches

  static constexpr unsigned kShortest = 16;
  static constexpr unsigned kLongest = 512;
  static constexpr unsigned kTrials = 2;  // of the other way, at the end of each window
  static constexpr float kNever = 1e30F;
};

}  // namespace tutti
