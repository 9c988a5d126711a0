// Survivors agree on who survives: a state machine without sockets, threads or clock of its own.
//
// Members 0..n-1 each hold one Agreement and feed it messages, deaths and the time; it emits messages and in the end a
// result. The leader (member `term % n`) collects a join from everyone, proposes the set of those who joined, and
// commits once all of the set have accepted. When a leader dies or stays silent the term grows, and the next living
// member leads. A new leader carries on with what earlier leaders may have committed: it adopts an accepted set, unless
// a member of that set that joined it did not accept it, which proves that the set was never committed.
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
//  - whoever started in time and is heard by the others is in it; whoever was known dead is not. A member of the set
//    may die later;
//  - everyone who lives returns, with a set or an error, within 2 join_wait + 12 grace of its start.
//
// Not thread-safe. Keep feeding it until every survivor has returned: a survivor whose leader died between two commits
// asks the others.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/wire.hpp"
#include "control/agreement/agreement_message.hpp"
#include "control/agreement/leader_term.hpp"
#include "control/agreement/loss_set.hpp"
#include "tutti/error.hpp"
#include "tutti/shrink.hpp"

namespace tutti {

struct Survivors {
  std::vector<int> members;  // ascending
  std::vector<Blob> blobs;   // blobs[i] is what members[i] brought

  bool operator==(const Survivors&) const = default;
};

struct AgreementTiming {
  double join_wait = 10.0;  // seconds to wait for members that have not started
  double grace = 1.0;       // seconds to wait for an answer of a member that has
};

/// A message, and the member that it goes to or comes from.
struct AgreementPacket {
  int member;
  Blob bytes;
};

class Agreement {
 public:
  Agreement(int members, int self, AgreementTiming timing = {}, Quorum quorum = Quorum::majority);

  /// Takes part, with the losses that this member has heard of, and a blob for everyone. Times are seconds of one
  /// clock.
  void start(double now, std::span<const Loss> losses, Blob blob);
  /// Messages that come before start() are kept. Malformed ones are ignored.
  void on_message(double now, int from, std::span<const std::byte> bytes);
  /// Returns whether `from` says with this message that it takes part no more. To a member that has not started the
  /// message then means as much as if `from` had not started, either: it may do so again.
  static bool is_withdrawal(int members, int from, std::span<const std::byte> bytes);
  /// A death that was presumed may be reported again, once it is known.
  void on_death(double now, Loss loss);
  void tick(double now);

  /// When to call tick() at the latest; infinity when nothing is waited for.
  double next_tick() const;
  /// What is to be sent, in order; empties the list.
  std::vector<AgreementPacket> take_outgoing() { return std::exchange(outgoing_, {}); }
  /// Empty while undecided. Set once, never changes.
  const std::optional<Result<Survivors>>& result() const { return result_; }
  /// The members have decided, with or without this one: others may ask it what.
  bool decided() const { return decision_.has_value(); }

 private:
  int leader_of(int term) const { return term % members_; }
  bool open() const { return started_ && !result_; }
  MemberSet everyone() const { return MemberSet(members_, true); }

  void decode_and_receive(double now, int from, std::span<const std::byte> bytes);
  void receive(double now, int from, JoinMessage join);
  void receive(double now, int from, const WaitMessage& wait);
  void receive(double now, int from, const FollowMessage& follow);
  void receive(double now, int from, ProposeMessage message);
  void receive(double now, int from, const AcceptMessage& accept);
  void receive(double now, int from, const CommitMessage& commit);
  void receive(double now, int from, const LossMessage& loss);
  void receive(double now, int from, const RefuseMessage& refuse);

  void enter_term(double now, int term);
  void collect_joins(double now);
  void propose(double now);
  void count_accepts(double now);
  void extend_limit(double now, double seconds);
  void decide(CommitMessage decision);
  void give_up();
  void refuse();
  LossMessage withdrawal() const;

  void send(int member, const AgreementMessage& message) { outgoing_.push_back({member, encode(message)}); }
  /// Sends to those of `set` that live, but this one.
  void send_to_living(const MemberSet& set, const AgreementMessage& message);
  void send_join();

  int members_;
  int self_;
  AgreementTiming timing_;

  bool started_ = false;
  Blob blob_;
  LossSet losses_;
  std::vector<AgreementPacket> early_;  // messages that came before start()

  double join_deadline_ = 0;
  double limit_ = 0;       // when to give up
  double last_limit_ = 0;  // what limit_ may grow to
  double wait_until_ = 0;  // leader: for joins, or for accepts; follower: for a sign of the leader
  double refuse_at_ = 0;   // leader: the rest are too few; unless a presumed death becomes known till then

  int term_ = -1;
  std::optional<LeaderTerm> leading_;       // if this member leads the present term
  std::optional<ShrinkProposal> accepted_;  // the last one; that of a leader's own term only once committed

  std::optional<CommitMessage> decision_;
  std::optional<Result<Survivors>> result_;
  std::vector<AgreementPacket> outgoing_;
};

}  // namespace tutti
