// What a member that does not lead does in one term: collects the joins and accepts of those below it in the trees of
// the agreement, until they are due to go to the member above it.
//
// Joins go up the tree that the member drew among those who lived, to its knowledge, when it entered the term; accepts
// go up the tree by which the proposal came. If the member above dies, what was gathered goes to the next one above
// that lives; on a visit of the leader, to whoever passed that on. LeaderTerm is its counterpart at the root.
//
// It has no clock and sends nothing: its owner does both. Not thread-safe.
#pragma once

#include <optional>
#include <set>

#include "control/agreement/agreement_message.hpp"
#include "control/agreement/gathering.hpp"
#include "control/agreement/join_book.hpp"
#include "control/agreement/member_tree.hpp"

namespace tutti {

class FollowerTerm {
 public:
  /// A message for the member above.
  struct UpwardMessage {
    int to;
    AgreementMessage message;
  };

  /// `tree` is that of the term's leader, `own` the member's own join, which names the term. Those below are told that
  /// it may take until `told_until`, once there are any. Pauses are parts of `grace`.
  FollowerTerm(double now, int self, MemberTree tree, JoinMessage own, double grace, double told_until);

  /// Returns the member that joins go to.
  int above() const { return joins_gathered_.to(); }
  /// Returns the members whose joins came straight from them.
  const std::set<int>& children() const { return children_; }
  /// Notes that the leader may be silent until `until`. Returns whether the children are to be told, which is whenever
  /// that is much later than they know.
  bool extend_wait(double until);

  void add_joins(double now, int from, JoinsMessage joins);
  /// Returns the joins that are due, if any.
  std::optional<UpwardMessage> take_joins(double now);
  /// The leader asks for joins by `tree`, in which `hop` is above this member: what went another way may be lost.
  void visited(int hop, const MemberTree& tree, const MemberSet& living);

  /// This member accepts a proposal that came from `hop`, by `tree` or, without one, from the leader itself; `set` are
  /// those that are to accept it and live. Once more under the same ballot if the leader asks again.
  void accept(double now, int hop, const MemberTree* tree, Ballot ballot, const MemberSet& set);
  /// Returns whether the accept of `member` is to come by this one.
  bool expects_accept_of(int member) const;
  /// Returns false if they are accepts of another ballot, which count for nothing.
  bool add_accepts(double now, const AcceptsMessage& accepts);
  /// Returns the accepts that are due, if any.
  std::optional<UpwardMessage> take_accepts(double now);
  /// Returns an objection to the proposal, to be sent to the leader: the dead of its `set` that were not yet reported.
  std::optional<UpwardMessage> object(const LossMessage& dead, const MemberSet& set);

  /// A member that may be above this one, or below it, is dead.
  void lost(int member, const MemberSet& living);
  /// Returns when to take joins and accepts at the latest.
  double next_tick() const;

 private:
  struct AcceptBranch {
    Ballot ballot;
    std::optional<MemberTree> tree;  // none if the leader sent the proposal itself
    Gathering gathered;
    MemberSet objected;  // members that were reported to the leader as dead
  };

  MemberSet alone() const { return MemberSet::of(joins_.members().size(), self_); }
  /// Returns who of `tree` answers by this member; if some are asked, only these do.
  MemberSet answers_below(const MemberTree& tree) const;
  void reroute(Gathering& gathered, const MemberTree* tree, int dead, const MemberSet& living) const;

  int self_;
  int term_;
  Blob blob_;  // of this member
  double grace_;
  double told_until_;
  MemberTree tree_;
  JoinBook joins_;
  Gathering joins_gathered_;
  std::set<int> children_;
  std::optional<AcceptBranch> accepts_;  // once it has accepted a proposal
};

}  // namespace tutti
