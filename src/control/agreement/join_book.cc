#include "control/agreement/join_book.hpp"

#include <utility>

namespace tutti {

void JoinBook::add(int member, JoinMessage join) {
  const MemberSet alone = MemberSet::of(members_.size(), member);
  remove(alone);
  members_.add(member);
  blobs_[member] = std::move(join.blob);
  if (join.accepted) add_accepted(*join.accepted, alone);
}

void JoinBook::add(JoinsMessage joins) {
  remove(joins.members);
  members_ |= joins.members;
  std::size_t place = 0;
  for (const int member : listed(joins.members)) {
    const auto blob = joins.blobs.empty() ? std::span<const std::byte>() : joins.blobs[place++];
    blobs_[member] = Blob(blob.begin(), blob.end());
  }
  for (const auto& each : joins.accepted) add_accepted(each.proposal, each.members & joins.members);
}

void JoinBook::remove(const MemberSet& members) {
  const MemberSet gone = members & members_;
  if (gone.empty()) return;
  members_ -= gone;
  for (const int member : listed(gone)) blobs_.erase(member);
  for (auto& each : accepted_) each.members -= gone;
  std::erase_if(accepted_, [](const auto& each) { return each.members.empty(); });
}

void JoinBook::add_accepted(const ShrinkProposal& proposal, const MemberSet& members) {
  if (members.empty()) return;
  for (auto& each : accepted_) {
    if (each.proposal.ballot != proposal.ballot || each.proposal.origin != proposal.origin) continue;
    each.members |= members;
    if (each.proposal.blobs.empty()) each.proposal.blobs = proposal.blobs;
    return;
  }
  accepted_.push_back({proposal, members});
}

JoinsMessage JoinBook::part(int term, int leader, const MemberSet& members) const {
  JoinsMessage joins{term, members & members_, {}, {}};
  std::vector<Blob> blobs;
  for (const int member : listed(joins.members)) blobs.push_back(blob_of(member));
  joins.blobs = BlobTable(blobs);
  for (const auto& each : accepted_) {
    const MemberSet some = each.members & members;
    if (some.empty()) continue;
    joins.accepted.push_back({each.proposal, some});
    if (each.proposal.set[static_cast<std::size_t>(leader)]) joins.accepted.back().proposal.blobs.clear();
  }
  return joins;
}

}  // namespace tutti
