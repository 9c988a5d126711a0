#include "control/agreement/proposal.hpp"

#include <algorithm>

namespace tutti {

std::size_t count(const MemberSet& set) { return static_cast<std::size_t>(std::count(set.begin(), set.end(), true)); }

std::vector<int> listed(const MemberSet& set) {
  std::vector<int> members;
  for (std::size_t member = 0; member < set.size(); ++member)
    if (set[member]) members.push_back(static_cast<int>(member));
  return members;
}

void ShrinkProposal::encode(WireWriter& out, bool with_blobs) const {
  for (const Ballot each : {ballot, origin}) {
    out.put(each.term);
    out.put(each.round);
  }
  out.put_set(set);
  out.put<std::uint8_t>(with_blobs ? 1 : 0);
  if (!with_blobs) return;
  for (const Blob& blob : blobs) out.put_bytes(blob);
}

std::optional<ShrinkProposal> ShrinkProposal::decode(WireReader& in, int members) {
  ShrinkProposal proposal;
  for (Ballot* ballot : {&proposal.ballot, &proposal.origin}) {
    ballot->term = in.get<int>();
    ballot->round = in.get<int>();
    if (ballot->term < 0 || ballot->term >= Ballot::kLastTerm || ballot->round < 0) return std::nullopt;
  }
  proposal.set = in.get_set(static_cast<std::size_t>(members));
  if (in.get<std::uint8_t>() != 0)
    for (std::size_t blob = count(proposal.set); blob > 0 && in.ok(); --blob) proposal.blobs.push_back(in.get_bytes());
  if (!in.ok()) return std::nullopt;
  return proposal;
}

}  // namespace tutti
