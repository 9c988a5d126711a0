// The messages of the agreement on survivors: a struct for each, and the bytes they travel as.
//
// A message is encoded as one byte for its kind, then its fields in the order of its struct. Decoding accepts nothing
// but what a member of the same agreement may send: sets for as many members, terms and rounds in range, and no byte
// left over. Whether a message fits the state of its receiver is for the receiver to judge. Plain values; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/wire.hpp"
#include "control/agreement/proposal.hpp"

namespace tutti {

/// To the leader of a term: the sender takes part.
struct JoinMessage {
  int term = -1;
  Blob blob;
  std::optional<ShrinkProposal> accepted;  // the last one; without blobs if the leader has them
};

/// From the leader: it may take so long until the sender of a join hears of it again.
struct WaitMessage {
  int term = -1;
  double seconds = 0;
};

/// This term has begun, so that its leader expects a join.
struct FollowMessage {
  int term = -1;
};

struct ProposeMessage {
  ShrinkProposal proposal;
};

struct AcceptMessage {
  Ballot ballot;
};

/// The members have decided on this set.
struct CommitMessage {
  Ballot origin;
  MemberSet set;
};

/// Members that are dead. One that presumes this of itself has given up.
struct LossMessage {
  MemberSet known;
  MemberSet presumed;
};

/// From the leader: without those who are silent there is no quorum.
struct RefuseMessage {
  int term = -1;
  MemberSet silent;
};

/// The joins of several members, on the way to the leader of a term.
struct JoinsMessage {
  struct AcceptedBy {
    ShrinkProposal proposal;  // as in JoinMessage
    MemberSet members;
  };

  int term = -1;
  MemberSet members;
  BlobTable blobs;                   // one per member
  std::vector<AcceptedBy> accepted;  // those who are in none have accepted nothing
};

/// The accepts of several members, on the way to the leader.
struct AcceptsMessage {
  Ballot ballot;
  MemberSet members;
};

/// A message of the root of a tree to all others in it, who pass it on (member_tree.hpp). It never contains another
/// cast.
struct CastMessage {
  int root = -1;
  MemberSet present;
  MemberSet asked;
  SharedBytes owner;  // of the bytes of the message that is cast
  std::span<const std::byte> message;
};

/// The index of a message is its kind on the wire.
using AgreementMessage =
    std::variant<JoinMessage, WaitMessage, FollowMessage, ProposeMessage, AcceptMessage, CommitMessage, LossMessage,
                 RefuseMessage, JoinsMessage, AcceptsMessage, CastMessage>;

/// Whether it is said to all members, by a leader or by one that gives up. Only such messages are cast; the others go
/// from one member to the next in a tree.
template <typename Message>
inline constexpr bool kIsForAll = std::is_same_v<Message, FollowMessage> || std::is_same_v<Message, ProposeMessage> ||
                                  std::is_same_v<Message, CommitMessage> || std::is_same_v<Message, LossMessage> ||
                                  std::is_same_v<Message, RefuseMessage>;

Blob encode(const AgreementMessage& message);
/// Returns nothing if the bytes are no message of an agreement of so many members.
std::optional<AgreementMessage> decode_agreement_message(std::span<const std::byte> bytes, int members);
/// The same of bytes that are part of `owner`, which blobs and casts keep instead of a copy.
std::optional<AgreementMessage> decode_agreement_message(std::span<const std::byte> bytes, int members,
                                                         const SharedBytes& owner);

/// Returns the join of a member as one of several.
JoinsMessage joins_of(int members, int member, JoinMessage join);
/// Returns what a member says that gives up: it lives and may try again, so that to leave it out takes a quorum.
LossMessage withdrawal_of(int members, int member);
/// Returns whether member `from` says with these bytes that it takes part no more. To a member that has not started the
/// message then means as much as if the other had not started, either: it may do so again.
bool is_withdrawal(int members, int from, std::span<const std::byte> bytes);
/// Returns whose message this is: that of `from`, or of a member whose message `from` passes on.
int speaker_of(int members, int from, std::span<const std::byte> bytes);

}  // namespace tutti
