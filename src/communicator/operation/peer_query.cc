#include "communicator/operation/peer_query.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/clock.hpp"
#include "communicator/job/job.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

constexpr double kAskAllMicroseconds = 1e6;  // apart

std::string describe_call(Collective collective, std::size_t count, DataType type, Operator op, int root) {
  std::string text = fmt::format("{}({} x {}", name_of(collective), count, name_of(type));
  if (reduces(collective)) text += fmt::format(", {}", name_of(op));
  if (has_root(collective)) text += fmt::format(", root {}", root);
  return text + ")";
}

std::string describe_call(const Entered& entered) {
  const std::uint32_t what = entered.what.load(std::memory_order_relaxed);
  return describe_call(static_cast<Collective>(what & 255), entered.count.load(std::memory_order_relaxed),
                       static_cast<DataType>(what >> 8 & 255), static_cast<Operator>(what >> 16 & 255),
                       entered.root.load(std::memory_order_relaxed));
}

/// Returns what the rank said of operation `number`; null if it has not come there, or has forgotten.
const Entered* find_entered(const SegmentHead& head, std::uint32_t number) {
  const Entered& entered = head.entered[number % kRememberedOperations];
  return entered.number.load(std::memory_order_acquire) == number + 1 ? &entered : nullptr;
}

const Entered& last_entered(const SegmentHead& head) {
  const std::uint32_t last = head.last_entered.load(std::memory_order_acquire);
  return head.entered[(last == 0 ? 0 : last - 1) % kRememberedOperations];
}

/// Returns the first operation the two ranks remember that is not the same call on both; `otherwise` if there is none.
std::uint32_t first_difference(const SegmentHead& one, const SegmentHead& other, std::uint32_t otherwise) {
  for (std::uint32_t back = std::min(kRememberedOperations - 1, otherwise); back > 0; --back) {
    const Entered* const mine = find_entered(one, otherwise - back);
    const Entered* const theirs = find_entered(other, otherwise - back);
    if (mine != nullptr && theirs != nullptr &&
        mine->signature.load(std::memory_order_relaxed) != theirs->signature.load(std::memory_order_relaxed))
      return otherwise - back;
  }
  return otherwise;
}

std::string describe_last(std::uint32_t last, const std::string& call) {
  if (last == 0) return ", which has entered no operation yet";
  return fmt::format(", which last entered {} #{}", call, last - 1);
}

}  // namespace

std::string describe_call(const Call& call) {
  return describe_call(call.collective, call.count, call.type, call.reduction.op, call.root);
}

void PeerQuery::publish(const Call& call, OperationTag tag) {
  SegmentHead& head = host_.own().head();
  Entered& current = head.entered[tag.number % kRememberedOperations];
  current.signature.store(tag.signature, std::memory_order_relaxed);
  current.count.store(call.count, std::memory_order_relaxed);
  current.what.store(static_cast<std::uint32_t>(call.collective) | static_cast<std::uint32_t>(call.type) << 8 |
                         static_cast<std::uint32_t>(call.reduction.op) << 16,
                     std::memory_order_relaxed);
  current.root.store(call.root, std::memory_order_relaxed);
  current.number.store(tag.number + 1, std::memory_order_release);
  head.last_entered.store(tag.number + 1, std::memory_order_release);
}

PointToPointHistory& PeerQuery::history_of(int peer, bool sends) {
  const std::lock_guard lock(mutex_);
  auto& history = histories_[{peer, sends}];
  if (history == nullptr) history = std::make_unique<PointToPointHistory>();
  return *history;
}

std::string PeerQuery::recall(int peer, bool sends, std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = histories_.find({peer, sends});
  return found == histories_.end() ? "" : found->second->find(number);
}

void PeerQuery::send(int peer, const Message& message) {
  // A peer that cannot be told is known to be gone, or soon will be.
  (void)job_.send(identity_.id, identity_.process_of(peer), message);
}

void PeerQuery::ask(int peer) {
  if (host_.is_here(peer)) return;
  Message question;
  question.kind = Message::Kind::question;
  question.from = identity_.rank;
  question.to = peer;
  send(peer, question);
}

void PeerQuery::ask_all() {
  if (asked_all_ != 0 && microseconds_since(asked_all_) < kAskAllMicroseconds) return;
  asked_all_ = ticks();
  Message question;
  question.kind = Message::Kind::question;
  question.from = identity_.rank;
  job_.broadcast(identity_.id, identity_.processes(), question);
}

void PeerQuery::ask_other_end(int peer, bool sends, std::uint32_t number) {
  if (peer == identity_.rank) return;
  Message question;
  question.kind = Message::Kind::end_question;
  question.from = identity_.rank;
  question.to = peer;
  question.number = number;
  question.signature = sends ? 0 : 1;
  {
    const std::lock_guard lock(mutex_);
    end_answers_.erase(peer);
  }
  send(peer, question);
}

void PeerQuery::hear(const Message& message) {
  if (message.from < 0 || message.from >= host_.size()) return;
  Message answer;
  answer.from = identity_.rank;
  answer.to = message.from;
  switch (message.kind) {
    case Message::Kind::question: {
      const Entered& current = last_entered(host_.own().head());
      answer.kind = Message::Kind::answer;
      answer.number = current.number.load(std::memory_order_acquire);
      answer.signature = current.signature.load(std::memory_order_relaxed);
      answer.text = describe_call(current);
      return send(message.from, answer);
    }
    case Message::Kind::end_question:
      answer.kind = Message::Kind::end_answer;
      answer.number = message.number;
      answer.signature = message.signature;
      answer.text = recall(message.from, message.signature == 1, message.number);
      return send(message.from, answer);
    case Message::Kind::answer: {
      const std::lock_guard lock(mutex_);
      answers_[message.from] = message;
      return;
    }
    case Message::Kind::end_answer: {
      const std::lock_guard lock(mutex_);
      end_answers_[message.from] = message;
      return;
    }
    default:
      return;
  }
}

