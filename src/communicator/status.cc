// What a rank says of itself to peers that wonder, and what it finds out about them.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "communicator/impl.hpp"
#include "communicator/job.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

std::string describe_call(Collective collective, std::size_t count, DataType type, Operator op, int root) {
  std::string text = fmt::format("{}({} x {}", name_of(collective), count, name_of(type));
  if (reduces(collective)) text += fmt::format(", {}", name_of(op));
  if (has_root(collective)) text += fmt::format(", root {}", root);
  return text + ")";
}

std::string describe_call(const Call& call) {
  return describe_call(call.collective, call.count, call.type, call.reduction.op, call.root);
}

std::string describe_call(const Entered& entered) {
  const std::uint32_t what = entered.what.load(std::memory_order_relaxed);
  return describe_call(static_cast<Collective>(what & 255), entered.count.load(std::memory_order_relaxed),
                       static_cast<DataType>(what >> 8 & 255), static_cast<Operator>(what >> 16 & 255),
                       entered.root.load(std::memory_order_relaxed));
}

/// What the rank said of operation `number`; null where it has not come there, or has forgotten.
const Entered* find_entered(const SegmentHead& head, std::uint32_t number) {
  const Entered& entered = head.entered[number % kRememberedOperations];
  return entered.number.load(std::memory_order_acquire) == number + 1 ? &entered : nullptr;
}

const Entered& last_entered(const SegmentHead& head) {
  const std::uint32_t last = head.last_entered.load(std::memory_order_acquire);
  return head.entered[(last == 0 ? 0 : last - 1) % kRememberedOperations];
}

/// The first operation the two ranks remember that is not the same call on both; `otherwise` where there is none.
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

}  // namespace

void CommunicatorImpl::publish(Lane& lane, const Call& call, OperationTag tag) {
  if (&lane == &collectives_)
    publish_entered(call, tag);
  else
    publish_end(*lane.calls, call, tag);
}

void CommunicatorImpl::publish_entered(const Call& call, OperationTag tag) {
  SegmentHead& head = host_->head();
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

std::string CommunicatorImpl::name_operation(const Operation& operation) const {
  const Call& call = operation.call;
  if (call.collective == Collective::point_to_point)
    return fmt::format("{} #{}", call.sends ? "send" : "recv", operation.execution.tag().number);
  return fmt::format("{} #{}", name_of(call.collective), operation.execution.tag().number);
}

Error CommunicatorImpl::with_context(Error error, const Operation* operation) const {
  error.rank = rank();
  if (error.operation.empty() && operation != nullptr) error.operation = name_operation(*operation);
  return error;
}

/// " (which last entered operation 4, broadcast(...))", for warnings; empty where nothing is known.
std::string CommunicatorImpl::describe_peer(int peer) {
  if (peer < 0) return "";
  if (host_->is_here(peer) && host_->attach(peer)) {
    const SegmentHead& head = host_->head_of(peer);
    const std::uint32_t last = head.last_entered.load(std::memory_order_acquire);
    if (last == 0) return ", which has entered no operation yet";
    return fmt::format(", which last entered {} #{}", describe_call(last_entered(head)), last - 1);
  }
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(peer);
  if (found == answers_.end()) return "";
  if (found->second.number == 0) return ", which has entered no operation yet";
  return fmt::format(", which last entered {} #{}", found->second.text, found->second.number - 1);
}

/// "; lane 0 dead for 3.2 s: no carrier, ...", where a rank of another host is not reached by all lanes.
std::string CommunicatorImpl::describe_lanes(int peer) const {
  if (peer < 0 || host_->is_here(peer) || job_->tcp() == nullptr) return "";
  const Member& member = identity_.members[static_cast<std::size_t>(peer)];
  return fmt::format("; lanes from rank {} to rank {}: {}", rank(), peer,
                     job_->tcp()->describe_lanes(job_->endpoint_of(member.process).id));
}

/// To all ranks, and to nobody else: processes without a rank here would keep it for a communicator they never get.
void CommunicatorImpl::tell_all(const Message& message) {
  job_->broadcast(identity_.id, identity_.processes(), message);
}

/// Asks the ranks of other hosts what they run, once a second at most.
void CommunicatorImpl::ask_all() {
  if (layout_.hosts == 1 || (last_question_ != 0 && microseconds_since(last_question_) < 1e6)) return;
  last_question_ = ticks();
  Message question;
  question.kind = Message::Kind::question;
  question.from = rank();
  tell_all(question);
}

/// A rank that is known not to have entered the operation; -1 where none is.
int CommunicatorImpl::find_latecomer(std::uint32_t number) {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    if (host_->is_here(peer) && host_->attach(peer)) {
      if (host_->head_of(peer).last_entered.load(std::memory_order_acquire) < number + 1) return peer;
      continue;
    }
    const std::lock_guard lock(mutex_);
    const auto found = answers_.find(peer);
    if (found != answers_.end() && found->second.number < number + 1) return peer;
  }
  return -1;
}

