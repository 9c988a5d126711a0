#include "control/agreement/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

namespace tutti {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Error declared_dead() { return fail(ErrorCode::rank_died, "the other members declared this one dead").value(); }

}  // namespace

Agreement::Agreement(int members, int self, AgreementTiming timing, Quorum quorum, int fan_out)
    : members_(members), self_(self), timing_(timing), fan_out_(fan_out), losses_(members, quorum) {}

MemberSet Agreement::alone() const {
  MemberSet set = nobody();
  set.add(self_);
  return set;
}

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
    error_ = declared_dead();
    return;
  }
  enter_term(now, 0);
  for (const AgreementPacket& early : std::exchange(early_, {})) decode_and_receive(now, early.member, early.bytes);
}

void Agreement::on_message(double now, int from, std::span<const std::byte> bytes) {
  on_message(now, from, std::make_shared<const Blob>(bytes.begin(), bytes.end()));
}

void Agreement::on_message(double now, int from, SharedBytes bytes) {
  if (from < 0 || from >= members_ || from == self_) return;
  if (started_)
    decode_and_receive(now, from, bytes);
  else
    early_.push_back({from, std::move(bytes)});
}

int Agreement::speaker_of(int members, int from, std::span<const std::byte> bytes) {
  const auto message = decode_agreement_message(bytes, members);
  const auto* cast = message ? std::get_if<CastMessage>(&*message) : nullptr;
  return cast == nullptr ? from : cast->root;
}

bool Agreement::is_withdrawal(int members, int from, std::span<const std::byte> bytes) {
  const auto message = decode_agreement_message(bytes, members);
  if (!message) return false;
  if (const auto* cast = std::get_if<CastMessage>(&*message)) return is_withdrawal(members, cast->root, cast->message);
  const auto* loss = std::get_if<LossMessage>(&*message);
  if (loss == nullptr) return std::holds_alternative<RefuseMessage>(*message);
  return from >= 0 && from < members && loss->presumed[static_cast<std::size_t>(from)];
}

void Agreement::on_death(double now, Loss loss) {
  if (loss.member < 0 || loss.member >= members_) return;
  const bool was_dead = losses_.is_dead(loss.member);
  if (!losses_.add(loss) || !open()) return;
  if (loss.member == self_) {
    error_ = declared_dead();
  } else if (!was_dead && loss.member == leader_of(term_)) {
    enter_term(now, term_ + 1);
  } else if (leading_) {
    // Others may have been below it.
    if (is_deep()) visit_at_ = std::min(visit_at_, now + timing_.grace / 4);
    count_accepts(now);
    collect_joins(now);
  } else if (!was_dead) {
    route_around(now, loss.member);
  }
}

void Agreement::tick(double now) {
  if (!open()) return;
  if (now >= refuse_at_) return refuse();
  if (now >= limit_) return give_up();
  if (branch_) send_joins(now);
  if (accepts_) send_accepts(now);
  if (leading_ && now >= visit_at_) visit(now);
  if (now < wait_until_) return;
  if (!leading_) return enter_term(now, term_ + 1);
  leading_->drop_silent();
  collect_joins(now);
}

double Agreement::next_tick() const {
  if (!open()) return kNever;
  const bool waits = !leading_ || leading_->waits();
  const double passes_on =
      std::min(branch_ ? branch_->gathering.next_tick() : kNever, accepts_ ? accepts_->gathering.next_tick() : kNever);
  return std::min({waits ? wait_until_ : kNever, leading_ ? visit_at_ : kNever, passes_on, refuse_at_, limit_});
}

const std::optional<Result<Survivors>>& Agreement::result() const {
  if (!result_ && error_) result_ = tl::unexpected(*error_);
  if (!result_ && survived_) result_ = Survivors{listed(accepted_->set), accepted_->blobs.copies()};
  return result_;
}

