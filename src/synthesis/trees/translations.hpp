// Symmetries that move ranks as coordinates are moved: a rank's number is written in digits of several sizes, and a
// translation adds to each digit, modulo its size. Nodes around a fabric, GPUs around a switch, tori and hypercubes are
// moved so. Those found here are verified symmetries of the topology (topology/symmetry.hpp), and so is every sum of
// them; so what one rank does, every rank it is moved to can do at the same time, on links of its own.
// Plain values; pure functions.
#pragma once

#include <vector>

#include "topology/topology.hpp"

namespace tutti {

class Translations {
 public:
  struct Digit {
    int stride = 1;
    int size = 1;
    bool moves = false;  // false: adding to this digit is no symmetry
  };

  /// Strides and sizes must write every rank in one way only.
  explicit Translations(std::vector<Digit> digits) : digits_(std::move(digits)) {}

  const std::vector<Digit>& digits() const { return digits_; }
  /// Number of translations.
  int order() const;
  /// Where the translation that moves digits by those of `by` takes a rank.
  int moved(int rank, int by) const;
  /// The translation that undoes one.
  int opposite(int by) const;
  /// The translation that takes `home_of(rank)` to the rank, as the `by` of moved().
  int offset_of(int rank) const;
  /// The rank of the same orbit whose moving digits are 0.
  int home_of(int rank) const;
  /// All values of `by`, ascending.
  std::vector<int> all() const;

 private:
  std::vector<Digit> digits_;
};

struct FoundTranslations {
  Translations group;
  std::vector<int> orbit_of_link;  // [link] = the smallest link some translation takes to it
};

/// The largest group found by trying the digits that nodes, their GPUs and the neighbours of rank 0 suggest. It may be
/// the trivial one, which moves nothing. Near-linear in the links for each digit tried.
FoundTranslations find_translations(const Topology& topology);

}  // namespace tutti
