#include "program/check/check_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tutti::checking {
namespace {

std::size_t word_of(int rank) { return static_cast<std::size_t>(rank) / 64; }
std::uint64_t bit_of(int rank) { return std::uint64_t{1} << (static_cast<unsigned>(rank) % 64U); }

}  // namespace

bool ValueTable::contains(int value, int rank) const {
  const Value& held = (*this)[value];
  if (held.ranks == 1) return held.lowest == rank;
  return (set_of(held)[word_of(rank)] & bit_of(rank)) != 0;
}

int ValueTable::add_contribution(int rank, int extent) {
  Value value;
  value.extent = extent;
  value.lowest = value.highest = rank;
  value.is_chain = rank == 0;
  values_.push_back(value);
  return static_cast<int>(values_.size()) - 1;
}

int ValueTable::combine(std::span<const int> operands) {
  Value result = (*this)[operands[0]];
  add_set(result);
  std::uint64_t* const set = set_of(result);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Value& operand = (*this)[operands[i]];
    if (i > 0) {
      result.is_chain = result.is_chain && operand.ranks == 1 && operand.lowest == result.highest + 1;
      result.is_ordered = result.is_ordered && operand.is_ordered && result.highest < operand.lowest;
      result.lowest = std::min(result.lowest, operand.lowest);
      result.highest = std::max(result.highest, operand.highest);
      result.roundings = std::max(result.roundings, operand.roundings);
    }
    if (operand.ranks == 1)
      set[word_of(operand.lowest)] |= bit_of(operand.lowest);
    else
      for (std::size_t word = 0; word < words_; ++word) set[word] |= set_of(operand)[word];
  }
  result.roundings += 1;
  result.ranks = 0;
  for (std::size_t word = 0; word < words_; ++word) result.ranks += std::popcount(set[word]);
  values_.push_back(result);
  return static_cast<int>(values_.size()) - 1;
}

int ValueTable::add_translated(int value, const Orbits& orbits, int translation) {
  Value result = (*this)[value];
  result.extent = orbits.translated_extent(result.extent, translation);
  if (result.ranks == 1) {
    result.lowest = result.highest = orbits.translated_rank(result.lowest, translation);
    result.is_chain = result.lowest == 0;
  } else {
    result.is_chain = result.is_ordered = false;  // what one rank does in rank order, those it is translated to do not
    if (result.ranks < ranks_) translate_members(result, orbits, translation);
  }
  values_.push_back(result);
  return static_cast<int>(values_.size()) - 1;
}

void ValueTable::translate_members(Value& value, const Orbits& orbits, int translation) {
  const Value before = value;
  add_set(value);
  value.lowest = ranks_;
  value.highest = -1;
  for (std::size_t word = 0; word < words_; ++word)
    for (std::uint64_t rest = set_of(before)[word]; rest != 0; rest &= rest - 1) {
      const int rank = orbits.translated_rank(static_cast<int>(word * 64) + std::countr_zero(rest), translation);
      set_of(value)[word_of(rank)] |= bit_of(rank);
      value.lowest = std::min(value.lowest, rank);
      value.highest = std::max(value.highest, rank);
    }
}

int ValueTable::common_rank(int left, int right) const {
  const Value& a = (*this)[left];
  const Value& b = (*this)[right];
  if (a.ranks == 1) return contains(right, a.lowest) ? a.lowest : -1;
  if (b.ranks == 1) return contains(left, b.lowest) ? b.lowest : -1;
  for (std::size_t word = 0; word < words_; ++word)
    if (const std::uint64_t both = set_of(a)[word] & set_of(b)[word])
      return static_cast<int>(word * 64) + std::countr_zero(both);
  return -1;
}

std::string ValueTable::list(int value, bool members) const {
  std::string text;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (contains(value, rank) != members) continue;
    const int first = rank;
    while (rank + 1 < ranks_ && contains(value, rank + 1) == members) ++rank;
    if (!text.empty()) text += ", ";
    text += first == rank ? fmt::format("{}", rank) : fmt::format("{}-{}", first, rank);
  }
  return text;
}

}  // namespace tutti::checking
