#include "transport/shm/staging.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "reduce/reduce.hpp"

namespace tutti {
namespace {

constexpr std::size_t kJudgedFrom = 2048;  // bytes; below, the clock costs more than the choice gains

}  // namespace

void StagingCopy::operator()(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes < kJudgedFrom) {
    std::memcpy(to, from, bytes);
    return;
  }
  const bool trial = turn_ + kTrials >= window_;
  const bool past = past_ != trial;
  const std::uint64_t start = ticks();
  copy(to, from, bytes, past);
  judge(past, static_cast<float>(ticks() - start) / static_cast<float>(bytes));
}

void StagingCopy::judge(bool past, float cost) {
  float& best = best_[past ? 1 : 0];
  best = std::min(best, cost);
  if (++turn_ < window_) return;
  const bool better = best_[1] < best_[0];
  window_ = better == past_ ? std::min(window_ * 2, kLongest) : kShortest;
  past_ = better;
  turn_ = 0;
  best_[0] = best_[1] = kNever;
}

}  // namespace tutti
