// What a leader of the agreement on survivors proposes: a set of members that go on, each with what it brought. Plain
// values, and how they travel.
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/wire.hpp"

namespace tutti {

using MemberSet = std::vector<bool>;
std::size_t count(const MemberSet& set);
std::vector<int> listed(const MemberSet& set);

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
  std::vector<Blob> blobs;  // one per member of the set; none where only the set is known

  bool adopted() const { return ballot != origin; }

  void encode(WireWriter& out, bool with_blobs) const;
  /// Nothing if the bytes are no proposal for so many members.
  static std::optional<ShrinkProposal> decode(WireReader& in, int members);
};

}  // namespace tutti
