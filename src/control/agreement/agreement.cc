#include "control/agreement/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

namespace tutti {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

auto declared_dead() { return fail(ErrorCode::rank_died, "the other members declared this one dead"); }

}  // namespace

Agreement::Agreement(int members, int self, AgreementTiming timing, Quorum quorum)
    : members_(members), self_(self), timing_(timing), losses_(members, quorum) {}

void Agreement::start(double now, std::span<const Loss> losses, Blob blob) {
  if (started_) return;
  for (const Loss& loss : losses)
    if (loss.member != self_) on_death(now, loss);
  started_ = true;
  blob_ = std::move(blob);
  join_deadline_ = now + timing_.join_wait;
  limit_ = join_deadline_ + 6 * timing_.grace;
  last_limit_ = limit_ + timing_.join_wait + 6 * timing_.grace;
  if (losses_.is_dead(self_)) {  // declared dead before it started
    result_ = declared_dead();
    return;
  }
  enter_term(now, 0);
  for (const AgreementPacket& early : std::exchange(early_, {})) decode_and_receive(now, early.member, early.bytes);
}

void Agreement::on_message(double now, int from, std::span<const std::byte> bytes) {
  if (from < 0 || from >= members_ || from == self_) return;
  if (started_)
    decode_and_receive(now, from, bytes);
  else
    early_.push_back({from, Blob(bytes.begin(), bytes.end())});
}

bool Agreement::is_withdrawal(int members, int from, std::span<const std::byte> bytes) {
  const auto message = decode_agreement_message(bytes, members);
  if (!message) return false;
  const auto* loss = std::get_if<LossMessage>(&*message);
  if (loss == nullptr) return std::holds_alternative<RefuseMessage>(*message);
  return from >= 0 && from < members && loss->presumed[from];
}

void Agreement::on_death(double now, Loss loss) {
  if (loss.member < 0 || loss.member >= members_) return;
  const bool was_dead = losses_.is_dead(loss.member);
  if (!losses_.add(loss) || !open()) return;
  if (loss.member == self_) {
    result_ = declared_dead();
  } else if (!was_dead && loss.member == leader_of(term_)) {
    enter_term(now, term_ + 1);
  } else if (leading_) {
    count_accepts(now);
    collect_joins(now);
  }
}

void Agreement::tick(double now) {
  if (!open()) return;
  if (now >= refuse_at_) return refuse();
  if (now >= limit_) return give_up();
  if (now < wait_until_) return;
  if (!leading_) return enter_term(now, term_ + 1);
  leading_->drop_silent();
  collect_joins(now);
}

double Agreement::next_tick() const {
  if (!open()) return kNever;
  const bool waits = !leading_ || leading_->waits();
  return std::min({waits ? wait_until_ : kNever, refuse_at_, limit_});
}

void Agreement::decode_and_receive(double now, int from, std::span<const std::byte> bytes) {
  auto message = decode_agreement_message(bytes, members_);
  if (message) std::visit([&](auto& each) { receive(now, from, std::move(each)); }, *message);
}

void Agreement::receive(double now, int from, JoinMessage join) {
  if (leader_of(join.term) != self_) return;
  if (decision_) return send(from, *decision_);
  if (result_) return send(from, withdrawal());
  if (join.term < term_) return send(from, FollowMessage{term_});
  if (join.term > term_) enter_term(now, join.term);
  leading_->add_join(from, std::move(join));
  send(from, WaitMessage{term_, std::max(0.0, wait_until_ - now)});
  collect_joins(now);
}

void Agreement::receive(double now, int from, const WaitMessage& wait) {
  if (!open() || wait.term != term_ || from != leader_of(term_)) return;
  wait_until_ = now + wait.seconds + 2 * timing_.grace;
  extend_limit(now, wait.seconds);
}

void Agreement::receive(double now, int, const FollowMessage& follow) {
  const int leader = leader_of(follow.term);
  if (decision_) {
    if (leader != self_) send(leader, *decision_);
  } else if (open() && follow.term > term_) {
    enter_term(now, follow.term);
  } else if (open() && follow.term < term_ && leader != self_) {
    send(leader, FollowMessage{term_});
  }
}

void Agreement::receive(double now, int from, ProposeMessage message) {
  ShrinkProposal& proposal = message.proposal;
  const Ballot ballot = proposal.ballot;
  if (leader_of(ballot.term) != from || proposal.blobs.size() != count(proposal.set)) return;
  if (decision_) return send(from, *decision_);
  if (!open()) return;
  if (ballot.term < term_) return send(from, FollowMessage{term_});
  if (ballot.term > term_) enter_term(now, ballot.term);
  if (ballot.term != term_) return;  // its leader is dead already
  wait_until_ = now + 4 * timing_.grace;
  extend_limit(now, 0);
  if (!proposal.set[self_]) return;

  // The leader may not know of these deaths yet; a set without the dead is worth another round.
  const LossMessage dead{intersection(proposal.set, losses_.known()), intersection(proposal.set, losses_.presumed())};
  if (!proposal.adopted() && count(dead.known) + count(dead.presumed) != 0) return send(from, dead);
  accepted_ = std::move(proposal);
  send(from, AcceptMessage{ballot});
}

