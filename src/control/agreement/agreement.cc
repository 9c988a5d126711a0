#include "control/agreement/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <variant>

namespace tutti {
namespace {

Error declared_dead() { return fail(ErrorCode::rank_died, "the other members declared this one dead").value(); }

}  // namespace

Agreement::Agreement(int members, int self, AgreementTiming timing, Quorum quorum, int fan_out)
    : members_(members),
      self_(self),
      losses_(members, quorum),
      timers_(timing),
      visits_(timing.grace, members > fan_out + 1),
      mail_(members, self, fan_out) {}

void Agreement::start(double now, std::span<const Loss> losses, Blob blob) {
  if (started_) return;
  for (const Loss& loss : losses)
    if (loss.member != self_) on_death(now, loss);
  started_ = true;
  blob_ = std::move(blob);
  timers_.start(now);
  if (losses_.is_dead(self_)) return outcome_.fail(declared_dead());  // before it started
  enter_term(now, 0);
  for (const AgreementPacket& early : std::exchange(early_, {})) on_message(now, early.member, early.bytes);
}

void Agreement::on_message(double now, int from, std::span<const std::byte> bytes) {
  on_message(now, from, std::make_shared<const Blob>(bytes.begin(), bytes.end()));
}

void Agreement::on_message(double now, int from, SharedBytes bytes) {
  if (from < 0 || from >= members_ || from == self_) return;
  if (!started_) return early_.push_back({from, std::move(bytes)});
  auto message = decode_agreement_message(*bytes, members_, bytes);
  const auto dispatch = [&]<typename Message>(Message& each) {
    if constexpr (kIsForAll<Message>)
      take(now, {from, from, nullptr}, each);
    else
      receive(now, from, std::move(each));
  };
  if (message) std::visit(dispatch, *message);
}

void Agreement::on_death(double now, Loss loss) {
  if (loss.member < 0 || loss.member >= members_) return;
  const bool was_dead = losses_.is_dead(loss.member);
  if (!losses_.add(loss) || !open()) return;
  if (loss.member == self_) {
    outcome_.fail(declared_dead());
  } else if (!was_dead && loss.member == leader_of(term_)) {
    enter_term(now, term_ + 1);
  } else if (leading_) {
    visits_.hasten(now);  // others may have been below it
    count_accepts(now);
    collect_joins(now);
  } else if (!was_dead) {
    following_->lost(loss.member, losses_.living());
    send_up(following_->take_joins(now));
    send_up(following_->take_accepts(now));
  }
}

void Agreement::tick(double now) {
  if (!open()) return;
  if (timers_.must_refuse(now)) return refuse();
  if (timers_.is_over(now)) return give_up();
  if (following_) {
    send_up(following_->take_joins(now));
    send_up(following_->take_accepts(now));
  }
  if (leading_ && visits_.is_due(now)) visit(now);
  if (!timers_.wait_is_over(now)) return;
  if (!leading_) return enter_term(now, term_ + 1);
  leading_->drop_silent();
  collect_joins(now);
}

double Agreement::next_tick() const {
  if (!open()) return AgreementTimers::kNever;
  const bool waits = !leading_ || leading_->waits();
  return std::min(timers_.next_tick(waits), leading_ ? visits_.next_tick() : following_->next_tick());
}

void Agreement::receive(double now, int from, const CastMessage& cast) {
  if (cast.root == self_) return;
  const auto message = decode_agreement_message(cast.message, members_, cast.owner);
  if (!message) return;
  const MemberTree tree = mail_.draw_tree(cast.root, cast.present, cast.asked);
  const auto dispatch = [&]<typename Message>(const Message& each) {
    if constexpr (kIsForAll<Message>)
      return take(now, {cast.root, from, &tree}, each);
    else
      return false;
  };
  if (std::visit(dispatch, *message)) mail_.pass_on(*message, tree, cast.owner, losses_.living());
}

void Agreement::receive(double now, int from, JoinMessage join) {
  receive(now, from, joins_of(members_, from, std::move(join)));
}

void Agreement::receive(double now, int from, JoinsMessage joins) {
  if (joins.blobs.size() != joins.members.count() || !admits_joins(now, from, joins.term)) return;
  if (leading_) {
    leading_->add_joins(std::move(joins));
    mail_.send(from, WaitMessage{term_, timers_.seconds_left(now)});
    return collect_joins(now);
  }
  following_->add_joins(now, from, std::move(joins));
  mail_.send(from, WaitMessage{term_, timers_.seconds_said(now)});
  send_up(following_->take_joins(now));
}

// Answers a join that leads nowhere, and enters its term if that is newer.
bool Agreement::admits_joins(double now, int from, int term) {
  if (decided()) {
    mail_.send(from, *outcome_.decision());
  } else if (has_returned()) {
    mail_.send(from, withdrawal_of(members_, self_));
  } else {
    if (term > term_) enter_term(now, term);
    if (term == term_ && open()) return true;
    if (open()) mail_.send(from, FollowMessage{term_});
  }
  return false;
}

void Agreement::receive(double now, int from, const WaitMessage& wait) {
  if (!open() || wait.term != term_ || leading_) return;
  if (from != leader_of(term_) && from != following_->above()) return;
  timers_.wait_for_leader(now, wait.seconds);
  if (!following_->extend_wait(timers_.wait_until())) return;
  for (const int child : following_->children()) mail_.send(child, WaitMessage{term_, timers_.seconds_said(now)});
}

void Agreement::receive(double now, int from, const AcceptMessage& accept) {
  receive(now, from, AcceptsMessage{accept.ballot, MemberSet::of(losses_.living().size(), from)});
}

void Agreement::receive(double now, int from, const AcceptsMessage& accepts) {
  if (decided()) mail_.send(from, *outcome_.decision());  // whoever was to pass it on may have died
  if (!open()) return;
  if (leading_ && leading_->accept(accepts.members, accepts.ballot)) return count_accepts(now);
  if (following_ && following_->add_accepts(now, accepts)) send_up(following_->take_accepts(now));
}

bool Agreement::take(double now, const CastPath& path, const FollowMessage& message) {
  const bool asked = path.tree != nullptr && path.tree->asked()[static_cast<std::size_t>(self_)];
  if (has_returned() && !decided()) {
    if (asked) mail_.send(path.hop, withdrawal_of(members_, self_));
    return true;
  }
  follow(now, message);
  if (!open() || message.term != term_ || !following_) return false;
  if (path.tree != nullptr && !path.tree->asked().empty()) {
    following_->visited(path.hop, *path.tree, losses_.living());
    send_up(following_->take_joins(now));
  }
  return true;
}

void Agreement::follow(double now, const FollowMessage& message) {
  const int leader = leader_of(message.term);
  if (decided()) {
    if (leader != self_) mail_.send(leader, *outcome_.decision());
  } else if (message.term > term_) {
    enter_term(now, message.term);
  } else if (message.term < term_ && leader != self_) {
    mail_.send(leader, FollowMessage{term_});
  }
}

bool Agreement::take(double now, const CastPath& path, const ProposeMessage& message) {
  const ShrinkProposal& proposal = message.proposal;
  const int leader = leader_of(proposal.ballot.term);
  if (leader != path.speaker || proposal.blobs.size() != count(proposal.set)) return false;
  if (decided()) {
    mail_.send(leader, *outcome_.decision());
    return false;
  }
  return !open() || consider(now, path, proposal);
}

// Accepts a proposal, or says why not. Returns whether others may still accept it.
bool Agreement::consider(double now, const CastPath& path, const ShrinkProposal& proposal) {
  const Ballot ballot = proposal.ballot;
  if (ballot.term < term_) {
    mail_.send(path.speaker, FollowMessage{term_});
    return false;
  }
  if (ballot.term > term_) enter_term(now, ballot.term);
  if (ballot.term != term_ || !open()) return false;  // its leader is dead already
  // A proposal may overtake an earlier one on another way.
  if (accepted_ && ballot < accepted_->ballot) return false;
  timers_.wait_for_decision(now, mail_.seconds_to_all(proposal.blobs.bytes()));
  if (!proposal.set[static_cast<std::size_t>(self_)]) return true;

  // The leader may not know of these deaths yet; a set without the dead is worth another round.
  const LossMessage dead{proposal.set & losses_.known(), proposal.set & losses_.presumed()};
  if (!proposal.adopted() && count(dead.known) + count(dead.presumed) != 0) {
    mail_.send(path.hop, dead);
    return false;
  }
  following_->accept(now, path.hop, path.tree, ballot, proposal.set & losses_.living());
  accepted_ = proposal;
  send_up(following_->take_accepts(now));
  return true;
}

bool Agreement::take(double, const CastPath& path, const CommitMessage& commit) {
  // Nothing is committed that its members have not accepted.
  const bool is_accepted = accepted_ && accepted_->origin == commit.origin && accepted_->set == commit.set;
  if (open() && (is_accepted || !commit.set[static_cast<std::size_t>(self_)]))
    decide(commit, path.tree != nullptr ? path.tree->everyone() : MemberSet(commit.set.size()));
  return true;  // also if it is known: those below may not have heard it
}

bool Agreement::take(double now, const CastPath& path, const LossMessage& loss) {
  const bool is_below = following_ && following_->expects_accept_of(path.speaker);
  for (const int member : listed(loss.known)) on_death(now, {member, Certainty::known});
  for (const int member : listed(loss.presumed)) on_death(now, {member, Certainty::presumed});
  // An objection to the proposal, on its way to the leader.
  if (is_below && open() && following_) send_up(following_->object(loss, accepted_->set));
  return true;
}

// A leader that lacks a quorum speaks for those who follow it. To others it has only given up.
bool Agreement::take(double now, const CastPath& path, const RefuseMessage& refuse) {
  if (open() && refuse.term == term_ && path.speaker == leader_of(term_))
    outcome_.fail(no_quorum_error(refuse.silent));
  else
    on_death(now, {path.speaker, Certainty::presumed});
  return true;
}

void Agreement::enter_term(double now, int term) {
  while (losses_.is_dead(leader_of(term))) ++term;
  const bool first = term_ < 0;
  term_ = term;
  timers_.enter_term(now);
  visits_.stop();
  const std::set<int> children = following_ ? following_->children() : std::set<int>();
  leading_.reset();
  following_.reset();
  // They wait for this member, in a term that is over.
  for (const int child : children)
    if (!losses_.is_dead(child)) mail_.send(child, FollowMessage{term});
  if (leader_of(term) == self_) return lead(now, first);
  MemberTree tree = mail_.draw_tree(leader_of(term), losses_.living(), MemberSet(losses_.living().size()));
  following_.emplace(now, self_, std::move(tree), JoinMessage{term_, blob_, accepted_}, timers_.grace(),
                     timers_.wait_until());
  send_up(following_->take_joins(now));
}

void Agreement::send_up(const std::optional<FollowerTerm::UpwardMessage>& due) {
  if (due) mail_.send(due->to, due->message);
}

void Agreement::lead(double now, bool first) {
  leading_.emplace(members_, self_, JoinMessage{term_, blob_, accepted_});
  // At first everyone comes by itself.
  if (!first) mail_.cast(FollowMessage{term_}, losses_.living());
  visits_.begin(now, timers_.grace(), timers_.wait_until());
  collect_joins(now);
}

void Agreement::collect_joins(double now) {
  if (!open()) return;
  if (timers_.wait_is_over(now)) leading_->stop_waiting_for_joins();
  if (leading_->is_ready(losses_)) propose(now);
}

void Agreement::propose(double now) {
  if (!losses_.allows(leading_->joined(losses_))) {
    if (leading_->joins_are_complete(losses_)) timers_.refuse_soon(now);
    return;
  }
  timers_.stop_refusing();
  const ShrinkProposal& proposal = leading_->propose(losses_);
  const double transfer = mail_.seconds_to_all(proposal.blobs.bytes());
  mail_.cast(ProposeMessage{proposal}, proposal.set & losses_.living());
  timers_.wait_for_accepts(now, transfer);
  visits_.begin(now, timers_.grace() / 2 + transfer, timers_.wait_until());
  count_accepts(now);
}

void Agreement::count_accepts(double now) {
  switch (leading_->tally(losses_)) {
    case LeaderTerm::Tally::open:
      return;
    case LeaderTerm::Tally::member_died:
      leading_->withdraw_proposal();
      return collect_joins(now);
    case LeaderTerm::Tally::no_quorum:
      timers_.refuse_soon(now);
      return;
    case LeaderTerm::Tally::accepted:
      const ShrinkProposal& proposal = leading_->proposal();
      if (proposal.set[static_cast<std::size_t>(self_)]) accepted_ = proposal;
      decide({proposal.origin, proposal.set}, MemberSet(proposal.set.size()));
  }
}

// Asks those whose answer is missing once more. If they are many, it asks as many as those who have answered can reach,
// and then others, whoever they are: some may have joins of whole branches.
void Agreement::visit(double now) {
  visits_.stop();
  const MemberSet missing = leading_->missing(losses_);
  if (missing.empty()) return;
  const auto fan_out = static_cast<std::size_t>(mail_.fan_out());
  // A few are asked directly, so that nobody else has to relay.
  const MemberSet present =
      missing.count() <= fan_out ? MemberSet::of(missing.size(), self_) : leading_->answered(losses_);
  const MemberSet asked = visits_.choose(missing, present.count() * fan_out);
  if (leading_->has_proposed())
    mail_.cast(ProposeMessage{leading_->proposal()}, present, asked, losses_.living());
  else
    mail_.cast(FollowMessage{term_}, present, asked, losses_.living());
  if (!leading_->has_proposed() && asked == missing) visits_.slow_down();
  visits_.plan(now, timers_.wait_until());
  if (asked != missing) visits_.hasten(now);
}

// `told`: those who hear of it anyway.
void Agreement::decide(const CommitMessage& decision, const MemberSet& told) {
  const MemberSet& living = losses_.living();
  if (leading_) mail_.cast(decision, decision.set & living, living - decision.set, living);
  if (following_)
    for (const int child : following_->children())
      if (!told[static_cast<std::size_t>(child)]) mail_.send(child, decision);
  following_.reset();
  if (decision.set[static_cast<std::size_t>(self_)])
    outcome_.survive(decision, *accepted_);
  else
    outcome_.leave_out(decision);
}

void Agreement::give_up() {
  const std::string waited_for =
      leading_ ? fmt::format("no answer from members {}, and too few are left to go on without them",
                             leading_->missing(losses_).to_string())
               : fmt::format("member {} did not answer", leader_of(term_));
  outcome_.fail(fail(ErrorCode::timed_out, fmt::format("the survivors could not agree: {}", waited_for)).value());
  const LossMessage withdrawal = withdrawal_of(members_, self_);
  if (leading_ || !mail_.is_deep()) return mail_.cast(withdrawal, losses_.living());
  // If all give up at once, each is to tell a few only; others hear of it when they ask.
  mail_.send(following_->above(), withdrawal);
  for (const int child : following_->children()) mail_.send(child, withdrawal);
}

void Agreement::refuse() {
  outcome_.fail(no_quorum_error(losses_.presumed()));
  mail_.cast(RefuseMessage{term_, losses_.presumed()}, losses_.living());
}

}  // namespace tutti
