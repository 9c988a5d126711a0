// The members of an agreement that are dead, and whether the others may go on without them: the rule of the quorum.
//
// A member that is known to be dead may always be left out. One that is presumed dead, or that lives, may be left out
// only by a quorum of all members, the dead counted (tutti/shrink.hpp); otherwise two parts of a network could go on
// apart. Quorum::none lifts the rule for those who are presumed dead. Plain values; one thread at a time.
#pragma once

#include "control/agreement/member_set.hpp"
#include "control/death.hpp"
#include "tutti/error.hpp"
#include "tutti/shrink.hpp"

namespace tutti {

/// A member that is dead, or presumed to be.
struct Loss {
  int member;
  Certainty certainty;

  bool operator==(const Loss&) const = default;
};

class LossSet {
 public:
  LossSet(int members, Quorum quorum)
      : quorum_(quorum),
        known_(static_cast<std::size_t>(members)),
        presumed_(known_.size()),
        living_(known_.size(), true) {}

  /// Returns false if that is no news. A death that is known is never presumed again.
  bool add(Loss loss);

  bool is_dead(int member) const { return !living_[static_cast<std::size_t>(member)]; }
  const MemberSet& living() const { return living_; }
  const MemberSet& known() const { return known_; }
  const MemberSet& presumed() const { return presumed_; }
  /// Returns whether the members of `set` may go on without all others.
  bool allows(const MemberSet& set) const;

 private:
  bool has_quorum(const MemberSet& set) const;

  Quorum quorum_;
  MemberSet known_;
  MemberSet presumed_;
  MemberSet living_;  // neither
};

/// Returns the error of those who may not go on without `silent`.
Error no_quorum_error(const MemberSet& silent);

}  // namespace tutti