void Agreement::decode_and_receive(double now, int from, const SharedBytes& bytes) {
  auto message = decode_agreement_message(*bytes, members_, bytes);
  if (message) std::visit([&](auto& each) { receive(now, from, std::move(each)); }, *message);
}

void Agreement::receive(double now, int from, JoinMessage join) {
  if (!admits_joins(now, from, join.term)) return;
  MemberSet members = nobody();
  members.add(from);
  if (leading_)
    leading_->add_join(from, std::move(join));
  else
    branch_->joins.add(from, std::move(join));
  took_joins(now, from, members);
}

void Agreement::receive(double now, int from, JoinsMessage joins) {
  if (joins.blobs.size() != joins.members.count() || !admits_joins(now, from, joins.term)) return;
  const MemberSet members = joins.members;
  if (leading_)
    leading_->add_joins(std::move(joins));
  else
    branch_->joins.add(std::move(joins));
  took_joins(now, from, members);
}

// Answers a join that leads nowhere, and enters its term if that is newer.
bool Agreement::admits_joins(double now, int from, int term) {
  if (decision_) {
    send(from, *decision_);
  } else if (has_returned()) {
    send(from, withdrawal());
  } else {
    if (term > term_) enter_term(now, term);
    if (term == term_ && open()) return true;
    if (open()) send(from, FollowMessage{term_});
  }
  return false;
}

void Agreement::took_joins(double now, int from, const MemberSet& members) {
  if (leading_) {
    send(from, WaitMessage{term_, std::max(0.0, wait_until_ - now)});
    return collect_joins(now);
  }
  branch_->children.insert(from);
  branch_->gathering.add(now, members);
  send(from, WaitMessage{term_, seconds_to_tell(now)});
  send_joins(now);
}

// What the leader said, as far as this member knows.
double Agreement::seconds_to_tell(double now) const { return std::max(0.0, wait_until_ - 2 * timing_.grace - now); }