std::optional<std::uint32_t> PeerQuery::signature_of(int peer, std::uint32_t number) {
  if (host_.is_here(peer) && host_.attach(peer)) {
    const Entered* const entered = find_entered(host_.head_of(peer), number);
    if (entered == nullptr) return std::nullopt;
    return entered->signature.load(std::memory_order_relaxed);
  }
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(peer);
  if (found == answers_.end() || found->second.number != number + 1) return std::nullopt;
  return found->second.signature;
}

int PeerQuery::find_late_rank(std::uint32_t number) {
  for (int peer = 0; peer < host_.size(); ++peer) {
    if (peer == identity_.rank) continue;
    if (host_.is_here(peer) && host_.attach(peer)) {
      if (host_.head_of(peer).last_entered.load(std::memory_order_acquire) < number + 1) return peer;
      continue;
    }
    const std::lock_guard lock(mutex_);
    const auto found = answers_.find(peer);
    if (found != answers_.end() && found->second.number < number + 1) return peer;
  }
  return -1;
}

std::optional<std::string> PeerQuery::other_end(int peer, bool sends, std::uint32_t number) const {
  if (peer == identity_.rank) return recall(peer, !sends, number);
  const std::lock_guard lock(mutex_);
  const auto found = end_answers_.find(peer);
  const std::uint32_t direction = sends ? 0 : 1;
  if (found == end_answers_.end() || found->second.number != number || found->second.signature != direction)
    return std::nullopt;
  return found->second.text;
}

std::string PeerQuery::describe(int peer) {
  if (peer < 0) return "";
  if (host_.is_here(peer) && host_.attach(peer)) {
    const SegmentHead& head = host_.head_of(peer);
    return describe_last(head.last_entered.load(std::memory_order_acquire), describe_call(last_entered(head)));
  }
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(peer);
  return found == answers_.end() ? "" : describe_last(found->second.number, found->second.text);
}

std::string PeerQuery::describe_lanes(int peer) const {
  if (peer < 0 || host_.is_here(peer) || job_.tcp() == nullptr) return "";
  return fmt::format("; lanes from rank {} to rank {}: {}", identity_.rank, peer,
                     job_.tcp()->describe_lanes(job_.endpoint_of(identity_.process_of(peer)).id));
}

std::string PeerQuery::describe_mismatch(const Call& call, std::uint32_t number, int peer) {
  if (host_.is_here(peer) && host_.attach(peer)) {
    const std::uint32_t first = first_difference(host_.own().head(), host_.head_of(peer), number);
    const Entered* const mine = find_entered(host_.own().head(), first);
    const Entered* const theirs = find_entered(host_.head_of(peer), first);
    if (mine != nullptr && theirs != nullptr)
      return fmt::format("ranks called different operations: #{} is {} on rank {} and {} on rank {}", first,
                         describe_call(*mine), identity_.rank, describe_call(*theirs), peer);
  }
  return fmt::format("ranks called different operations: rank {} called {}, rank {} differs{}", identity_.rank,
                     tutti::describe_call(call), peer, describe(peer));
}

std::string PeerQuery::describe_mismatch_of_ends(const Call& call, std::uint32_t number, int peer) const {
  std::string theirs = other_end(peer, call.sends, number).value_or("");
  if (theirs.empty()) theirs = "something else";
  if (call.sends)
    return fmt::format("send #{} to rank {} gives {} x {}, rank {} expects {}", number, peer, call.count,
                       name_of(call.type), peer, theirs);
  return fmt::format("recv #{} from rank {} expects {} x {}, rank {} sent {}", number, peer, call.count,
                     name_of(call.type), peer, theirs);
}

std::string PeerQuery::describe_difference(int peer) const {
  const SegmentHead& mine = host_.own().head();
  const SegmentHead& theirs = host_.head_of(peer);
  const std::uint32_t end = mine.last_entered.load(std::memory_order_acquire);
  for (std::uint32_t number = end - std::min(end, kRememberedOperations); number < end; ++number) {
    const Entered* const own = find_entered(mine, number);
    const Entered* const other = find_entered(theirs, number);
    if (own == nullptr || other == nullptr) continue;
    const std::uint32_t signature = other->signature.load(std::memory_order_acquire);
    const std::string call = describe_call(*other);
    // A peer that goes on writes over what it said before: that is no difference.
    if (theirs.last_entered.load(std::memory_order_acquire) >= number + kRememberedOperations) continue;
    if (signature != own->signature.load(std::memory_order_relaxed))
      return fmt::format("#{} is {} on rank {} and {} on rank {}", number, describe_call(*own), identity_.rank, call,
                         peer);
  }
  return "";
}

std::string PeerQuery::find_difference() const {
  for (int peer = 0; peer < host_.size(); ++peer) {
    if (peer == identity_.rank || !host_.is_attached(peer)) continue;
    if (std::string difference = describe_difference(peer); !difference.empty()) return difference;
  }
  return "";
}

}  // namespace tutti
