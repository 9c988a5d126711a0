// How operations of a communicator move: the loop that drives them, and how it waits.
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "communicator/impl.hpp"
#include "communicator/operation/progress.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

constexpr int kNapMicroseconds = 1000;    // a missed wake costs no more than this
constexpr double kGraceSeconds = 5;       // for operations of a communicator that is dropped, after the last move
constexpr unsigned kPollsPerLook = 1024;  // polls between two readings of the clock while something moves

}  // namespace

Status CommunicatorImpl::run(const Call& call, Deadline deadline) {
  if (failure_.is_broken()) return status();
  if (!scheduler_.take_token()) return wait(*submit(call, deadline), Deadline::never());
  OperationQueue& queue = scheduler_.queue_of(call);
  if (!is_next(queue)) {
    scheduler_.give_token();
    return wait(*submit(call, deadline), Deadline::never());
  }
  const CallKey key = CallKey::of(call);
  BoundCall& slot = bound_calls_.slot_of(key);
  slot.bound = false;
  slot.operation.call = call;
  slot.operation.deadline = deadline;
  activate(queue, slot.operation);
  const Status result = run_owned(slot.operation);
  slot.key = key;
  slot.queue = &queue;
  // What the arguments alone do not tell, or what works on a copy of them, is bound anew each time.
  slot.bound = result.has_value() && !call.uneven && slot.operation.call.send == call.send &&
               call.reduction.op != Operator::user && deadline.is_never();
  scheduler_.give_token();
  return result;
}

std::optional<Status> CommunicatorImpl::repeat(const CallKey& call, const void* send, void* recv) {
  BoundCall& slot = bound_calls_.slot_of(call);
  if (failure_.is_broken() || !scheduler_.take_token()) return std::nullopt;
  if (!slot.bound || !(slot.key == call) || !is_next(*slot.queue)) {
    scheduler_.give_token();
    return std::nullopt;
  }
  Operation& operation = slot.operation;
  scheduler_.begin(*slot.queue, operation);
  const OperationTag tag{slot.queue->number++, operation.execution.tag().signature};
  enter(*slot.queue, operation, tag, operation.execution.plan(), send, recv);
  operation.started = true;
  operation.execution.restart(tag, send, recv);
  const Status result = run_owned(operation);
  scheduler_.give_token();
  return result;
}

/// Returns whether a call may run at once, without overtaking others of its queue.
bool CommunicatorImpl::is_next(const OperationQueue& queue) {
  if (scheduler_.has_mail()) take_mail();
  return OperationScheduler::is_idle(queue);
}

Status CommunicatorImpl::configure(const std::function<void(PlanCache&)>& change) {
  const bool owns = scheduler_.take_token();
  const bool may_change = owns && !scheduler_.has_collectives();
  if (may_change) {
    change(*plans_);
    bound_calls_.clear();
  }
  if (owns) scheduler_.give_token();
  if (may_change) return {};
  return fail(ErrorCode::invalid_argument, "programs can be chosen only while no operation is under way");
}

Status CommunicatorImpl::run_owned(Operation& operation) {
  Waiter waiter(wait_policy_, &wait_habit_);
  while (true) {
    const bool moved = service();
    if (operation.done.load(std::memory_order_relaxed)) {
      waiter.reset();
      break;
    }
    if (moved)
      wake(waiter);
    else
      rest(waiter);
  }
  if (operation.error != nullptr) return tl::unexpected(*operation.error);
  return {};
}

std::shared_ptr<Operation> CommunicatorImpl::submit(const Call& call, Deadline deadline) {
  auto operation = std::make_shared<Operation>();
  operation->call = call;
  operation->deadline = deadline;
  operation->own_counts();
  operation->communicator = shared_from_this();
  operation->home = operation->communicator;
  scheduler_.submit(operation);
  // Wakes the thread that sleeps with the token, if there is one, so that it takes the operation up.
  if (scheduler_.has_owner()) {
    if (layout_.hosts > 1)
      job_->tcp()->wake();
    else
      host_->own().ring();
  }
  Progress::of_process().attend(shared_from_this());
  return operation;
}

bool CommunicatorImpl::drive() {
  if (!scheduler_.take_token()) return false;
  const bool moved = service();
  // Nobody may be waiting: this call may be the only one for a while that can notice a rank that is gone.
  if (!moved) look(ticks());
  scheduler_.give_token();
  return moved;
}

Status CommunicatorImpl::wait(Operation& operation, Deadline deadline) {
  Waiter waiter(wait_policy_, &wait_habit_);
  while (!operation.done.load(std::memory_order_acquire)) {
    if (deadline.passed()) return fail(ErrorCode::timed_out, "the operation is still under way");
    if (scheduler_.take_token()) {
      const bool moved = service();
      const bool done = operation.done.load(std::memory_order_relaxed);
      if (!moved && !done) rest(waiter);
      if (moved) wake(waiter);
      scheduler_.give_token();
    } else if (waiter.pause() == Waiter::Next::sleep) {
      ::usleep(100);
    }
  }
  if (operation.error != nullptr) return tl::unexpected(*operation.error);
  return {};
}

