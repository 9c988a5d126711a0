// Which ranks of a program do the same, translated (translated_parts.hpp), so that the checker follows one of each
// kind: a *representative*. Translations are numbered here; 0 changes nothing. If the program has no symmetry, every
// rank is a representative and there is one translation. Every rank is one representative, translated by one of them.
// Internal to the checker; used by one thread.
#pragma once

#include <vector>

#include "program/program.hpp"
#include "program/translated_parts.hpp"

namespace tutti::checking {

class Orbits {
 public:
  Orbits() = default;
  Orbits(Translations translations, const Shape& shape);

  /// Number of translations.
  int translations() const { return static_cast<int>(offset_of_translation_.size()); }
  const std::vector<int>& representatives() const { return representatives_; }
  /// The representative that a rank is translated from, as an index into representatives().
  int representative_index(int rank) const { return representative_index_[static_cast<std::size_t>(rank)]; }
  /// The translation that takes its representative to a rank.
  int translation_of(int rank) const { return translation_of_[static_cast<std::size_t>(rank)]; }

  int translated_rank(int rank, int translation) const {
    return translation == 0
               ? rank
               : translations_.translated(rank, offset_of_translation_[static_cast<std::size_t>(translation)]);
  }
  /// First one, then the other.
  int both(int translation, int other) const {
    if (translation == 0) return other;
    return other == 0 ? translation : row(other)[static_cast<std::size_t>(translation)];
  }
  int opposite(int translation) const { return opposite_[static_cast<std::size_t>(translation)]; }
  /// both(other, translation) for every other.
  const std::vector<int>& row(int translation) const;

  /// Where a translation takes a chunk of a buffer, and a part of the operation (check_cells.hpp).
  int translated_chunk(Buffer buffer, int chunk, int translation) const {
    const int block = translation == 0 ? 0 : chunks_of_block(shape_, buffer);
    return block == 0 ? chunk : translated_rank(chunk / block, translation) * block + chunk % block;
  }
  int translated_extent(int extent, int translation) const;

 private:
  Translations translations_;
  Shape shape_;
  std::vector<int> representatives_;
  std::vector<int> representative_index_;   // by rank
  std::vector<int> translation_of_;         // by rank
  std::vector<int> offset_of_translation_;  // as Translations counts them
  std::vector<int> opposite_;
  mutable std::vector<std::vector<int>> rows_;  // by translation, made when asked for
};

}  // namespace tutti::checking
