#include "topology/translations.hpp"

namespace tutti {

namespace {

/// Adds 1 to the digit with this radix, whose place counts `place`.
Permutation shift_of(int ranks, int place, int radix) {
  Permutation shift;
  for (int rank = 0; rank < ranks; ++rank) {
    const bool last = rank / place % radix == radix - 1;
    shift.push_back(last ? rank - place * (radix - 1) : rank + place);
  }
  return shift;
}

/// Finds radices for the digits from `place` on; the largest that will do are taken first.
bool add_digits(const Topology& topology, int place, Translations& found) {
  const int ranks = topology.ranks(), rest = ranks / place;
  if (rest == 1) return true;
  for (int radix = rest; radix >= 2; --radix) {
    if (rest % radix != 0) continue;
    auto symmetry = extend_to_symmetry(topology, shift_of(ranks, place, radix));
    if (!symmetry) continue;
    found.radices.push_back(radix);
    found.generators.push_back(std::move(*symmetry));
    if (add_digits(topology, place * radix, found)) return true;
    found.radices.pop_back();
    found.generators.pop_back();
  }
  return false;
}

}  // namespace

int Translations::moved(int rank, int shift) const {
  int image = 0, place = 1;
  for (const int radix : radices) {
    image += (rank / place + shift / place) % radix * place;
    place *= radix;
  }
  return image;
}

std::optional<Translations> find_translations(const Topology& topology) {
  Translations found;
  if (!add_digits(topology, 1, found)) return std::nullopt;
  return found;
}

}  // namespace tutti
