// What a rank remembers of its sends and receives, so that two ends that differ can be told apart: their numbers count
// per peer and direction, so those of collectives say nothing about them.
#include <fmt/core.h>
#include <unistd.h>

#include "communicator/impl.hpp"

namespace tutti {

void CommunicatorImpl::publish_end(EndCalls& calls, const Call& call, OperationTag tag) {
  EndCall& current = calls[tag.number % calls.size()];
  current.number.store(0, std::memory_order_relaxed);
  current.what.store(static_cast<std::uint64_t>(call.count) << 8 | static_cast<std::uint64_t>(call.type),
                     std::memory_order_release);
  current.number.store(tag.number + 1, std::memory_order_release);
}

/// Returns "8 x float32": what this rank sent to `peer`, or received from it, as number so-and-so. Empty where it has
/// not come there, or has forgotten.
std::string CommunicatorImpl::recall_end(int peer, bool sends, std::uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto lane = point_to_point_.find({peer, sends});
  if (lane == point_to_point_.end()) return "";
  const EndCall& entry = (*lane->second.calls)[number % lane->second.calls->size()];
  if (entry.number.load(std::memory_order_acquire) != number + 1) return "";
  const std::uint64_t what = entry.what.load(std::memory_order_acquire);
  if (entry.number.load(std::memory_order_relaxed) != number + 1) return "";
  return fmt::format("{} x {}", what >> 8, name_of(static_cast<DataType>(what & 255)));
}

/// Asks a rank for the other end of a send (`sends`: of ours) or receive, and gives it a moment.
std::string CommunicatorImpl::ask_end(int peer, bool sends, std::uint32_t number) {
  if (peer == rank()) return recall_end(peer, !sends, number);
  Message question;
  question.kind = Message::Kind::end_question;
  question.from = rank();
  question.to = peer;
  question.number = number;
  question.signature = sends ? 0 : 1;
  {
    const std::lock_guard lock(mutex_);
    end_answers_.erase(peer);
  }
  job_->send(identity_.id, identity_.members[static_cast<std::size_t>(peer)].process, question);
  for (const Deadline moment = Deadline::in(0.3); !moment.passed(); ::usleep(1000)) {
    const std::lock_guard lock(mutex_);
    const auto found = end_answers_.find(peer);
    if (found != end_answers_.end() && found->second.number == number) return found->second.text;
  }
  return "";
}

std::string CommunicatorImpl::describe_end_mismatch(const Operation& operation, int peer) {
  const Call& call = operation.call;
  const std::uint32_t number = operation.execution.tag().number;
  std::string theirs = ask_end(peer, call.sends, number);
  if (theirs.empty()) theirs = "something else";
  if (call.sends)
    return fmt::format("send #{} to rank {} gives {} x {}, rank {} expects {}", number, peer, call.count,
                       name_of(call.type), peer, theirs);
  return fmt::format("recv #{} from rank {} expects {} x {}, rank {} sent {}", number, peer, call.count,
                     name_of(call.type), peer, theirs);
}

}  // namespace tutti
