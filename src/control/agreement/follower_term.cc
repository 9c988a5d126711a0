#include "control/agreement/follower_term.hpp"

#include <algorithm>
#include <utility>

namespace tutti {

FollowerTerm::FollowerTerm(double now, int self, MemberTree tree, JoinMessage own, double grace, double told_until)
    : self_(self),
      term_(own.term),
      blob_(own.blob),
      grace_(grace),
      told_until_(told_until),
      tree_(std::move(tree)),
      joins_(tree_.members()),
      joins_gathered_(tree_.parent(self), tree_.branch(self), grace) {
  joins_.add(self, std::move(own));
  joins_gathered_.add(now, alone());
}

bool FollowerTerm::extend_wait(double until) {
  if (until < told_until_ + grace_ / 2) return false;
  told_until_ = until;
  return true;
}

void FollowerTerm::add_joins(double now, int from, JoinsMessage joins) {
  children_.insert(from);
  joins_gathered_.add(now, joins.members);
  joins_.add(std::move(joins));
}

std::optional<FollowerTerm::UpwardMessage> FollowerTerm::take_joins(double now) {
  const MemberSet due = joins_gathered_.take(now);
  if (due.empty()) return std::nullopt;
  JoinsMessage joins = joins_.part(term_, tree_.root(), due);
  if (due != alone()) return UpwardMessage{above(), std::move(joins)};
  JoinMessage join{term_, blob_, {}};
  if (!joins.accepted.empty()) join.accepted = std::move(joins.accepted.front().proposal);
  return UpwardMessage{above(), std::move(join)};
}

void FollowerTerm::visited(int hop, const MemberTree& tree, const MemberSet& living) {
  joins_gathered_.turn_to(hop);
  joins_gathered_.expect(answers_below(tree) & living);
  if (tree.asked()[static_cast<std::size_t>(self_)]) joins_gathered_.send_again();
}

void FollowerTerm::accept(double now, int hop, const MemberTree* tree, Ballot ballot, const MemberSet& set) {
  MemberSet expected = tree == nullptr ? alone() : answers_below(*tree) & set;
  std::optional<MemberTree> own_tree;
  if (tree != nullptr) own_tree = *tree;
  if (accepts_ && accepts_->ballot == ballot) {
    accepts_->tree = std::move(own_tree);
    accepts_->gathered.turn_to(hop);
    accepts_->gathered.expect(std::move(expected));
    accepts_->gathered.send_again();
  } else {
    const MemberSet nobody(set.size());
    accepts_ = AcceptBranch{ballot, std::move(own_tree), Gathering(hop, std::move(expected), grace_), nobody};
  }
  accepts_->gathered.add(now, alone());
}

bool FollowerTerm::expects_accept_of(int member) const {
  return accepts_ && accepts_->gathered.expected()[static_cast<std::size_t>(member)];
}

bool FollowerTerm::add_accepts(double now, const AcceptsMessage& accepts) {
  if (!accepts_ || accepts_->ballot != accepts.ballot) return false;
  accepts_->gathered.add(now, accepts.members);
  return true;
}

std::optional<FollowerTerm::UpwardMessage> FollowerTerm::take_accepts(double now) {
  MemberSet due = accepts_ ? accepts_->gathered.take(now) : MemberSet();
  if (due.empty()) return std::nullopt;
  if (due == alone()) return UpwardMessage{accepts_->gathered.to(), AcceptMessage{accepts_->ballot}};
  return UpwardMessage{accepts_->gathered.to(), AcceptsMessage{accepts_->ballot, std::move(due)}};
}

std::optional<FollowerTerm::UpwardMessage> FollowerTerm::object(const LossMessage& dead, const MemberSet& set) {
  if (!accepts_) return std::nullopt;
  const MemberSet unsaid = set - accepts_->objected;
  LossMessage more{dead.known & unsaid, dead.presumed & unsaid};
  if (more.known.empty() && more.presumed.empty()) return std::nullopt;
  accepts_->objected |= more.known | more.presumed;
  return UpwardMessage{accepts_->gathered.to(), std::move(more)};
}

void FollowerTerm::lost(int member, const MemberSet& living) {
  reroute(joins_gathered_, &tree_, member, living);
  if (accepts_) reroute(accepts_->gathered, accepts_->tree ? &*accepts_->tree : nullptr, member, living);
}

double FollowerTerm::next_tick() const {
  return accepts_ ? std::min(joins_gathered_.next_tick(), accepts_->gathered.next_tick()) : joins_gathered_.next_tick();
}

MemberSet FollowerTerm::answers_below(const MemberTree& tree) const {
  MemberSet branch = tree.branch(self_);
  if (!tree.asked().empty()) branch &= tree.asked() | alone();
  return branch;
}

void FollowerTerm::reroute(Gathering& gathered, const MemberTree* tree, int dead, const MemberSet& living) const {
  gathered.forget(dead);
  if (gathered.to() != dead || tree == nullptr) return;
  gathered.turn_to(tree->living_parent(self_, living));
  gathered.send_again();
}

}  // namespace tutti
