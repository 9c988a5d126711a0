#include "control/agreement/agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

Agreement::Agreement(int members, int self, AgreementTiming timing, Quorum quorum)
    : members_(members),
      self_(self),
      timing_(timing),
      quorum_(quorum),
      dead_(members),
      presumed_(members),
      joins_(members) {}

void Agreement::start(double now, std::span<const Loss> losses, Blob blob) {
  if (started_) return;
  for (const Loss& loss : losses)
    if (loss.member != self_) on_death(now, loss);
  started_ = true;
  blob_ = std::move(blob);
  join_deadline_ = now + timing_.join_wait;
  limit_ = join_deadline_ + 6 * timing_.grace;
  last_limit_ = limit_ + timing_.join_wait + 6 * timing_.grace;
  if (dead_[self_]) {  // declared dead before it started
    dead_[self_] = false;
    on_death(now, {self_, Certainty::known});
    return;
  }
  enter_term(now, 0);
  for (const Early& message : std::exchange(early_, {})) receive(now, message.from, message.bytes);
}

void Agreement::on_message(double now, int from, std::span<const std::byte> bytes) {
  if (from < 0 || from >= members_ || from == self_) return;
  if (!started_) {
    early_.push_back({from, Blob(bytes.begin(), bytes.end())});
    return;
  }
  receive(now, from, bytes);
}

bool Agreement::is_withdrawal(int members, int from, std::span<const std::byte> bytes) {
  WireReader in(bytes);
  const auto kind = in.get<Kind>();
  if (kind == Kind::refuse) return true;
  if (kind != Kind::dead || from < 0 || from >= members) return false;
  in.get_set(members);
  const Members presumed = in.get_set(members);
  return in.complete() && presumed[from];
}

void Agreement::on_death(double now, Loss loss) {
  const int member = loss.member;
  if (member < 0 || member >= members_) return;
  const bool known = loss.certainty == Certainty::known;
  const bool news = !dead_[member];
  if (!news && !(known && presumed_[member])) return;
  dead_[member] = true;
  presumed_[member] = !known;
  if (!open()) return;
  if (member == self_) {
    result_ = fail(ErrorCode::rank_died, "the other members declared this one dead");
  } else if (news && member == leader_of(term_)) {
    enter_term(now, term_ + 1);
  } else if (leading()) {
    count_accepts(now);
    collect(now);
  }
}

void Agreement::tick(double now) {
  if (!open()) return;
  if (leading() && now >= refuse_at_) return refuse();
  if (now >= limit_) return give_up();
  if (now < wait_until_) return;
  if (!leading()) return enter_term(now, term_ + 1);
  drop_silent(now);
  collect(now);
}

double Agreement::next_tick() const {
  if (!open()) return kNever;
  if (!leading()) return std::min(wait_until_, limit_);
  const bool waits = !(poll_ ? poll_->proposal.adopted() : overdue_);
  return std::min({waits ? wait_until_ : kNever, refuse_at_, limit_});
}

void Agreement::receive(double now, int from, std::span<const std::byte> bytes) {
  WireReader in(bytes);
  switch (in.get<Kind>()) {
    case Kind::join:
      return receive_join(now, from, in);
    case Kind::wait:
      return receive_wait(now, from, in);
    case Kind::follow:
      return receive_follow(now, in);
    case Kind::propose:
      return receive_propose(now, from, in);
    case Kind::accept:
      return receive_accept(now, from, in);
    case Kind::commit:
      return receive_commit(in);
    case Kind::dead:
      return receive_dead(now, in);
    case Kind::refuse:
      return receive_refuse(now, from, in);
  }
}

void Agreement::receive_join(double now, int from, WireReader& in) {
  const int term = in.get<int>();
  Join join;
  join.blob = in.get_bytes();
  if (in.get<std::uint8_t>() != 0) {
    join.accepted = ShrinkProposal::decode(in, members_);
    if (!join.accepted) return;
  }
  if (!in.complete() || term < 0 || term >= Ballot::kLastTerm || leader_of(term) != self_) return;
  if (decision_) return send(from, encode_commit());
  if (result_) return send(from, encode_dead(Members(members_), only_self()));  // it gave up
  if (!open()) return;
  if (term < term_) return send(from, encode_follow());
  if (term > term_) enter_term(now, term);
  joins_[from] = std::move(join);
  WireWriter out;
  out.put(Kind::wait);
  out.put(term_);
  out.put(std::max(0.0, wait_until_ - now));
  send(from, out.take());
  collect(now);
}

