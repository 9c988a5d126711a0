#include "control/agreement/leader_term.hpp"

#include <utility>

namespace tutti {

LeaderTerm::LeaderTerm(int members, int leader, JoinMessage own) : term_(own.term), leader_(leader), joins_(members) {
  joins_[leader] = std::move(own);
}

bool LeaderTerm::joins_are_complete(const LossSet& losses) const {
  for (std::size_t member = 0; member < joins_.size(); ++member)
    if (!joins_[member] && !losses.is_dead(static_cast<int>(member))) return false;
  return true;
}

MemberSet LeaderTerm::joined(const LossSet& losses) const {
  MemberSet set(joins_.size());
  for (std::size_t member = 0; member < set.size(); ++member)
    set[member] = joins_[member] && !losses.is_dead(static_cast<int>(member));
  return set;
}

const ShrinkProposal& LeaderTerm::propose(const LossSet& losses) {
  const Ballot ballot{term_, round_++};
  std::optional<ShrinkProposal> proposal = possibly_committed();
  if (!proposal) proposal = fresh_proposal(ballot, losses);
  proposal->ballot = ballot;
  poll_ = Poll{std::move(*proposal), MemberSet(joins_.size())};
  poll_->accepted[leader_] = true;
  return poll_->proposal;
}

ShrinkProposal LeaderTerm::fresh_proposal(Ballot ballot, const LossSet& losses) const {
  ShrinkProposal proposal{ballot, ballot, joined(losses), {}};
  for (const int member : listed(proposal.set)) proposal.blobs.push_back(joins_[member]->blob);
  return proposal;
}

// The latest set that was accepted, unless a member of it says that it did not accept it.
std::optional<ShrinkProposal> LeaderTerm::possibly_committed() const {
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
  // A leader that is in the set has the blobs itself; otherwise those who accepted the set sent them along.
  return whole == nullptr ? std::nullopt : std::optional(*whole);
}

bool LeaderTerm::accept(int member, Ballot ballot) {
  if (!poll_ || poll_->proposal.ballot != ballot) return false;
  poll_->accepted[member] = true;
  return true;
}

LeaderTerm::Tally LeaderTerm::tally(const LossSet& losses) const {
  if (!poll_) return Tally::open;
  bool died = false;
  bool complete = true;
  bool silent = false;  // a member that may live, and may have joined another leader without having accepted the set
  for (const int member : listed(poll_->proposal.set)) {
    const bool accepted = poll_->accepted[member];
    died = died || losses.is_dead(member);
    complete = complete && (accepted || losses.is_dead(member));
    silent = silent || (!accepted && losses.presumed()[member]);
  }
  if (died && !poll_->proposal.adopted()) return Tally::member_died;
  if (!complete) return Tally::open;
  return silent || !losses.allows(joined(losses)) ? Tally::no_quorum : Tally::accepted;
}

void LeaderTerm::drop_silent() {
  if (!poll_ || poll_->proposal.adopted()) return;
  for (const int member : listed(poll_->proposal.set))
    if (!poll_->accepted[member]) joins_[member].reset();
  poll_.reset();
}

MemberSet LeaderTerm::missing(const LossSet& losses) const {
  MemberSet set(joins_.size());
  for (std::size_t member = 0; member < set.size(); ++member) {
    const bool answered = poll_ ? !poll_->proposal.set[member] || poll_->accepted[member] : joins_[member].has_value();
    set[member] = !answered && !losses.is_dead(static_cast<int>(member));
  }
  return set;
}

}  // namespace tutti
