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
// Not thread-safe. Keep feeding it until every survivor has returned: a survivor whose leader died between two commits
// asks the others.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/wire.hpp"
#include "control/agreement/agreement_message.hpp"
#include "control/agreement/branch.hpp"
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

/// A message, and the member that it goes to or comes from. The same bytes may go to several.
struct AgreementPacket {
  int member;
  SharedBytes bytes;
};

/// Agreements of more than `above` members go by trees, in which `fan_out` stand below one. The same on all of them;
/// only tests change it.
struct AgreementTrees {
  int above = 4096;
  int fan_out = 8;
};
[[gnu::visibility("hidden")]] extern AgreementTrees g_agreement_trees;

class Agreement {
 public:
  /// Returns how many members a member sends to in a tree. Up to a few thousand the leader sends to all, so that one
  /// that is stopped delays no other.
  static int fan_out_for(int members) {
    return members <= g_agreement_trees.above ? members : g_agreement_trees.fan_out;
  }

  Agreement(int members, int self, AgreementTiming timing = {}, Quorum quorum = Quorum::majority)
      : Agreement(members, self, timing, quorum, fan_out_for(members)) {}
  /// All members must have the same fan-out.
  Agreement(int members, int self, AgreementTiming timing, Quorum quorum, int fan_out);

  /// Takes part, with the losses that this member has heard of, and a blob for everyone. Times are seconds of one
  /// clock.
  void start(double now, std::span<const Loss> losses, Blob blob);
  /// Messages that come before start() are kept. Malformed ones are ignored.
  void on_message(double now, int from, std::span<const std::byte> bytes);
  /// The same without a copy of a large one.
  void on_message(double now, int from, SharedBytes bytes);
  /// Returns whose message this is: that of `from`, or of a member whose message `from` passes on.
  static int speaker_of(int members, int from, std::span<const std::byte> bytes);
  /// Returns whether that member says with it that it takes part no more. To a member that has not started the message
  /// then means as much as if the other had not started, either: it may do so again.
  static bool is_withdrawal(int members, int from, std::span<const std::byte> bytes);
  /// A death that was presumed may be reported again, once it is known.
  void on_death(double now, Loss loss);
  void tick(double now);

  /// When to call tick() at the latest; infinity when nothing is waited for.
  double next_tick() const;
  /// What is to be sent, in order; empties the list.
  std::vector<AgreementPacket> take_outgoing() { return std::exchange(outgoing_, {}); }
  /// Empty while undecided. Set once, never changes. The first call after that makes a copy of the table.
  const std::optional<Result<Survivors>>& result() const;
  /// Returns whether there is a result.
  bool has_returned() const { return survived_ || error_; }
  /// The members have decided, with or without this one: others may ask it what.
  bool decided() const { return decision_.has_value(); }
  /// What they have decided.
  const MemberSet& decided_set() const { return decision_->set; }

 private:
  int leader_of(int term) const { return term % members_; }
  bool open() const { return started_ && !has_returned(); }
  bool is_deep() const { return members_ > fan_out_ + 1; }
  MemberSet nobody() const { return MemberSet(static_cast<std::size_t>(members_)); }
  MemberSet alone() const;

  void decode_and_receive(double now, int from, const SharedBytes& bytes);
  void receive(double now, int from, JoinMessage join);
  void receive(double now, int from, JoinsMessage joins);
  void receive(double now, int from, const WaitMessage& wait);
  void receive(double now, int from, const FollowMessage& follow);
  void receive(double now, int from, ProposeMessage message);
  void receive(double now, int from, const AcceptMessage& accept);
  void receive(double now, int from, const AcceptsMessage& accepts);
  void receive(double now, int from, const CommitMessage& commit);
  void receive(double now, int from, const LossMessage& loss);
  void receive(double now, int from, const RefuseMessage& refuse);
  void receive(double now, int from, const CastMessage& cast);

  /// The same of what was cast, and came by way of `hop`. They return whether it is to be passed on.
  bool take_cast(double now, int hop, const MemberTree& tree, AgreementMessage& message);
  bool take_follow(double now, int hop, const MemberTree& tree, const FollowMessage& follow);
  bool take_proposal(double now, int hop, const MemberTree* tree, ShrinkProposal proposal);
  void accept_proposal(double now, int hop, const MemberTree* tree, ShrinkProposal proposal);
  void take_commit(const CommitMessage& commit, const MemberSet& told);
  bool admits_joins(double now, int from, int term);
  void took_joins(double now, int from, const MemberSet& members);

  void enter_term(double now, int term);
  void follow_leader(double now);
  void lead(double now, bool first);
  void collect_joins(double now);
  void propose(double now);
  void count_accepts(double now);
  void visit(double now);
  MemberSet next_asked(const MemberSet& missing, std::size_t most);
  void schedule_visit(double now);
  void route_around(double now, int dead);
  int living_parent(const MemberTree& tree) const;
  void extend_limit(double now, double seconds);
  double transfer_seconds(const ShrinkProposal& proposal) const;
  double seconds_to_tell(double now) const;
  void decide(CommitMessage decision, const MemberSet& told);
  void give_up();
  void refuse();
  LossMessage withdrawal() const;

  void send(int member, const AgreementMessage& message) {
    outgoing_.push_back({member, std::make_shared<const Blob>(encode(message))});
  }
  /// Sends to all in both sets that live, but this one, by a tree; see MemberTree.
  void cast(const MemberSet& present, const MemberSet& asked, const AgreementMessage& message);
  void pass_on(const MemberTree& tree, const SharedBytes& bytes, bool only_to_asked);
  void add_living_children(const MemberTree& tree, int member, std::vector<int>& children) const;
  void send_joins(double now);
  void send_accepts(double now);

  int members_;
  int self_;
  AgreementTiming timing_;
  int fan_out_;

  bool started_ = false;
  Blob blob_;
  LossSet losses_;
  std::vector<AgreementPacket> early_;  // messages that came before start()

  double join_deadline_ = 0;
  double limit_ = 0;       // when to give up
  double last_limit_ = 0;  // what limit_ may grow to
  double wait_until_ = 0;  // leader: for joins, or for accepts; follower: for a sign of the leader
  double refuse_at_ = 0;   // leader: the rest are too few; unless a presumed death becomes known till then
  double visit_at_ = 0;    // leader: ask those whose answer is missing once more
  double visit_pause_ = 0;
  int visit_cursor_ = 0;  // whom to ask next, if not all are asked at once

  int term_ = -1;
  std::optional<LeaderTerm> leading_;       // if this member leads the present term
  std::optional<JoinBranch> branch_;        // if it does not
  std::optional<AcceptBranch> accepts_;     // if it has accepted a proposal of the present term
  std::optional<ShrinkProposal> accepted_;  // the last one; that of a leader's own term only once committed

  std::optional<CommitMessage> decision_;
  bool survived_ = false;
  std::optional<Error> error_;
  mutable std::optional<Result<Survivors>> result_;  // made when it is asked for
  std::vector<AgreementPacket> outgoing_;
};

}  // namespace tutti