/// Waits for operations that nobody waits for any more, as long as something moves, and aborts what does not.
void CommunicatorImpl::finish_pending() {
  Waiter waiter(wait_policy_);
  Deadline grace = Deadline::in(kGraceSeconds);
  while (!idle()) {
    if (grace.passed() && !failure_.is_broken()) {
      Error error;
      error.code = ErrorCode::aborted;
      error.peer = rank();
      error.message = fmt::format("rank {} destroyed its communicator with {} operations under way", rank(),
                                  scheduler_.submitted());
      break_with(std::move(error), true);
    }
    if (!scheduler_.take_token()) {
      if (waiter.pause() == Waiter::Next::sleep) ::usleep(100);
      continue;
    }
    // Bytes of other communicators, and probes of peers that wait, are no reason to wait longer.
    const std::uint64_t before = advances_;
    const bool moved = service();
    if (!moved && !idle()) rest(waiter);
    if (moved) wake(waiter);
    if (advances_ != before) grace = Deadline::in(kGraceSeconds);
    scheduler_.give_token();
  }
}

void CommunicatorImpl::take_mail() {
  for (OperationQueue* const queue : scheduler_.take_mail()) activate_next(*queue);
}

void CommunicatorImpl::activate_next(OperationQueue& queue) {
  if (queue.active == nullptr && !queue.waiting.empty()) activate(queue, *queue.waiting.front());
}

void CommunicatorImpl::activate(OperationQueue& queue, Operation& operation) {
  scheduler_.begin(queue, operation);
  if (const Status started = start(queue, operation); !started) begin_failure(operation, started.error(), false);
}

Status CommunicatorImpl::start(OperationQueue& queue, Operation& operation) {
  if (failure_.is_broken()) return status();
  operation.stage_input(size());
  const Call& call = operation.call;
  Result<PreparedCall> prepared = plans_->prepare(call);
  if (!prepared) return tl::unexpected(prepared.error());
  const OperationTag tag{queue.number++, prepared->signature};
  const Plan& plan = *prepared->plan.plan;
  recorder_.set_title(operation, plan);
  enter(queue, operation, tag, plan, call.send, call.recv);
  Status started =
      operation.execution.start(prepared->plan, prepared->when_mapped, call, tag, host_.get(), &failure_.flag());
  operation.started = started.has_value();
  return started;
}

/// Makes known that this rank has entered an operation: to peers that ask, and to whoever watches.
void CommunicatorImpl::enter(OperationQueue& queue, Operation& operation, OperationTag tag, const Plan& plan,
                             const void* send, void* recv) {
  if (queue.history == nullptr)
    query_.publish(operation.call, tag);
  else
    queue.history->add(operation.call, tag);
  recorder_.entered(operation, tag, plan, send, recv);
}

bool CommunicatorImpl::service() {
  // Something may move all the time and yet not what an operation waits for.
  if (++polls_ % kPollsPerLook == 0) look(ticks());
  if (scheduler_.has_mail()) take_mail();
  if (failure_.is_broken()) return fail_all();
  if (!host_->shares_process()) return advance_all();
  // A rank of this process that fails waits until we are outside, before its caller may free what we read. So nothing
  // in between may wait for another rank. Once one has given up, only what has failed goes on.
  if (!host_->begin_touching()) return conclude_failures();
  const struct Touching {
    Host& host;
    ~Touching() { host.end_touching(); }  // also if a user's operator throws
  } touching{*host_};
  return advance_all();
}

bool CommunicatorImpl::advance_all() {
  const bool received = progress_tcp();
  const bool moved = scheduler_.advance_active([&](OperationQueue& queue) { return advance(queue); });
  return received || moved;
}

/// Whoever waits in Tcp::wait() has to do this, because the transport's own thread does not then.
bool CommunicatorImpl::progress_tcp() { return layout_.hosts > 1 && job_->tcp()->progress(); }

bool CommunicatorImpl::advance(OperationQueue& queue) {
  Operation& operation = *queue.active;
  if (operation.failure != nullptr) return conclude_failure(queue);
  const bool moved = operation.execution.advance();
  if (moved) ++advances_;
  switch (operation.execution.state()) {
    case Execution::State::running:
      if (moved) StallWatch::moved(operation);
      return moved;
    case Execution::State::done:
      finish(queue, operation, nullptr);
      activate_next(queue);
      return true;
    case Execution::State::failed:
      begin_failure(operation, operation.execution.error(), true);
      return true;
  }
  return moved;
}

/// Ends an operation. The caller goes on with the next.
void CommunicatorImpl::finish(OperationQueue& queue, Operation& operation, const Error* error) {
  recorder_.left(operation, error != nullptr);
  scheduler_.finish(queue, operation, error);
}

/// Something moved: whoever was waited for has come.
void CommunicatorImpl::wake(Waiter& waiter) {
  if (waiter.since() != 0)
    scheduler_.for_each_active([](const Operation& operation) { OperationRecorder::woken(operation); });
  waiter.reset();
}

/// Sleeps as the waiter says, and looks around now and then.
void CommunicatorImpl::rest(Waiter& waiter) {
  if (waiter.pause() == Waiter::Next::again) return;
  scheduler_.for_each_active(
      [&](const Operation& operation) { OperationRecorder::waiting(operation, waiter.since()); });
  if (layout_.hosts > 1)
    job_->tcp()->wait(std::chrono::microseconds(kNapMicroseconds));
  else
    host_->sleep(kNapMicroseconds);
  look(ticks());
}

/// Looks at every operation under way, if it is time to. All who drive come here, whether they wait, test or are the
/// progress thread: an operation that nobody waits for times out and notices a lost rank, too.
void CommunicatorImpl::look(std::uint64_t now) {
  if (!stalls_.is_due(now)) return;
  scheduler_.for_each_active([&](Operation& operation) {
    if (failure_.is_broken()) return;
    if (std::optional<Error> error = stalls_.look_at(operation, now))
      break_with(with_context(std::move(*error), operation), true);
  });
}

}  // namespace tutti
