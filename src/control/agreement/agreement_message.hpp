// The messages of the agreement on survivors: a struct for each, and the bytes they travel as.
//
// A message is encoded as one byte for its kind, then its fields in the order of its struct. Decoding accepts nothing
// but what a member of the same agreement may send: sets for as many members, terms and rounds in range, and no byte
// left over. Whether a message fits the state of its receiver is for the receiver to judge. Plain values; any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
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

Blob encode(const AgreementMessage& message);
/// Returns nothing if the bytes are no message of an agreement of so many members.
std::optional<AgreementMessage> decode_agreement_message(std::span<const std::byte> bytes, int members);
/// The same of bytes that are part of `owner`, which blobs and casts keep instead of a copy.
std::optional<AgreementMessage> decode_agreement_message(std::span<const std::byte> bytes, int members,
                                                         const SharedBytes& owner);

}  // namespace tutti
