// Survivors agree on who survives: a state machine without sockets, threads or clock of its own.
//
// Members 0..n-1 each hold one Agreement and feed it messages, deaths and the time; it emits messages and in the end a
// result. The leader (member `term % n`) collects a join from everyone, proposes the set of those who joined, and
// commits once all of the set have accepted. When a leader dies or stays silent the term grows, and the next living
// member leads. A new leader carries on with what earlier leaders may have committed: it adopts an accepted set, unless
// a member of that set that joined it did not accept it, which proves that the set was never committed.
//
// Among more than 4,096 members messages travel by trees (member_tree.hpp), whose members have at most 8 below them
// (8 more in a repair):
// what the leader says is cast down a tree, joins and accepts are gathered up. So a member sends and receives a number
// of messages that does not grow with n, in a number of steps that grows with its logarithm. Everything but the table
// of blobs is a few bytes; the table comes to each member once, unless a proposal has to be made again. A tree is
// repaired in two ways: whoever is below a dead member turns to the next one above, and the leader visits those whose
// answer is missing, before it goes on without them, by a tree in which all who answered come first. Nothing of this is
// needed for the guarantees below, which rest on ballots alone.
//
// A member may be left out for three reasons: it is known to be dead; it is presumed dead, which means silent; or it
// lives and did not start within `join_wait`, and then gets an error when it does. Leaving out a member of the last two
// kinds takes a quorum (tutti/shrink.hpp), otherwise two halves could go on apart. Those who lack it return no_quorum,
// or timed_out if they waited for a living member.
//
// Guarantees, provided that a member known to be dead is dead, and messages between members that hear each other arrive
// in order:
//  - members that return a set return the same set and blobs, also if the network falls apart and heals (but for
//    Quorum::none, with which each part returns a set of its own);
//  - whoever started in time and is heard by the others is in it, unless one leader after another is silent, or, among
//    many, several stand still at once that others depend on; whoever was known dead is not. A member of the set may
//    die later;
//  - everyone who lives returns, with a set or an error, within 2 join_wait + 12 grace of its start.
//
// In each term a member leads (LeaderTerm) or follows (FollowerTerm). Agreement takes it from term to term, and carries
// what these two say to the other members: AgreementMail knows the trees, AgreementTimers how long to wait.
//
// Not thread-safe. Keep feeding it until every survivor has returned: a survivor whose leader died between two commits
// asks the others.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/wire.hpp"
#include "control/agreement/agreement_mail.hpp"
#include "control/agreement/agreement_message.hpp"
#include "control/agreement/agreement_outcome.hpp"
#include "control/agreement/agreement_timers.hpp"
#include "control/agreement/follower_term.hpp"
#include "control/agreement/leader_term.hpp"
#include "control/agreement/loss_set.hpp"
#include "control/agreement/visit_schedule.hpp"
#include "tutti/error.hpp"
#include "tutti/shrink.hpp"

namespace tutti {

class Agreement {
 public:
  Agreement(int members, int self, AgreementTiming timing = {}, Quorum quorum = Quorum::majority)
      : Agreement(members, self, timing, quorum, g_agreement_trees.fan_out_for(members)) {}
  /// All members must have the same fan-out.
  Agreement(int members, int self, AgreementTiming timing, Quorum quorum, int fan_out);

  /// Takes part, with the losses that this member has heard of, and a blob for everyone. Times are seconds of one
  /// clock.
  void start(double now, std::span<const Loss> losses, Blob blob);
  /// Messages that come before start() are kept. Malformed ones are ignored.
  void on_message(double now, int from, std::span<const std::byte> bytes);
  /// The same without a copy of a large one.
  void on_message(double now, int from, SharedBytes bytes);
  /// A death that was presumed may be reported again, once it is known.
  void on_death(double now, Loss loss);
  void tick(double now);

  /// When to call tick() at the latest; infinity when nothing is waited for.
  double next_tick() const;
  /// What is to be sent, in order; empties the list.
  std::vector<AgreementPacket> take_outgoing() { return mail_.take(); }
  /// Empty while undecided. Set once, never changes. The first call after that makes a copy of the table.
  const std::optional<Result<Survivors>>& result() const { return outcome_.result(); }
  /// Returns whether there is a result.
  bool has_returned() const { return outcome_.is_known(); }
  /// The members have decided, with or without this one: others may ask it what.
  bool decided() const { return outcome_.decision().has_value(); }
  /// What they have decided.
  const MemberSet& decided_set() const { return outcome_.decision()->set; }

 private:
  /// Which way a message came that is for all: its `speaker` cast it by `tree`, and `hop` passed it on. Without a tree
  /// the two are the same.
  struct CastPath {
    int speaker;
    int hop;
    const MemberTree* tree;
  };

  int leader_of(int term) const { return term % members_; }
  bool open() const { return started_ && !has_returned(); }

  void receive(double now, int from, JoinMessage join);
  void receive(double now, int from, JoinsMessage joins);
  void receive(double now, int from, const WaitMessage& wait);
  void receive(double now, int from, const AcceptMessage& accept);
  void receive(double now, int from, const AcceptsMessage& accepts);
  void receive(double now, int from, const CastMessage& cast);
  bool admits_joins(double now, int from, int term);

  /// The same of messages that are for all. They return whether one that was cast is to be passed on.
  bool take(double now, const CastPath& path, const FollowMessage& follow);
  bool take(double now, const CastPath& path, const ProposeMessage& message);
  bool take(double now, const CastPath& path, const CommitMessage& commit);
  bool take(double now, const CastPath& path, const LossMessage& loss);
  bool take(double now, const CastPath& path, const RefuseMessage& refuse);
  void follow(double now, const FollowMessage& follow);
  bool consider(double now, const CastPath& path, const ShrinkProposal& proposal);

  void enter_term(double now, int term);
  void lead(double now, bool first);
  void collect_joins(double now);
  void propose(double now);
  void count_accepts(double now);
  void visit(double now);
  void send_up(const std::optional<FollowerTerm::UpwardMessage>& due);
  void decide(const CommitMessage& decision, const MemberSet& told);
  void give_up();
  void refuse();

  int members_;
  int self_;

  bool started_ = false;
  Blob blob_;
  LossSet losses_;
  std::vector<AgreementPacket> early_;  // messages that came before start()

  int term_ = -1;
  std::optional<LeaderTerm> leading_;       // if this member leads the present term
  std::optional<FollowerTerm> following_;   // if it does not, until it is decided
  std::optional<ShrinkProposal> accepted_;  // the last one; that of a leader's own term only once committed

  AgreementTimers timers_;
  VisitSchedule visits_;  // of this member while it leads
  AgreementMail mail_;
  AgreementOutcome outcome_;
};

}  // namespace tutti
