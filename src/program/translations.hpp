// Ways to renumber ranks that move them as coordinates are moved: a rank's number is written in digits of several
// sizes, and a translation adds to each digit, modulo its size. What one rank does, others may do translated
// (translated_parts.hpp). Plain values; pure functions.
#pragma once

#include <utility>
#include <vector>

namespace tutti {

class Translations {
 public:
  struct Digit {
    int stride = 1;
    int size = 1;
    bool moves = false;  // false: adding to this digit is no symmetry

    bool operator==(const Digit&) const = default;
  };

  /// Moves nothing.
  Translations() = default;
  /// Strides and sizes must write every rank in one way only.
  explicit Translations(std::vector<Digit> digits) : digits_(std::move(digits)) {}

  bool operator==(const Translations&) const = default;

  const std::vector<Digit>& digits() const { return digits_; }
  /// Number of translations.
  int order() const;
  /// Where the translation that moves digits by those of `by` takes a rank.
  int translated(int rank, int by) const;
  /// The translation that undoes one.
  int opposite(int by) const;
  /// The translation that takes `representative_of(rank)` to the rank, as the `by` of translated().
  int offset_of(int rank) const;
  /// The rank of the same orbit whose moving digits are 0.
  int representative_of(int rank) const;
  /// All values of `by`, ascending.
  std::vector<int> all() const;

 private:
  std::vector<Digit> digits_;
};

}  // namespace tutti
