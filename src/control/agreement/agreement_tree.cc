// How messages of an agreement travel by trees, and how these are repaired.
#include <algorithm>
#include <limits>
#include <utility>

#include "control/agreement/agreement.hpp"

namespace tutti {

constinit AgreementTrees g_agreement_trees;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSlowestRate = 100e6;  // bytes per second at which a member passes a table on, if it is slow

}  // namespace

void Agreement::cast(const MemberSet& present, const MemberSet& asked, const AgreementMessage& message) {
  const MemberTree tree(self_, present, asked, fan_out_);
  auto bytes = std::make_shared<const Blob>(encode(message));
  const bool is_visit = !tree.asked().empty() && !std::holds_alternative<CommitMessage>(message);
  if (!tree.is_flat() || is_visit) {
    const auto whole = std::make_shared<const Blob>(encode(CastMessage{self_, present, asked, bytes, *bytes}));
    return pass_on(tree, whole, is_visit);
  }
  for (const int member : listed(tree.everyone()))
    if (member != self_ && !losses_.is_dead(member)) outgoing_.push_back({member, bytes});
}

void Agreement::pass_on(const MemberTree& tree, const SharedBytes& bytes, bool only_to_asked) {
  std::vector<int> children;
  add_living_children(tree, self_, children);
  for (const int child : children)
    if (!only_to_asked || !(tree.branch(child) & tree.asked()).empty()) outgoing_.push_back({child, bytes});
}

// With those below the dead instead of these.
void Agreement::add_living_children(const MemberTree& tree, int member, std::vector<int>& children) const {
  for (const int child : tree.children(member))
    if (losses_.is_dead(child))
      add_living_children(tree, child, children);
    else
      children.push_back(child);
}

void Agreement::send_joins(double now) {
  const MemberSet due = branch_->gathering.take(now);
  if (due.empty()) return;
  const int leader = leader_of(term_);
  JoinsMessage joins = branch_->joins.part(term_, leader, due);
  if (due.count() > 1) return send(branch_->gathering.to(), joins);
  const int member = due.at(0);
  if (member != self_) return send(branch_->gathering.to(), joins);
  JoinMessage join{term_, blob_, {}};
  if (!joins.accepted.empty()) join.accepted = std::move(joins.accepted.front().proposal);
  send(branch_->gathering.to(), join);
}

void Agreement::send_accepts(double now) {
  MemberSet due = accepts_->gathering.take(now);
  if (due.empty()) return;
  if (due == alone()) return send(accepts_->gathering.to(), AcceptMessage{accepts_->ballot});
  send(accepts_->gathering.to(), AcceptsMessage{accepts_->ballot, std::move(due)});
}

void Agreement::receive(double now, int from, const CastMessage& cast) {
  if (cast.root == self_) return;
  auto message = decode_agreement_message(cast.message, members_, cast.owner);
  if (!message) return;
  const MemberTree tree(cast.root, cast.present, cast.asked, fan_out_);
  if (!take_cast(now, from, tree, *message)) return;
  // A visit goes no further than to those who are asked; the end of the agreement to all.
  const bool is_visit = !tree.asked().empty() && !std::holds_alternative<CommitMessage>(*message);
  pass_on(tree, cast.owner, is_visit);
}

bool Agreement::take_cast(double now, int hop, const MemberTree& tree, AgreementMessage& message) {
  if (const auto* follow = std::get_if<FollowMessage>(&message)) return take_follow(now, hop, tree, *follow);
  if (auto* propose = std::get_if<ProposeMessage>(&message))
    return leader_of(propose->proposal.ballot.term) == tree.root() &&
           take_proposal(now, hop, &tree, std::move(propose->proposal));
  if (const auto* commit = std::get_if<CommitMessage>(&message)) {
    take_commit(*commit, tree.everyone());
    return true;  // also if it is known: those below may not have heard it
  }
  if (const auto* refuse = std::get_if<RefuseMessage>(&message)) {
    receive(now, tree.root(), *refuse);
    return true;
  }
  if (const auto* loss = std::get_if<LossMessage>(&message)) {
    receive(now, tree.root(), *loss);
    return true;
  }
  return false;
}

// Asks those whose answer is missing once more: a member between them and this one may have died or stand still. If
// they are many, it asks as many as those who have answered can reach, and then others, whoever they are: some may
// have joins of whole branches.
void Agreement::visit(double now) {
  visit_at_ = kNever;
  const MemberSet missing = leading_->missing(losses_);
  if (missing.empty()) return;
  // A few are asked directly, so that nobody else has to relay.
  const bool few = static_cast<int>(missing.count()) <= fan_out_;
  const MemberSet present = few ? alone() : leading_->answered(losses_);
  const MemberSet asked = next_asked(missing, present.count() * static_cast<std::size_t>(fan_out_));
  if (leading_->has_proposed())
    cast(present, asked, ProposeMessage{leading_->proposal()});
  else
    cast(present, asked, FollowMessage{term_});
  if (!leading_->has_proposed() && asked == missing) visit_pause_ *= 2;
  schedule_visit(now);
  if (asked != missing) visit_at_ = std::min(visit_at_, now + timing_.grace / 4);
}

MemberSet Agreement::next_asked(const MemberSet& missing, std::size_t most) {
  if (missing.count() <= most) return missing;
  const std::vector<int> members = listed(missing);
  const auto first = static_cast<std::size_t>(missing.count_below(visit_cursor_));
  MemberSet asked = nobody();
  for (std::size_t place = first; place < first + most; ++place) asked.add(members[place % members.size()]);
  visit_cursor_ = members[(first + most) % members.size()];
  return asked;
}

// Again and again, and for certain a grace before the wait is over.
void Agreement::schedule_visit(double now) {
  if (!is_deep()) return;
  const double last = wait_until_ - timing_.grace;
  visit_at_ = now + visit_pause_;
  if (last > now) visit_at_ = std::min(visit_at_, last);
}

// A member above this one, or below it, is dead: what was gathered goes to the next living one above, and the dead one
// is waited for no longer.
void Agreement::route_around(double now, int dead) {
  if (branch_) {
    branch_->gathering.forget(dead);
    if (branch_->gathering.to() == dead) {
      branch_->gathering.turn_to(living_parent(branch_->tree));
      branch_->gathering.send_again();
    }
    send_joins(now);
  }
  if (accepts_) {
    accepts_->gathering.forget(dead);
    if (accepts_->gathering.to() == dead && accepts_->tree) {
      accepts_->gathering.turn_to(living_parent(*accepts_->tree));
      accepts_->gathering.send_again();
    }
    send_accepts(now);
  }
}

int Agreement::living_parent(const MemberTree& tree) const {
  int member = tree.parent(self_);
  while (member >= 0 && losses_.is_dead(member)) member = tree.parent(member);
  return member >= 0 ? member : tree.root();
}

// How long a table may take from the leader to all, where it is passed on often.
double Agreement::transfer_seconds(const ShrinkProposal& proposal) const {
  if (!is_deep()) return 0;
  int depth = 0;
  for (int place = members_ - 1; place > 0; place = (place - 1) / fan_out_) ++depth;
  return static_cast<double>(proposal.blobs.bytes()) * fan_out_ * depth / kSlowestRate;
}

}  // namespace tutti
