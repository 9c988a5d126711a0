#include "program/translations.hpp"

#include <algorithm>
#include <cstddef>

namespace tutti {

int Translations::order() const {
  int order = 1;
  for (const Digit& digit : digits_)
    if (digit.moves) order *= digit.size;
  return order;
}

int Translations::translated(int rank, int by) const {
  for (const Digit& digit : digits_) {
    if (!digit.moves) continue;
    const int value = rank / digit.stride % digit.size, step = by / digit.stride % digit.size;
    rank += ((value + step) % digit.size - value) * digit.stride;
  }
  return rank;
}

int Translations::opposite(int by) const {
  int opposite = 0;
  for (const Digit& digit : digits_)
    if (digit.moves) opposite += (digit.size - by / digit.stride % digit.size) % digit.size * digit.stride;
  return opposite;
}

int Translations::representative_of(int rank) const { return rank - offset_of(rank); }

int Translations::offset_of(int rank) const {
  int offset = 0;
  for (const Digit& digit : digits_)
    if (digit.moves) offset += rank / digit.stride % digit.size * digit.stride;
  return offset;
}

std::vector<int> Translations::all() const {
  std::vector<int> offsets{0};
  for (const Digit& digit : digits_) {
    if (!digit.moves) continue;
    const std::size_t known = offsets.size();
    for (int value = 1; value < digit.size; ++value)
      for (std::size_t i = 0; i < known; ++i) offsets.push_back(offsets[i] + value * digit.stride);
  }
  std::sort(offsets.begin(), offsets.end());
  return offsets;
}

}  // namespace tutti
