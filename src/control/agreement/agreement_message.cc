#include "control/agreement/agreement_message.hpp"

#include <cstdint>
#include <tuple>
#include <type_traits>

namespace tutti {
namespace {

// The fields of each message, in the order in which they travel.
template <typename Message>
auto fields(Message& message) {
  using Plain = std::remove_const_t<Message>;
  if constexpr (std::is_same_v<Plain, JoinMessage>) return std::tie(message.term, message.blob, message.accepted);
  if constexpr (std::is_same_v<Plain, WaitMessage>) return std::tie(message.term, message.seconds);
  if constexpr (std::is_same_v<Plain, FollowMessage>) return std::tie(message.term);
  if constexpr (std::is_same_v<Plain, ProposeMessage>) return std::tie(message.proposal);
  if constexpr (std::is_same_v<Plain, AcceptMessage>) return std::tie(message.ballot);
  if constexpr (std::is_same_v<Plain, CommitMessage>) return std::tie(message.origin, message.set);
  if constexpr (std::is_same_v<Plain, LossMessage>) return std::tie(message.known, message.presumed);
  if constexpr (std::is_same_v<Plain, RefuseMessage>) return std::tie(message.term, message.silent);
  if constexpr (std::is_same_v<Plain, JoinsMessage>)
    return std::tie(message.term, message.members, message.blobs, message.accepted);
  if constexpr (std::is_same_v<Plain, AcceptsMessage>) return std::tie(message.ballot, message.members);
  if constexpr (std::is_same_v<Plain, CastMessage>)
    return std::tie(message.root, message.present, message.asked, message.message);
}

void put(WireWriter& out, int number) { out.put(number); }
void put(WireWriter& out, double seconds) { out.put(seconds); }
void put(WireWriter& out, const Blob& blob) { out.put_bytes(blob); }
void put(WireWriter& out, std::span<const std::byte> bytes) { out.put_bytes(bytes); }
void put(WireWriter& out, const MemberSet& set) { set.encode(out); }
void put(WireWriter& out, const BlobTable& blobs) { blobs.encode(out); }
void put(WireWriter& out, Ballot ballot) {
  out.put(ballot.term);
  out.put(ballot.round);
}
void put(WireWriter& out, const ShrinkProposal& proposal) {
  put(out, proposal.ballot);
  put(out, proposal.origin);
  put(out, proposal.set);
  put(out, proposal.blobs);
}
void put(WireWriter& out, const std::optional<ShrinkProposal>& proposal) {
  out.put<std::uint8_t>(proposal ? 1 : 0);
  if (proposal) put(out, *proposal);
}
void put(WireWriter& out, const std::vector<JoinsMessage::AcceptedBy>& accepted) {
  out.put(static_cast<std::uint32_t>(accepted.size()));
  for (const auto& each : accepted) {
    put(out, each.proposal);
    put(out, each.members);
  }
}

// Reads fields; complete() unless one is out of range, or the bytes are too few or too many.
class FieldReader {
 public:
  FieldReader(WireReader in, int members, const SharedBytes& owner)
      : in_(in), members_(static_cast<std::size_t>(members)), owner_(owner) {}

  // A term, or the number of a member.
  void get(int& number) {
    number = in_.get<int>();
    in_range_ &= number >= 0 && number < Ballot::kLastTerm;
  }
  void get(double& seconds) {
    seconds = in_.get<double>();
    in_range_ &= seconds >= 0;
  }
  void get(Blob& blob) { blob = in_.get_bytes(); }
  void get(std::span<const std::byte>& bytes) { bytes = in_.view(in_.get<std::uint32_t>()); }
  void get(MemberSet& set) {
    in_range_ &= set.decode(in_, members_);
    last_count_ = set.count();
  }
  // Of the members of the set before it.
  void get(BlobTable& blobs) { in_range_ &= blobs.decode(in_, last_count_, owner_); }
  void get(Ballot& ballot) {
    get(ballot.term);
    ballot.round = in_.get<int>();
    in_range_ &= ballot.round >= 0;
  }
  void get(ShrinkProposal& proposal) {
    get(proposal.ballot);
    get(proposal.origin);
    get(proposal.set);
    get(proposal.blobs);
  }
  void get(std::optional<ShrinkProposal>& proposal) {
    if (in_.get<std::uint8_t>() != 0) get(proposal.emplace());
  }
  void get(std::vector<JoinsMessage::AcceptedBy>& accepted) {
    for (auto each = in_.get<std::uint32_t>(); each > 0 && in_.ok() && in_range_; --each) {
      get(accepted.emplace_back().proposal);
      get(accepted.back().members);
    }
  }

