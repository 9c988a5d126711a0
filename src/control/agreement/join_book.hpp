// Joins that a member of an agreement has collected: those of its branch, or, if it leads, of all. Plain values; one
// thread at a time.
#pragma once

#include <map>
#include <vector>

#include "control/agreement/agreement_message.hpp"

namespace tutti {

class JoinBook {
 public:
  explicit JoinBook(int members) : members_(static_cast<std::size_t>(members)) {}

  /// A join that comes again replaces the earlier one.
  void add(int member, JoinMessage join);
  void add(JoinsMessage joins);
  void remove(const MemberSet& members);

  const MemberSet& members() const { return members_; }
  const Blob& blob_of(int member) const { return blobs_.at(member); }
  /// Each proposal that some have accepted as their last, and who has.
  const std::vector<JoinsMessage::AcceptedBy>& accepted() const { return accepted_; }
  /// Returns the joins of some of them as a message to the leader, which has the blobs of sets that it is in.
  JoinsMessage part(int term, int leader, const MemberSet& members) const;

 private:
  void add_accepted(const ShrinkProposal& proposal, const MemberSet& members);

  MemberSet members_;
  std::map<int, Blob> blobs_;
  std::vector<JoinsMessage::AcceptedBy> accepted_;
};

}  // namespace tutti