void Agreement::receive_wait(double now, int from, WireReader& in) {
  const int term = in.get<int>();
  const double seconds = in.get<double>();
  if (!open() || !in.complete() || term != term_ || from != leader_of(term_) || !(seconds >= 0)) return;
  wait_until_ = now + seconds + 2 * timing_.grace;
  extend_limit(now, seconds);
}

void Agreement::receive_follow(double now, WireReader& in) {
  const int term = in.get<int>();
  if (!in.complete() || term < 0 || term >= Ballot::kLastTerm) return;
  if (decision_) {
    if (leader_of(term) != self_) send(leader_of(term), encode_commit());
  } else if (open() && term > term_) {
    enter_term(now, term);
  } else if (open() && term < term_ && leader_of(term) != self_) {
    send(leader_of(term), encode_follow());
  }
}

void Agreement::receive_propose(double now, int from, WireReader& in) {
  auto proposal = ShrinkProposal::decode(in, members_);
  if (!proposal || !in.complete() || proposal->blobs.size() != count(proposal->set)) return;
  if (leader_of(proposal->ballot.term) != from) return;
  if (decision_) return send(from, encode_commit());
  if (!open()) return;
  if (proposal->ballot.term < term_) return send(from, encode_follow());
  if (proposal->ballot.term > term_) enter_term(now, proposal->ballot.term);
  if (proposal->ballot.term != term_) return;  // its leader is dead already
  wait_until_ = now + 4 * timing_.grace;
  extend_limit(now, 0);
  if (!proposal->set[self_]) return;

  // The leader may not know yet; a set without the dead is worth another round.
  Members known(members_);
  Members presumed(members_);
  for (const int member : listed(proposal->set)) {
    known[member] = dead_[member] && !presumed_[member];
    presumed[member] = presumed_[member];
  }
  if (!proposal->adopted() && count(known) + count(presumed) != 0) return send(from, encode_dead(known, presumed));
  WireWriter out;
  out.put(Kind::accept);
  out.put(proposal->ballot.term);
  out.put(proposal->ballot.round);
  accepted_ = std::move(proposal);
  send(from, out.take());
}

void Agreement::receive_accept(double now, int from, WireReader& in) {
  const int term = in.get<int>();
  const int round = in.get<int>();
  if (!open() || !in.complete() || !poll_ || poll_->proposal.ballot != Ballot{term, round}) return;
  poll_->accepted[from] = true;
  count_accepts(now);
}

void Agreement::receive_commit(WireReader& in) {
  const int term = in.get<int>();
  const int round = in.get<int>();
  const Members set = in.get_set(members_);
  const Ballot origin{term, round};
  if (!open() || !in.complete()) return;
  // Nothing is committed that its members have not accepted.
  if (set[self_] && (!accepted_ || accepted_->origin != origin || accepted_->set != set)) return;
  decide(origin, set);
}

void Agreement::receive_dead(double now, WireReader& in) {
  const Members known = in.get_set(members_);
  const Members presumed = in.get_set(members_);
  if (!in.complete()) return;
  for (const int member : listed(known)) on_death(now, {member, Certainty::known});
  for (const int member : listed(presumed)) on_death(now, {member, Certainty::presumed});
}

// A leader that lacks a quorum speaks for those who follow it. To others it has only given up.
void Agreement::receive_refuse(double now, int from, WireReader& in) {
  const int term = in.get<int>();
  const Members silent = in.get_set(members_);
  if (!in.complete()) return;
  if (!open() || term != term_ || from != leader_of(term_)) return on_death(now, {from, Certainty::presumed});
  result_ = tl::unexpected(no_quorum(silent));
}

void Agreement::enter_term(double now, int term) {
  while (dead_[leader_of(term)]) ++term;
  const bool first = term_ < 0;
  term_ = term;
  round_ = 0;
  overdue_ = false;
  refuse_at_ = kNever;
  poll_.reset();
  std::fill(joins_.begin(), joins_.end(), std::nullopt);
  wait_until_ = std::max(join_deadline_, now + 2 * timing_.grace);
  if (!leading()) return send_join();
  joins_[self_] = Join{accepted_, blob_};
  // At first everyone comes by itself.
  if (!first) send_to_living(encode_follow());
  collect(now);
}