  bool complete() const { return in_range_ && in_.complete(); }

 private:
  WireReader in_;
  std::size_t members_;
  const SharedBytes& owner_;
  std::size_t last_count_ = 0;
  bool in_range_ = true;
};

template <typename Message>
std::optional<AgreementMessage> decode_as(WireReader in, int members, const SharedBytes& owner) {
  Message message;
  FieldReader reader(in, members, owner);
  std::apply([&](auto&... field) { (reader.get(field), ...); }, fields(message));
  if (!reader.complete()) return std::nullopt;
  if constexpr (std::is_same_v<Message, CastMessage>) {
    if (message.root >= members) return std::nullopt;
    message.owner = owner;
  }
  return message;
}

template <typename... Messages>
std::optional<AgreementMessage> decode_any(WireReader in, int members, const SharedBytes& owner,
                                           const std::variant<Messages...>*) {
  static constexpr std::optional<AgreementMessage> (*kDecoders[])(WireReader, int,
                                                                  const SharedBytes&) = {decode_as<Messages>...};
  const auto kind = in.get<std::uint8_t>();
  return kind < sizeof...(Messages) ? kDecoders[kind](in, members, owner) : std::nullopt;
}

}  // namespace

Blob encode(const AgreementMessage& message) {
  WireWriter out;
  out.put(static_cast<std::uint8_t>(message.index()));
  const auto put_fields = [&](const auto& each) {
    std::apply([&](const auto&... field) { (put(out, field), ...); }, fields(each));
  };
  std::visit(put_fields, message);
  return out.take();
}

std::optional<AgreementMessage> decode_agreement_message(std::span<const std::byte> bytes, int members) {
  const auto owner = std::make_shared<const Blob>(bytes.begin(), bytes.end());
  return decode_agreement_message(*owner, members, owner);
}

std::optional<AgreementMessage> decode_agreement_message(std::span<const std::byte> bytes, int members,
                                                         const SharedBytes& owner) {
  return decode_any(WireReader(bytes), members, owner, static_cast<const AgreementMessage*>(nullptr));
}

JoinsMessage joins_of(int members, int member, JoinMessage join) {
  const MemberSet alone = MemberSet::of(static_cast<std::size_t>(members), member);
  JoinsMessage joins{join.term, alone, BlobTable{std::move(join.blob)}, {}};
  if (join.accepted) joins.accepted.push_back({std::move(*join.accepted), alone});
  return joins;
}

LossMessage withdrawal_of(int members, int member) {
  const auto size = static_cast<std::size_t>(members);
  return {MemberSet(size), MemberSet::of(size, member)};
}

bool is_withdrawal(int members, int from, std::span<const std::byte> bytes) {
  const auto message = decode_agreement_message(bytes, members);
  if (!message) return false;
  if (const auto* cast = std::get_if<CastMessage>(&*message)) return is_withdrawal(members, cast->root, cast->message);
  const auto* loss = std::get_if<LossMessage>(&*message);
  if (loss == nullptr) return std::holds_alternative<RefuseMessage>(*message);
  return from >= 0 && from < members && loss->presumed[static_cast<std::size_t>(from)];
}

int speaker_of(int members, int from, std::span<const std::byte> bytes) {
  const auto message = decode_agreement_message(bytes, members);
  const auto* cast = message ? std::get_if<CastMessage>(&*message) : nullptr;
  return cast == nullptr ? from : cast->root;
}

}  // namespace tutti