void Agreement::receive(double now, int from, const WaitMessage& wait) {
  if (!open() || wait.term != term_ || leading_) return;
  if (from != leader_of(term_) && from != branch_->gathering.to()) return;
  wait_until_ = now + wait.seconds + 2 * timing_.grace;
  extend_limit(now, wait.seconds);
  if (wait_until_ < branch_->told_until + timing_.grace / 2) return;
  branch_->told_until = wait_until_;
  for (const int child : branch_->children) send(child, WaitMessage{term_, seconds_to_tell(now)});
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

bool Agreement::take_follow(double now, int hop, const MemberTree& tree, const FollowMessage& follow) {
  const bool asked = tree.asked()[static_cast<std::size_t>(self_)];
  if (has_returned() && !decision_) {
    if (asked) send(hop, withdrawal());
    return true;
  }
  receive(now, tree.root(), follow);
  if (!open() || follow.term != term_ || !branch_) return false;
  if (!tree.asked().empty()) {
    // Whoever is above this member in this tree has answered. What it gathers may have gone to one that did not.
    branch_->gathering.turn_to(hop);
    branch_->gathering.expect(tree.branch(self_) & (tree.asked() | alone()) & losses_.living());
    if (asked) branch_->gathering.send_again();
    send_joins(now);
  }
  return true;
}

void Agreement::receive(double now, int from, ProposeMessage message) {
  if (leader_of(message.proposal.ballot.term) == from) take_proposal(now, from, nullptr, std::move(message.proposal));
}

bool Agreement::take_proposal(double now, int hop, const MemberTree* tree, ShrinkProposal proposal) {
  const Ballot ballot = proposal.ballot;
  const int leader = leader_of(ballot.term);
  if (proposal.blobs.size() != count(proposal.set)) return false;
  if (decision_) {
    send(leader, *decision_);
    return false;
  }
  if (!open()) return true;
  if (ballot.term < term_) {
    send(leader, FollowMessage{term_});
    return false;
  }
  if (ballot.term > term_) enter_term(now, ballot.term);
  if (ballot.term != term_ || !open()) return false;  // its leader is dead already
  // A proposal may overtake an earlier one on another way.
  if (accepted_ && ballot < accepted_->ballot) return false;
  const double transfer = transfer_seconds(proposal);
  wait_until_ = now + 4 * timing_.grace + transfer;
  extend_limit(now, transfer);
  if (!proposal.set[static_cast<std::size_t>(self_)]) return true;

  // The leader may not know of these deaths yet; a set without the dead is worth another round.
  const LossMessage dead{proposal.set & losses_.known(), proposal.set & losses_.presumed()};
  if (!proposal.adopted() && count(dead.known) + count(dead.presumed) != 0) {
    send(hop, dead);
    return false;
  }
  accept_proposal(now, hop, tree, std::move(proposal));
  return true;
}

void Agreement::accept_proposal(double now, int hop, const MemberTree* tree, ShrinkProposal proposal) {
  const Ballot ballot = proposal.ballot;
  MemberSet expected = tree == nullptr ? alone() : tree->branch(self_) & proposal.set & losses_.living();
  if (tree != nullptr && !tree->asked().empty()) expected &= tree->asked() | alone();
  std::optional<MemberTree> own_tree;
  if (tree != nullptr) own_tree = *tree;
  if (accepts_ && accepts_->ballot == ballot) {  // the leader asks once more
    accepts_->tree = std::move(own_tree);
    accepts_->gathering.turn_to(hop);
    accepts_->gathering.expect(std::move(expected));
    accepts_->gathering.send_again();
  } else {
    accepts_ = AcceptBranch{ballot, std::move(own_tree), Gathering(hop, std::move(expected), timing_.grace), nobody()};
  }
  accepted_ = std::move(proposal);
  accepts_->gathering.add(now, alone());
  send_accepts(now);
}

void Agreement::receive(double now, int from, const AcceptMessage& accept) {
  MemberSet members = nobody();
  members.add(from);
  receive(now, from, AcceptsMessage{accept.ballot, std::move(members)});
}

void Agreement::receive(double now, int from, const AcceptsMessage& accepts) {
  if (decision_) send(from, *decision_);  // whoever was to pass it on may have died
  if (!open()) return;
  if (leading_ && leading_->accept(accepts.members, accepts.ballot)) return count_accepts(now);
  if (!accepts_ || accepts_->ballot != accepts.ballot) return;
  accepts_->gathering.add(now, accepts.members);
  send_accepts(now);
}

void Agreement::receive(double, int, const CommitMessage& commit) { take_commit(commit, nobody()); }

void Agreement::take_commit(const CommitMessage& commit, const MemberSet& told) {
  if (!open()) return;
  // Nothing is committed that its members have not accepted.
  const bool is_accepted = accepted_ && accepted_->origin == commit.origin && accepted_->set == commit.set;
  if (is_accepted || !commit.set[static_cast<std::size_t>(self_)]) decide(commit, told);
}

void Agreement::receive(double now, int from, const LossMessage& loss) {
  const bool is_below = accepts_ && accepts_->gathering.expected()[static_cast<std::size_t>(from)];
  for (const int member : listed(loss.known)) on_death(now, {member, Certainty::known});
  for (const int member : listed(loss.presumed)) on_death(now, {member, Certainty::presumed});
  if (!is_below || !open() || !accepts_) return;
  // An objection to the proposal, on its way to the leader.
  const MemberSet unsaid = accepted_->set - accepts_->objected;
  const LossMessage more{loss.known & unsaid, loss.presumed & unsaid};
  if (more.known.empty() && more.presumed.empty()) return;
  accepts_->objected |= more.known | more.presumed;
  send(accepts_->gathering.to(), more);
}

// A leader that lacks a quorum speaks for those who follow it. To others it has only given up.
void Agreement::receive(double now, int from, const RefuseMessage& refuse) {
  if (!open() || refuse.term != term_ || from != leader_of(term_)) return on_death(now, {from, Certainty::presumed});
  error_ = no_quorum_error(refuse.silent);
}

void Agreement::enter_term(double now, int term) {
  while (losses_.is_dead(leader_of(term))) ++term;
  const bool first = term_ < 0;
  term_ = term;
  refuse_at_ = visit_at_ = kNever;
  wait_until_ = std::max(join_deadline_, now + 2 * timing_.grace);
  const std::set<int> children = branch_ ? std::move(branch_->children) : std::set<int>();
  leading_.reset();
  branch_.reset();
  accepts_.reset();
  // They wait for this member, in a term that is over.
  for (const int child : children)
    if (!losses_.is_dead(child)) send(child, FollowMessage{term});
  if (leader_of(term) == self_)
    lead(now, first);
  else
    follow_leader(now);
}

void Agreement::follow_leader(double now) {
  MemberTree tree(leader_of(term_), losses_.living(), nobody(), fan_out_);
  Gathering gathering(tree.parent(self_), tree.branch(self_), timing_.grace);
  branch_ = JoinBranch{std::move(tree), JoinBook(members_), std::move(gathering), {}, wait_until_};
  branch_->joins.add(self_, JoinMessage{term_, blob_, accepted_});
  branch_->gathering.add(now, alone());
  send_joins(now);
}

void Agreement::lead(double now, bool first) {
  leading_.emplace(members_, self_, JoinMessage{term_, blob_, accepted_});
  // At first everyone comes by itself.
  if (!first) cast(losses_.living(), nobody(), FollowMessage{term_});
  visit_pause_ = timing_.grace;
  schedule_visit(now);
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
  cast(proposal.set & losses_.living(), nobody(), ProposeMessage{proposal});
  const double transfer = transfer_seconds(proposal);
  wait_until_ = now + 2 * timing_.grace + transfer;
  visit_pause_ = timing_.grace / 2 + transfer;
  schedule_visit(now);
  extend_limit(now, transfer);
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
      if (proposal.set[static_cast<std::size_t>(self_)]) accepted_ = proposal;
      decide({proposal.origin, proposal.set}, nobody());
  }
}

