#include "control/agreement/leader_term.hpp"

#include <utility>
#include <vector>

namespace tutti {

LeaderTerm::LeaderTerm(int members, int leader, JoinMessage own) : term_(own.term), leader_(leader), joins_(members) {
  joins_.add(leader, std::move(own));
}

bool LeaderTerm::joins_are_complete(const LossSet& losses) const {
  return (losses.living() - joins_.members()).empty();
}

MemberSet LeaderTerm::joined(const LossSet& losses) const { return losses.living() & joins_.members(); }

const ShrinkProposal& LeaderTerm::propose(const LossSet& losses) {
  const Ballot ballot{term_, round_++};
  std::optional<ShrinkProposal> proposal = possibly_committed();
  if (!proposal) proposal = fresh_proposal(ballot, losses);
  proposal->ballot = ballot;
  poll_ = Poll{std::move(*proposal), MemberSet(joins_.members().size())};
  poll_->accepted.add(leader_);
  return poll_->proposal;
}

ShrinkProposal LeaderTerm::fresh_proposal(Ballot ballot, const LossSet& losses) const {
  ShrinkProposal proposal{ballot, ballot, joined(losses), {}};
  std::vector<Blob> blobs;
  for (const int member : listed(proposal.set)) blobs.push_back(joins_.blob_of(member));
  proposal.blobs = BlobTable(blobs);
  return proposal;
}

// The latest set that was accepted, unless a member of it says that it did not accept it.
std::optional<ShrinkProposal> LeaderTerm::possibly_committed() const {
  const ShrinkProposal* latest = nullptr;
  for (const auto& each : joins_.accepted())
    if (latest == nullptr || each.proposal.ballot > latest->ballot) latest = &each.proposal;
  if (latest == nullptr) return std::nullopt;
  const ShrinkProposal* whole = nullptr;
  MemberSet others = latest->set & joins_.members();
  for (const auto& each : joins_.accepted()) {
    if (each.proposal.origin != latest->origin) continue;
    others -= each.members;
    if (!each.proposal.blobs.empty() && !(each.members & latest->set).empty()) whole = &each.proposal;
  }
  // A leader that is in the set has the blobs itself; otherwise those who accepted the set sent them along.
  return whole == nullptr || !others.empty() ? std::nullopt : std::optional(*whole);
}

bool LeaderTerm::accept(const MemberSet& members, Ballot ballot) {
  if (!poll_ || poll_->proposal.ballot != ballot) return false;
  poll_->accepted |= members;
  return true;
}

bool LeaderTerm::accept(int member, Ballot ballot) {
  return accept(MemberSet::of(joins_.members().size(), member), ballot);
}

LeaderTerm::Tally LeaderTerm::tally(const LossSet& losses) const {
  if (!poll_) return Tally::open;
  const ShrinkProposal& proposal = poll_->proposal;
  const MemberSet unheard = proposal.set - poll_->accepted;
  // A member that may live, and may have joined another leader without having accepted the set.
  const bool silent = !(unheard & losses.presumed()).empty();
  const bool died = !(proposal.set - losses.living()).empty();
  if (died && !proposal.adopted()) return Tally::member_died;
  if (!(unheard & losses.living()).empty()) return Tally::open;
  return silent || !losses.allows(joined(losses)) ? Tally::no_quorum : Tally::accepted;
}

void LeaderTerm::drop_silent() {
  if (!poll_ || poll_->proposal.adopted()) return;
  joins_.remove(poll_->proposal.set - poll_->accepted);
  poll_.reset();
}

MemberSet LeaderTerm::missing(const LossSet& losses) const { return losses.living() - answered(losses) - idle(); }

MemberSet LeaderTerm::answered(const LossSet& losses) const {
  return losses.living() & (poll_ ? poll_->accepted : joins_.members());
}

// Those who are not asked for anything now.
MemberSet LeaderTerm::idle() const {
  const std::size_t members = joins_.members().size();
  return poll_ ? MemberSet(members, true) - poll_->proposal.set : MemberSet(members);
}

}  // namespace tutti
