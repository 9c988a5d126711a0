// The place of a member that does not lead in the trees of an agreement: what it gathers from those below it, and whom
// that goes to. Plain values; one thread at a time.
#pragma once

#include <optional>
#include <set>

#include "control/agreement/gathering.hpp"
#include "control/agreement/join_book.hpp"
#include "control/agreement/member_tree.hpp"

namespace tutti {

/// In the tree of a term, drawn among those who lived, to this member's knowledge, when it entered the term.
struct JoinBranch {
  MemberTree tree;
  JoinBook joins;
  Gathering gathering;
  std::set<int> children{};  // whose joins came straight from them
  double told_until = 0;     // how long these were told to wait
};

/// In the tree of a proposal that this member has accepted.
struct AcceptBranch {
  Ballot ballot;
  std::optional<MemberTree> tree;  // none if the leader sent it directly
  Gathering gathering;
  MemberSet objected;  // members that were reported to the leader as dead
};

}  // namespace tutti
