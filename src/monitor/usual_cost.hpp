// What a byte usually costs on a lane, and what it usually takes until an idle lane is heard of: learned in blocks, of
// which only the middle half counts, so that a few bad windows, or very good ones, change nothing. Pure.
#pragma once

#include <array>
#include <cstddef>

namespace tutti::monitor {

/// Seconds per byte.
struct Cost {
  double busy = 0;     // chunks under way
  double late = 0;     // idle in the midst of an operation, without credit
  double starved = 0;  // idle in the midst of an operation, with nothing offered

  double total() const { return busy + late + starved; }
};

class UsualCost {
 public:
  void add(const Cost& window);
  void forget() { *this = {}; }

  bool is_known() const { return is_known_; }
  const Cost& cost() const { return cost_; }
  /// Of windows from the usual total, as a rule.
  double deviation() const { return deviation_; }

 private:
  static constexpr std::size_t kFirst = 8;  // windows after which something is known
  static constexpr std::size_t kBlock = 16;

  void take();

  std::array<Cost, kBlock> windows_;
  std::size_t count_ = 0;
  bool is_known_ = false;
  Cost cost_;
  double deviation_ = 0;
};

/// Seconds that a chunk posted to an idle lane takes longer than its bytes do, at least: the way there and back. Before
/// what a byte costs is known, none.
class UsualLead {
 public:
  /// `cost`: seconds per byte; 0: not known.
  void add(double seconds, double bytes, double cost);
  double seconds(double cost) const;

 private:
  static constexpr std::size_t kBlock = 8;
  struct Sample {
    double seconds = 0;
    double bytes = 0;

    double beyond(double cost) const { return seconds > bytes * cost ? seconds - bytes * cost : 0; }
  };

  double least_of_block(double cost) const;

  std::array<Sample, kBlock> samples_;
  std::size_t count_ = 0;
  bool is_known_ = false;
  double seconds_ = 0;
};

}  // namespace tutti::monitor
