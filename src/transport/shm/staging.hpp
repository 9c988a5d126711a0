// How to copy into shared memory that a rank on another core reads next.
//
// Plain stores are best where the two cores share a cache. Where they do not, each line has to be won back from the
// reader's cache first and fetched by it after, and stores that go past the caches are several times faster. Which it
// is shows in the time of a copy and of the reading of it, together; both ways are measured now and then, since virtual
// cores move.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

inline constexpr std::size_t kStreamedFrom = 2048;  // bytes; less is always copied plainly

class StagingChoice {
 public:
  struct Copy {
    bool past = false;   // the caches
    bool timed = false;  // learn() is to be told what it cost
  };

  /// How to do the next copy.
  Copy next();
  /// What a timed copy and its reading cost, in ticks per byte.
  void learn(bool past, float cost);

 private:
  static constexpr unsigned kSamples = 2;  // of each way, at the end of a window
  static constexpr unsigned kShortest = 16;
  static constexpr unsigned kLongest = 512;
  static constexpr float kNever = 1e30F;

  bool past_ = false;
  unsigned turn_ = 0;
  unsigned window_ = kShortest;
  unsigned learned_[2] = {0, 0};
  float best_[2] = {kNever, kNever};
};

}  // namespace tutti