void Agreement::collect(double now) {
  if (!open() || !leading() || poll_) return;
  overdue_ = overdue_ || now >= wait_until_;
  if (joins_are_complete() || overdue_) propose(now);
}

bool Agreement::joins_are_complete() const {
  for (int member = 0; member < members_; ++member)
    if (!dead_[member] && !joins_[member]) return false;
  return true;
}

void Agreement::propose(double now) {
  ShrinkProposal proposal = fresh_proposal();
  if (!may_go_on_with(proposal.set)) {
    // News that a death is known may be on its way.
    if (joins_are_complete()) refuse_at_ = std::min(refuse_at_, now + 2 * timing_.grace);
    return;
  }
  refuse_at_ = kNever;
  if (auto earlier = possibly_committed()) {
    earlier->ballot = proposal.ballot;
    proposal = std::move(*earlier);
  }
  WireWriter out;
  out.put(Kind::propose);
  proposal.encode(out, true);
  const Blob bytes = out.take();
  for (const int member : listed(proposal.set))
    if (member != self_ && !dead_[member]) send(member, bytes);
  poll_ = Poll{std::move(proposal), Members(members_)};
  ++round_;
  wait_until_ = now + 2 * timing_.grace;
  extend_limit(now, 0);
  count_accepts(now);
}

// Members that have joined and live.
ShrinkProposal Agreement::fresh_proposal() const {
  ShrinkProposal proposal;
  proposal.ballot = proposal.origin = Ballot{term_, round_};
  proposal.set.resize(members_);
  for (int member = 0; member < members_; ++member) {
    if (dead_[member] || !joins_[member]) continue;
    proposal.set[member] = true;
    proposal.blobs.push_back(joins_[member]->blob);
  }
  return proposal;
}

bool Agreement::may_go_on_with(const Members& set) const {
  bool leaves_out_living = false;
  bool leaves_out_silent = false;
  for (int member = 0; member < members_; ++member) {
    leaves_out_living |= !set[member] && !dead_[member];
    leaves_out_silent |= !set[member] && presumed_[member];
  }
  if (leaves_out_silent && quorum_ == Quorum::none) leaves_out_silent = false;
  return !(leaves_out_living || leaves_out_silent) || has_quorum(set);
}

bool Agreement::has_quorum(const Members& set) const {
  const std::size_t twice = 2 * count(set);
  const auto all = static_cast<std::size_t>(members_);
  return twice > all || (twice == all && set[0] && quorum_ != Quorum::majority);
}

// The latest set that was accepted, unless a member of it says that it did not accept it: a commit takes all of them.
std::optional<ShrinkProposal> Agreement::possibly_committed() const {
  const ShrinkProposal* latest = nullptr;
  for (const auto& join : joins_)
    if (join && join->accepted && (latest == nullptr || join->accepted->ballot > latest->ballot))
      latest = &*join->accepted;
  if (latest == nullptr) return std::nullopt;
  const ShrinkProposal* whole = nullptr;
  for (const int member : listed(latest->set)) {
    const auto& join = joins_[member];
    if (!join) continue;
    if (!join->accepted || join->accepted->origin != latest->origin) return std::nullopt;
    if (!join->accepted->blobs.empty()) whole = &*join->accepted;
  }
  // Those who accepted send the blobs along where this member is not of the set; where it is, it has them itself.
  return whole == nullptr ? std::nullopt : std::optional(*whole);
}

void Agreement::count_accepts(double now) {
  if (!poll_) return;
  const ShrinkProposal& proposal = poll_->proposal;
  bool died = false;
  bool complete = true;
  bool silent = false;  // a member that may live, and may have joined another leader without having accepted the set
  for (const int member : listed(proposal.set)) {
    const bool accepted = member == self_ || poll_->accepted[member];
    died = died || dead_[member];
    complete = complete && (accepted || dead_[member]);
    silent = silent || (!accepted && presumed_[member]);
  }
  if (died && !proposal.adopted()) {
    poll_.reset();
    collect(now);
  } else if (complete && (silent || !may_go_on_with(fresh_proposal().set))) {
    refuse_at_ = std::min(refuse_at_, now + 2 * timing_.grace);  // some fell silent since it was proposed
  } else if (complete) {
    if (proposal.set[self_]) accepted_ = proposal;
    const Decision decision{proposal.origin, proposal.set};
    decide(decision.origin, decision.set);
  }
}

