// What a cell holds, symbolically: which ranks' contributions to which part of the operation, combined in which order.
// Values are immutable and held in a table; cells hold their numbers. Internal to the checker.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "program/check/check_orbits.hpp"

namespace tutti::checking {

struct Value {
  int extent = 0;  // which part of the operation, see check_cells.hpp
  int lowest = 0;  // contributing ranks
  int highest = 0;
  int ranks = 1;  // how many contribute
  int roundings = 0;
  int set = 0;             // its number in the table; a single contribution has none
  bool is_chain = false;   // ((x0 op x1) op x2) ...: strictly from rank 0 upwards
  bool is_ordered = true;  // operands from left to right go by rank, whatever the brackets
};

class ValueTable {
 public:
  /// `values`: so many are expected.
  ValueTable(int ranks, std::size_t values) : ranks_(ranks), words_((static_cast<std::size_t>(ranks) + 63) / 64) {
    values_.reserve(values);
  }

  const Value& operator[](int value) const { return values_[static_cast<std::size_t>(value)]; }
  bool is_complete(int value) const { return (*this)[value].ranks == ranks_; }
  bool contains(int value, int rank) const;

  /// What `rank` contributes to the part `extent`.
  int add_contribution(int rank, int extent);
  /// operands[0] op operands[1] op ..., rounded once. All have one extent; where contributions are counted twice the
  /// set keeps them once.
  int combine(std::span<const int> operands);
  /// What the value is on ranks that are translated so.
  int add_translated(int value, const Orbits& orbits, int translation);
  /// The lowest rank that contributes to both; -1 if none.
  int common_rank(int left, int right) const;
  /// "0-2, 5": the ranks that contribute, or those that do not.
  std::string list_members(int value) const { return list(value, true); }
  std::string list_missing(int value) const { return list(value, false); }

 private:
  std::string list(int value, bool members) const;
  void translate_members(Value& value, const Orbits& orbits, int translation);
  std::uint64_t* set_of(const Value& value) { return sets_.data() + static_cast<std::size_t>(value.set) * words_; }
  const std::uint64_t* set_of(const Value& value) const {
    return sets_.data() + static_cast<std::size_t>(value.set) * words_;
  }
  /// Gives the value an empty set.
  void add_set(Value& value) {
    value.set = static_cast<int>(sets_.size() / words_);
    sets_.resize(sets_.size() + words_, 0);
  }

  int ranks_;
  std::size_t words_;  // per set
  std::vector<Value> values_;
  std::vector<std::uint64_t> sets_;
};

}  // namespace tutti::checking