/// A rank that has waited asks the one it expects what that is running.
void CommunicatorImpl::inquire(Operation& operation, int peer) {
  bool departed = host_->is_here(peer) && host_->has_left(peer);
  {
    const std::lock_guard lock(mutex_);
    departed = departed || departed_[static_cast<std::size_t>(peer)] || left_[static_cast<std::size_t>(peer)];
  }
  // What it had left for us may have come after we looked last: it is missed only if we still wait at the next look.
  if (departed && std::exchange(operation.missed, peer) != peer) return;
  if (departed) {
    Error error;
    error.code = ErrorCode::rank_died;
    error.peer = peer;
    error.message = fmt::format("rank {} has left", peer);
    break_with(with_context(std::move(error), &operation), true);
    return;
  }
  if (operation.call.collective == Collective::point_to_point) return ask(peer);
  std::uint32_t number = 0;
  std::uint32_t signature = 0;
  if (host_->is_here(peer) && host_->attach(peer)) {
    if (const Entered* const entered = find_entered(host_->head_of(peer), operation.execution.tag().number)) {
      number = operation.execution.tag().number + 1;
      signature = entered->signature.load(std::memory_order_relaxed);
    }
  } else {
    const std::lock_guard lock(mutex_);
    const auto found = answers_.find(peer);
    if (found != answers_.end()) {
      number = found->second.number;
      signature = found->second.signature;
    }
  }
  const OperationTag tag = operation.execution.tag();
  if (number == tag.number + 1 && signature != tag.signature) {
    Error error;
    error.code = ErrorCode::mismatch;
    error.peer = peer;
    break_with(explain(operation, std::move(error)), true);
  } else {
    ask(peer);
  }
}

/// Asks a rank of another host what it runs.
void CommunicatorImpl::ask(int peer) {
  if (host_->is_here(peer)) return;
  Message question;
  question.kind = Message::Kind::question;
  question.from = rank();
  question.to = peer;
  job_->send(identity_.id, identity_.members[static_cast<std::size_t>(peer)].process, question);
}

/// A transport that fails has most likely lost its peer. Control knows for sure, and more, a moment later: the peer may
/// have told why it goes.
Error CommunicatorImpl::blame(Error error) const {
  const Deadline verdict = Deadline::in(0.3);
  while (!broken_.load(std::memory_order_acquire) && !verdict.passed()) ::usleep(1000);
  if (const Status known = status(); !known) return known.error();
  error.code = ErrorCode::rank_died;
  error.message = fmt::format("rank {} died or cannot be reached ({})", error.peer, error.message);
  return error;
}

/// Returns "#1 is broadcast(...) on rank 0 and ... on rank 1" of the first operation the two ranks remember that is not
/// the same call on both; empty where there is none.
std::string CommunicatorImpl::describe_difference(int peer) const {
  const SegmentHead& mine = host_->head();
  const SegmentHead& theirs = host_->head_of(peer);
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
      return fmt::format("#{} is {} on rank {} and {} on rank {}", number, describe_call(*own), rank(), call, peer);
  }
  return "";
}

/// Small broadcasts and scatters whose roots differ need nothing of each other, and end well on all ranks with wrong
/// data. The next collective notices; where there is none, nobody has yet.
void CommunicatorImpl::report_unnoticed() const {
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || !host_->is_attached(peer)) continue;
    if (const std::string difference = describe_difference(peer); !difference.empty())
      return log::error("rank {}: ranks called different operations, and results are wrong: {}", rank(), difference);
  }
}

