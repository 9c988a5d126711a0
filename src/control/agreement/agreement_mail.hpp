// What one member of an agreement has to send: messages to one other, and messages to many, which go by a tree.
//
// It hides the trees of messages that are cast (member_tree.hpp): who is to have such a message from this member, the
// dead among those below it passed over. Among so few members that one can have all others below it, a cast is the
// plain message to each. It sends nothing itself: its owner takes what is to go out. Not thread-safe.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "control/agreement/agreement_message.hpp"
#include "control/agreement/member_tree.hpp"

namespace tutti {

/// A message, and the member that it goes to or comes from. The same bytes may go to several.
struct AgreementPacket {
  int member;
  SharedBytes bytes;
};

/// Agreements of more than `above` members go by trees, in which `fan_out` stand below one. The same on all of them;
/// only tests change it.
struct AgreementTrees {
  int above = 4096;
  int fan_out = 8;

  /// Returns how many members a member sends to in a tree. Up to a few thousand the leader sends to all, so that one
  /// that is stopped delays no other.
  int fan_out_for(int members) const { return members <= above ? members : fan_out; }
};
[[gnu::visibility("hidden")]] extern AgreementTrees g_agreement_trees;

class AgreementMail {
 public:
  /// All members must have the same fan-out.
  AgreementMail(int members, int self, int fan_out) : members_(members), self_(self), fan_out_(fan_out) {}

  /// Returns whether a message to all goes by more than one level of a tree.
  bool is_deep() const { return members_ > fan_out_ + 1; }
  /// Returns how many stand below one, at most, in a tree of members that have answered.
  int fan_out() const { return fan_out_; }
  /// Returns the seconds that so many bytes may take to all by a tree, where they are passed on often.
  double seconds_to_all(std::size_t bytes) const;
  /// Returns the tree by which `root` casts to `present`, and to `asked`, who have not answered.
  MemberTree draw_tree(int root, MemberSet present, MemberSet asked) const {
    return MemberTree(root, std::move(present), std::move(asked), fan_out_);
  }

  void send(int member, const AgreementMessage& message);
  /// Sends to all members that are in `living`.
  void cast(const AgreementMessage& message, const MemberSet& living);
  /// Sends to all in `present` and `asked` that are in `living`. What is said to those who are asked goes to nobody
  /// else but the members between; a decision goes to all.
  void cast(const AgreementMessage& message, const MemberSet& present, const MemberSet& asked, const MemberSet& living);
  /// Passes on a message that came by `tree`: `bytes` are the cast, `message` is what was cast.
  void pass_on(const AgreementMessage& message, const MemberTree& tree, const SharedBytes& bytes,
               const MemberSet& living);

  /// Returns what is to be sent, in order; empties the list.
  std::vector<AgreementPacket> take() { return std::exchange(outgoing_, {}); }

 private:
  int members_;
  int self_;
  int fan_out_;
  std::vector<AgreementPacket> outgoing_;
};

}  // namespace tutti
