#include "transport/shm/staging.hpp"

#include <algorithm>

namespace tutti {
namespace {

constexpr float kClearly = 0.9F;  // as much of the other way's cost, to change to a way

}  // namespace

StagingChoice::Copy StagingChoice::next() {
  if (turn_ == window_) turn_ = 0;
  const unsigned left = window_ - turn_++;
  const bool other = left <= kSamples;
  return {past_ != other, left <= 2 * kSamples};
}

void StagingChoice::learn(bool past, float cost) {
  best_[past ? 1 : 0] = std::min(best_[past ? 1 : 0], cost);
  ++learned_[past ? 1 : 0];
  if (learned_[0] < kSamples || learned_[1] < kSamples) return;
  const bool change = best_[past_ ? 0 : 1] < best_[past_ ? 1 : 0] * kClearly;
  window_ = change ? kShortest : std::min(window_ * 2, kLongest);
  past_ = past_ != change;
  turn_ = 0;
  for (const int way : {0, 1}) {
    learned_[way] = 0;
    best_[way] = kNever;
  }
}

}  // namespace tutti
