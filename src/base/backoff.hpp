// Pauses between attempts at something that fails: the first lasts `first` seconds, each later one twice as long as the
// one before, up to `longest`. Seconds only: the caller has the clock, and decides when to try. A value; one thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>

#include "base/random.hpp"

namespace tutti {

class Backoff {
 public:
  Backoff(double first, double longest) : first_(first), longest_(longest) {}
  /// Shortens each pause at random by up to a quarter, so that many who failed together do not come back together.
  static Backoff with_jitter(double first, double longest, std::uint64_t seed = random_bits()) {
    Backoff backoff(first, longest);
    backoff.random_.emplace(static_cast<std::minstd_rand::result_type>(seed));
    return backoff;
  }

  /// Returns how long to wait before the next attempt.
  double next() {
    last_ = last_ == 0 ? first_ : std::min(2 * last_, longest_);
    return random_ ? last_ * std::uniform_real_distribution<double>(0.75, 1.0)(*random_) : last_;
  }
  /// Returns the last pause before it was shortened; 0 if there was none since reset().
  double last() const { return last_; }
  /// Starts again with the first pause: an attempt succeeded, or there is reason to hope.
  void reset() { last_ = 0; }
  void set_longest(double longest) { longest_ = longest; }

 private:
  double first_;
  double longest_;
  double last_ = 0;
  std::optional<std::minstd_rand> random_;  // only with jitter
};

}  // namespace tutti