// The leader knows that its own set is not committed, and tries again without those who do not answer. Of an adopted
// set it does not know.
void Agreement::drop_silent(double now) {
  if (!poll_ || poll_->proposal.adopted()) return;
  for (const int member : listed(poll_->proposal.set))
    if (member != self_ && !poll_->accepted[member]) joins_[member].reset();
  poll_.reset();
  wait_until_ = now;
}

void Agreement::extend_limit(double now, double seconds) {
  limit_ = std::min(last_limit_, std::max(limit_, now + seconds + 6 * timing_.grace));
}

void Agreement::decide(Ballot origin, const Members& set) {
  decision_ = Decision{origin, set};
  if (set[self_]) {
    result_ = Survivors{listed(set), accepted_->blobs};
  } else {
    result_ =
        fail(ErrorCode::timed_out, fmt::format("the survivors went on without this member, which came too late: {}",
                                               fmt::join(listed(set), ", ")));
  }
  if (leading()) send_to_living(encode_commit());
}

// Whoever gives up lives, and may try again: to leave it out takes a quorum.
void Agreement::give_up() {
  result_ = fail(ErrorCode::timed_out, fmt::format("the survivors could not agree: {}", waited_for()));
  send_to_living(encode_dead(Members(members_), only_self()));
}

void Agreement::refuse() {
  result_ = tl::unexpected(no_quorum(presumed_));
  WireWriter out;
  out.put(Kind::refuse);
  out.put(term_);
  out.put_set(presumed_);
  send_to_living(out.take());
}

Error Agreement::no_quorum(const Members& silent) const {
  Error error;
  error.code = ErrorCode::no_quorum;
  const std::vector<int> ranks = listed(silent);
  if (!ranks.empty()) error.peer = ranks.front();
  error.message = fmt::format(
      "{} ranks, {} of them silent ({}): no majority is left to go on without them; they may live where this side "
      "cannot reach them, and go on themselves (if they are surely dead, name them in ShrinkOptions::dead)",
      members_, ranks.size(), fmt::join(ranks, ", "));
  return error;
}

std::string Agreement::waited_for() const {
  if (!leading()) return fmt::format("member {} did not answer", leader_of(term_));
  Members missing(members_);
  for (int member = 0; member < members_; ++member) {
    const bool answered = poll_ ? !poll_->proposal.set[member] || poll_->accepted[member] : joins_[member].has_value();
    missing[member] = !answered && !dead_[member] && member != self_;
  }
  return fmt::format("no answer from members {}, and too few are left to go on without them",
                     fmt::join(listed(missing), ", "));
}

void Agreement::send(int member, Blob bytes) { outgoing_.push_back({member, std::move(bytes)}); }

void Agreement::send_to_living(const Blob& bytes) {
  for (int member = 0; member < members_; ++member)
    if (member != self_ && !dead_[member]) send(member, bytes);
}

void Agreement::send_join() {
  const int leader = leader_of(term_);
  WireWriter out;
  out.put(Kind::join);
  out.put(term_);
  out.put_bytes(blob_);
  out.put<std::uint8_t>(accepted_ ? 1 : 0);
  if (accepted_) accepted_->encode(out, !accepted_->set[leader]);
  send(leader, out.take());
}

Blob Agreement::encode_follow() const {
  WireWriter out;
  out.put(Kind::follow);
  out.put(term_);
  return out.take();
}

Blob Agreement::encode_commit() const {
  WireWriter out;
  out.put(Kind::commit);
  out.put(decision_->origin.term);
  out.put(decision_->origin.round);
  out.put_set(decision_->set);
  return out.take();
}

Blob Agreement::encode_dead(const Members& known, const Members& presumed) const {
  WireWriter out;
  out.put(Kind::dead);
  out.put_set(known);
  out.put_set(presumed);
  return out.take();
}

Agreement::Members Agreement::only_self() const {
  Members self(members_);
  self[self_] = true;
  return self;
}

}  // namespace tutti
