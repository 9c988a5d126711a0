// What a leader of the agreement on survivors proposes: a set of members that go on, each with the blob it brought.
// Plain values.
#pragma once

#include <compare>

#include "control/agreement/blob_table.hpp"
#include "control/agreement/member_set.hpp"

namespace tutti {

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
  BlobTable blobs;  // one per member of the set; none if only the set is known

  bool adopted() const { return ballot != origin; }
  bool operator==(const ShrinkProposal&) const = default;
};

}  // namespace tutti