void Agreement::extend_limit(double now, double seconds) {
  limit_ = std::min(last_limit_, std::max(limit_, now + seconds + 6 * timing_.grace));
}

// `told`: those who hear of it anyway.
void Agreement::decide(CommitMessage decision, const MemberSet& told) {
  survived_ = decision.set[static_cast<std::size_t>(self_)];
  if (!survived_)
    error_ =
        fail(ErrorCode::timed_out, fmt::format("the survivors went on without this member, which came too late: {}",
                                               decision.set.to_string()))
            .value();
  decision_ = std::move(decision);
  if (leading_) cast(decision_->set & losses_.living(), losses_.living() - decision_->set, *decision_);
  if (branch_)
    for (const int child : branch_->children)
      if (!told[static_cast<std::size_t>(child)]) send(child, *decision_);
  branch_.reset();
  accepts_.reset();
}

void Agreement::give_up() {
  const std::string waited_for =
      leading_ ? fmt::format("no answer from members {}, and too few are left to go on without them",
                             leading_->missing(losses_).to_string())
               : fmt::format("member {} did not answer", leader_of(term_));
  error_ = fail(ErrorCode::timed_out, fmt::format("the survivors could not agree: {}", waited_for)).value();
  if (leading_ || !is_deep()) return cast(losses_.living(), nobody(), withdrawal());
  // If all give up at once, each is to tell a few only; others hear of it when they ask.
  send(branch_->gathering.to(), withdrawal());
  for (const int child : branch_->children) send(child, withdrawal());
}

void Agreement::refuse() {
  error_ = no_quorum_error(losses_.presumed());
  cast(losses_.living(), nobody(), RefuseMessage{term_, losses_.presumed()});
}

// Whoever gives up lives, and may try again: to leave it out takes a quorum.
LossMessage Agreement::withdrawal() const { return {nobody(), alone()}; }

}  // namespace tutti
