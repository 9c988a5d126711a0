// What the leader of one term does: collects joins, proposes a set, and counts who accepts it.
//
// It hides which set is proposed. That is the set of all living members that joined; but if an earlier leader may have
// committed a set, it is that one. It may have, if some member accepted the set and no member of the set joined without
// having accepted it: a commit takes all of them. A proposal that is adopted in this way cannot be withdrawn, since
// nobody knows whether it was committed; one of this term's own can, as only this leader commits it.
//
// It has no clock and sends nothing: its owner does both. Not thread-safe.
#pragma once

#include <optional>
#include <utility>

#include "control/agreement/agreement_message.hpp"
#include "control/agreement/join_book.hpp"
#include "control/agreement/loss_set.hpp"

namespace tutti {

class LeaderTerm {
 public:
  enum class Tally {
    open,         // some have not accepted yet, or nothing is proposed
    member_died,  // a member of the set is dead: withdraw the proposal
    no_quorum,    // the rest have accepted, but some fell silent since it was proposed, and too few are left
    accepted,     // commit it
  };

  /// `own` is the leader's own join; it names the term.
  LeaderTerm(int members, int leader, JoinMessage own);

  void add_joins(JoinsMessage joins) { joins_.add(std::move(joins)); }
  bool joins_are_complete(const LossSet& losses) const;
  /// Returns the living members that joined.
  MemberSet joined(const LossSet& losses) const;
  /// Goes on without members that have not joined, as soon as it may.
  void stop_waiting_for_joins() { overdue_ = true; }
  /// Returns whether it is time to propose: nothing is proposed, and no more joins are waited for.
  bool is_ready(const LossSet& losses) const { return !poll_ && (overdue_ || joins_are_complete(losses)); }
  /// Returns whether the end of the wait would change anything.
  bool waits() const { return poll_ ? !poll_->proposal.adopted() : !overdue_; }

  /// Starts a new round of accepts.
  const ShrinkProposal& propose(const LossSet& losses);
  /// Returns false if nothing is proposed under this ballot.
  bool accept(const MemberSet& members, Ballot ballot);
  bool accept(int member, Ballot ballot);
  Tally tally(const LossSet& losses) const;
  bool has_proposed() const { return poll_.has_value(); }
  /// What was proposed last, and not withdrawn.
  const ShrinkProposal& proposal() const { return poll_->proposal; }
  void withdraw_proposal() { poll_.reset(); }
  /// Withdraws a proposal of this term's own, and forgets the joins of those who have not accepted it.
  void drop_silent();

  /// Returns the living members whose answer is missing; and those who have answered.
  MemberSet missing(const LossSet& losses) const;
  MemberSet answered(const LossSet& losses) const;

 private:
  struct Poll {
    ShrinkProposal proposal;
    MemberSet accepted;
  };

  ShrinkProposal fresh_proposal(Ballot ballot, const LossSet& losses) const;
  std::optional<ShrinkProposal> possibly_committed() const;
  MemberSet idle() const;

  int term_;
  int leader_;
  int round_ = 0;
  JoinBook joins_;
  bool overdue_ = false;
  std::optional<Poll> poll_;
};

}  // namespace tutti