void Agreement::receive(double now, int from, const AcceptMessage& accept) {
  if (open() && leading_ && leading_->accept(from, accept.ballot)) count_accepts(now);
}

void Agreement::receive(double, int, const CommitMessage& commit) {
  if (!open()) return;
  // Nothing is committed that its members have not accepted.
  const bool is_accepted = accepted_ && accepted_->origin == commit.origin && accepted_->set == commit.set;
  if (is_accepted || !commit.set[self_]) decide(commit);
}

void Agreement::receive(double now, int, const LossMessage& loss) {
  for (const int member : listed(loss.known)) on_death(now, {member, Certainty::known});
  for (const int member : listed(loss.presumed)) on_death(now, {member, Certainty::presumed});
}

// A leader that lacks a quorum speaks for those who follow it. To others it has only given up.
void Agreement::receive(double now, int from, const RefuseMessage& refuse) {
  if (!open() || refuse.term != term_ || from != leader_of(term_)) return on_death(now, {from, Certainty::presumed});
  result_ = tl::unexpected(no_quorum_error(refuse.silent));
}

void Agreement::enter_term(double now, int term) {
  while (losses_.is_dead(leader_of(term))) ++term;
  const bool first = term_ < 0;
  term_ = term;
  refuse_at_ = kNever;
  wait_until_ = std::max(join_deadline_, now + 2 * timing_.grace);
  leading_.reset();
  if (leader_of(term) != self_) return send_join();
  leading_.emplace(members_, self_, JoinMessage{term, blob_, accepted_});
  // At first everyone comes by itself.
  if (!first) send_to_living(everyone(), FollowMessage{term});
  collect_joins(now);
}

void Agreement::collect_joins(double now) {
  if (!open()) return;
  if (now >= wait_until_) leading_->stop_waiting_for_joins();
  if (leading_->is_ready(losses_)) propose(now);
}

void Agreement::propose(double now) {
  if (!losses_.allows(leading_->joined(losses_))) {
    // News that a death is known may be on its way.
    if (leading_->joins_are_complete(losses_)) refuse_at_ = std::min(refuse_at_, now + 2 * timing_.grace);
    return;
  }
  refuse_at_ = kNever;
  const ShrinkProposal& proposal = leading_->propose(losses_);
  send_to_living(proposal.set, ProposeMessage{proposal});
  wait_until_ = now + 2 * timing_.grace;
  extend_limit(now, 0);
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
      refuse_at_ = std::min(refuse_at_, now + 2 * timing_.grace);
      return;
    case LeaderTerm::Tally::accepted:
      const ShrinkProposal& proposal = leading_->proposal();
      if (proposal.set[self_]) accepted_ = proposal;
      decide({proposal.origin, proposal.set});
  }
}

void Agreement::extend_limit(double now, double seconds) {
  limit_ = std::min(last_limit_, std::max(limit_, now + seconds + 6 * timing_.grace));
}

void Agreement::decide(CommitMessage decision) {
  const std::vector<int> members = listed(decision.set);
  if (decision.set[self_])
    result_ = Survivors{members, accepted_->blobs};
  else
    result_ = fail(
        ErrorCode::timed_out,
        fmt::format("the survivors went on without this member, which came too late: {}", fmt::join(members, ", ")));
  decision_ = std::move(decision);
  if (leading_) send_to_living(everyone(), *decision_);
}

void Agreement::give_up() {
  const std::string waited_for =
      leading_ ? fmt::format("no answer from members {}, and too few are left to go on without them",
                             fmt::join(listed(leading_->missing(losses_)), ", "))
               : fmt::format("member {} did not answer", leader_of(term_));
  result_ = fail(ErrorCode::timed_out, fmt::format("the survivors could not agree: {}", waited_for));
  send_to_living(everyone(), withdrawal());
}

void Agreement::refuse() {
  result_ = tl::unexpected(no_quorum_error(losses_.presumed()));
  send_to_living(everyone(), RefuseMessage{term_, losses_.presumed()});
}

// Whoever gives up lives, and may try again: to leave it out takes a quorum.
LossMessage Agreement::withdrawal() const {
  LossMessage loss{MemberSet(members_), MemberSet(members_)};
  loss.presumed[self_] = true;
  return loss;
}

void Agreement::send_to_living(const MemberSet& set, const AgreementMessage& message) {
  const Blob bytes = encode(message);
  for (const int member : listed(set))
    if (member != self_ && !losses_.is_dead(member)) outgoing_.push_back({member, bytes});
}

void Agreement::send_join() {
  const int leader = leader_of(term_);
  JoinMessage join{term_, blob_, accepted_};
  if (join.accepted && join.accepted->set[leader]) join.accepted->blobs.clear();  // the leader has them
  send(leader, join);
}

}  // namespace tutti
