// What a leader of the agreement on survivors proposes: a set of members that go on, each with the blob it brought.
// Plain values.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <vector>

#include "base/wire.hpp"

namespace tutti {

using MemberSet = std::vector<bool>;

inline std::size_t count(const MemberSet& set) {
  return static_cast<std::size_t>(std::count(set.begin(), set.end(), true));
}

/// Returns the members of `set`, ascending.
inline std::vector<int> listed(const MemberSet& set) {
  std::vector<int> members;
  for (std::size_t member = 0; member < set.size(); ++member)
    if (set[member]) members.push_back(static_cast<int>(member));
  return members;
}

inline MemberSet intersection(MemberSet set, const MemberSet& other) {
  for (std::size_t member = 0; member < set.size(); ++member) set[member] = set[member] && other[member];
  return set;
}

// Terms first, then rounds within a term.
struct Ballot {
  static constexpr int kLastTerm = 1 << 30;  // no honest run comes near; keeps arithmetic on terms from the wire safe

  int term = -1;
  int round = -1;
  auto operator<=>(const Ballot&) const = default;
};

struct ShrinkProposal {
  Ballot ballot;  // under which it is proposed now
  Ballot origin;  // under which this set was first proposed: names it through all adoptions
  MemberSet set;
  std::vector<Blob> blobs;  // one per member of the set; none if only the set is known

  bool adopted() const { return ballot != origin; }
  bool operator==(const ShrinkProposal&) const = default;
};

}  // namespace tutti
