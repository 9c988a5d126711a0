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
}

void put(WireWriter& out, int term) { out.put(term); }
void put(WireWriter& out, double seconds) { out.put(seconds); }
void put(WireWriter& out, const Blob& blob) { out.put_bytes(blob); }
void put(WireWriter& out, const MemberSet& set) { out.put_set(set); }
void put(WireWriter& out, Ballot ballot) {
  out.put(ballot.term);
  out.put(ballot.round);
}
void put(WireWriter& out, const ShrinkProposal& proposal) {
  put(out, proposal.ballot);
  put(out, proposal.origin);
  put(out, proposal.set);
  out.put<std::uint8_t>(proposal.blobs.empty() ? 0 : 1);
  for (const Blob& blob : proposal.blobs) put(out, blob);
}
void put(WireWriter& out, const std::optional<ShrinkProposal>& proposal) {
  out.put<std::uint8_t>(proposal ? 1 : 0);
  if (proposal) put(out, *proposal);
}

// Reads fields; complete() unless one is out of range, or the bytes are too few or too many.
class FieldReader {
 public:
  FieldReader(WireReader in, int members) : in_(in), members_(static_cast<std::size_t>(members)) {}

  void get(int& term) {
    term = in_.get<int>();
    in_range_ &= term >= 0 && term < Ballot::kLastTerm;
  }
  void get(double& seconds) {
    seconds = in_.get<double>();
    in_range_ &= seconds >= 0;
  }
  void get(Blob& blob) { blob = in_.get_bytes(); }
  void get(MemberSet& set) { set = in_.get_set(members_); }
  void get(Ballot& ballot) {
    get(ballot.term);
    ballot.round = in_.get<int>();
    in_range_ &= ballot.round >= 0;
  }
  void get(ShrinkProposal& proposal) {
    get(proposal.ballot);
    get(proposal.origin);
    get(proposal.set);
    if (in_.get<std::uint8_t>() == 0) return;
    for (std::size_t blob = count(proposal.set); blob > 0 && in_.ok(); --blob) get(proposal.blobs.emplace_back());
  }
  void get(std::optional<ShrinkProposal>& proposal) {
    if (in_.get<std::uint8_t>() != 0) get(proposal.emplace());
  }

  bool complete() const { return in_range_ && in_.complete(); }

 private:
  WireReader in_;
  std::size_t members_;
  bool in_range_ = true;
};

template <typename Message>
std::optional<AgreementMessage> decode_as(WireReader in, int members) {
  Message message;
  FieldReader reader(in, members);
  std::apply([&](auto&... field) { (reader.get(field), ...); }, fields(message));
  if (!reader.complete()) return std::nullopt;
  return message;
}

template <typename... Messages>
std::optional<AgreementMessage> decode_any(WireReader in, int members, const std::variant<Messages...>*) {
  static constexpr std::optional<AgreementMessage> (*kDecoders[])(WireReader, int) = {decode_as<Messages>...};
  const auto kind = in.get<std::uint8_t>();
  return kind < sizeof...(Messages) ? kDecoders[kind](in, members) : std::nullopt;
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
  return decode_any(WireReader(bytes), members, static_cast<const AgreementMessage*>(nullptr));
}

}  // namespace tutti