/// Ranks may differ since an earlier operation, which they passed because it needed nothing of the other.
std::string CommunicatorImpl::describe_mismatch(const Operation& operation, int peer) {
  const std::uint32_t number = operation.execution.tag().number;
  if (host_->is_here(peer) && host_->attach(peer)) {
    const std::uint32_t first = first_difference(host_->head(), host_->head_of(peer), number);
    const Entered* const mine = find_entered(host_->head(), first);
    const Entered* const theirs = find_entered(host_->head_of(peer), first);
    if (mine != nullptr && theirs != nullptr)
      return fmt::format("ranks called different operations: #{} is {} on rank {} and {} on rank {}", first,
                         describe_call(*mine), rank(), describe_call(*theirs), peer);
  }
  return fmt::format("ranks called different operations: rank {} called {}, rank {} differs{}", rank(),
                     describe_call(operation.call), peer, describe_peer(peer));
}

/// Says what both sides called, where two ranks do not agree.
Error CommunicatorImpl::explain(const Operation& operation, Error error) {
  const bool is_lost = error.code == ErrorCode::system || error.code == ErrorCode::rank_died;
  if (is_lost && error.peer >= 0) error = blame(std::move(error));
  const bool end = operation.call.collective == Collective::point_to_point;
  if (error.code == ErrorCode::mismatch && error.peer >= 0 && end) {
    error.message = describe_end_mismatch(operation, error.peer);
  } else if (error.code == ErrorCode::mismatch && error.peer >= 0) {
    if (!host_->is_here(error.peer)) {  // ask, and give it a moment
      Message question;
      question.kind = Message::Kind::question;
      question.from = rank();
      question.to = error.peer;
      job_->send(identity_.id, identity_.members[static_cast<std::size_t>(error.peer)].process, question);
      for (int tries = 0; tries < 200 && describe_peer(error.peer).empty(); ++tries) ::usleep(1000);
    }
    error.message = describe_mismatch(operation, error.peer);
  }
  return with_context(std::move(error), &operation);
}

void CommunicatorImpl::hear(const Message& message) {
  if (message.from == rank() && message.kind != Message::Kind::agreement) return;
  if (message.to >= 0 && message.to != rank()) return;
  switch (message.kind) {
    case Message::Kind::broken: {
      Error error;
      error.code = message.code;
      error.message = message.text;
      error.peer = message.peer;
      error.rank = rank();
      break_with(std::move(error), false);
      return;
    }
    case Message::Kind::question: {
      const Entered& current = last_entered(host_->head());
      Message answer;
      answer.kind = Message::Kind::answer;
      answer.from = rank();
      answer.to = message.from;
      answer.number = current.number.load(std::memory_order_acquire);
      answer.signature = current.signature.load(std::memory_order_relaxed);
      answer.text = describe_call(current);
      if (message.from < 0 || message.from >= size()) return;
      job_->send(identity_.id, identity_.members[static_cast<std::size_t>(message.from)].process, answer);
      return;
    }
    case Message::Kind::answer: {
      const std::lock_guard lock(mutex_);
      answers_[message.from] = message;
      return;
    }
    case Message::Kind::left: {
      const std::lock_guard lock(mutex_);
      if (message.from >= 0 && message.from < size()) left_[static_cast<std::size_t>(message.from)] = true;
      return;
    }
    case Message::Kind::end_question: {
      if (message.from < 0 || message.from >= size()) return;
      Message answer = message;
      answer.kind = Message::Kind::end_answer;
      answer.from = rank();
      answer.to = message.from;
      answer.text = recall_end(message.from, message.signature == 1, message.number);
      job_->send(identity_.id, identity_.members[static_cast<std::size_t>(message.from)].process, answer);
      return;
    }
    case Message::Kind::end_answer: {
      const std::lock_guard lock(mutex_);
      end_answers_[message.from] = message;
      return;
    }
    case Message::Kind::agreement:
      return hear_agreement(message);
  }
}

}  // namespace tutti
