#include "program/check/check_orbits.hpp"

#include <utility>

namespace tutti::checking {

Orbits::Orbits(Translations translations, const Shape& shape)
    : translations_(std::move(translations)), shape_(shape), offset_of_translation_(translations_.all()) {
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  representative_index_.resize(ranks);
  translation_of_.resize(ranks);
  rows_.resize(offset_of_translation_.size());
  // The offset of a translation is also a rank: the one that rank 0, which is a representative, is translated to.
  for (std::size_t translation = 0; translation < offset_of_translation_.size(); ++translation)
    translation_of_[static_cast<std::size_t>(offset_of_translation_[translation])] = static_cast<int>(translation);
  for (int rank = 0; rank < shape.ranks; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const int representative = translations_.representative_of(rank);
    if (representative == rank) representatives_.push_back(rank);
    // Representatives come before the ranks they are translated to.
    representative_index_[at] = representative == rank
                                    ? static_cast<int>(representatives_.size()) - 1
                                    : representative_index_[static_cast<std::size_t>(representative)];
    translation_of_[at] = translation_of_[static_cast<std::size_t>(rank - representative)];
  }
  for (const int offset : offset_of_translation_)
    opposite_.push_back(translation_of_[static_cast<std::size_t>(translations_.opposite(offset))]);
}

const std::vector<int>& Orbits::row(int translation) const {
  std::vector<int>& row = rows_[static_cast<std::size_t>(translation)];
  if (row.empty())
    for (const int offset : offset_of_translation_) row.push_back(translation_of(translated_rank(offset, translation)));
  return row;
}

int Orbits::translated_extent(int extent, int translation) const {
  if (translation == 0) return extent;
  const int chunks = shape_.chunks;
  switch (shape_.collective) {
    case Collective::all_reduce:
      return translated_chunk(Buffer::input, extent, translation);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return translated_rank(extent / chunks, translation) * chunks + extent % chunks;
    case Collective::all_to_all: {
      const int pair = extent / chunks;
      const int source = translated_rank(pair / shape_.ranks, translation),
                target = translated_rank(pair % shape_.ranks, translation);
      return (source * shape_.ranks + target) * chunks + extent % chunks;
    }
    default:
      return extent;
  }
}

}  // namespace tutti::checking
