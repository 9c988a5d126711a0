#include "communicator/operation/operation_driver.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "base/log.hpp"
#include "base/per_process.hpp"
#include "communicator/operation/progress.hpp"
#include "memory/region.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

constexpr int kNapMicroseconds = 1000;     // a missed wake costs no more than this
constexpr double kGraceSeconds = 5;        // for operations of a communicator that is dropped, after the last move
constexpr unsigned kPollsPerCheck = 1024;  // polls between two readings of the clock while something moves
constexpr int kPollsAlone = 64;            // a microsecond or two
constexpr double kBetweenLooks = 5;        // microseconds, of who only tests

/// How long a rank that gives up waits for peers in other processes to come out of a step that writes into its memory.
/// One step takes milliseconds; a process that takes longer stands still, and the memory is taken away from it.
constexpr double kStandstillSeconds = 0.5;

/// Returns how often a call that is alone polls before it waits as others do. Connections, and ranks that share this
/// process, need more care than that.
int polls_alone(const OperationDriver::Parts& parts, const WaitPolicy& wait_policy) {
  if (parts.tcp != nullptr || parts.host.shares_process()) return 0;
  return wait_policy.spin > 0 ? kPollsAlone : 1;
}

/// Takes the memory that peers could write into during an operation away from one that stands still.
void revoke_exposed(const Operation& operation, int rank, int peer) {
  for (const std::span<std::byte> buffer : operation.execution.exposed()) {
    if (buffer.empty() || buffer.data() == nullptr) continue;
    const auto* const address = static_cast<const void*>(buffer.data());
    if (const Status revoked = revoke(buffer.data(), buffer.size()); !revoked)
      log::error("rank {}: rank {} may still write into the {} bytes at {}: {}", rank, peer, buffer.size(), address,
                 revoked.error().message);
    else
      log::debug("rank {}: rank {} is still in the operation; it can no longer write into the {} bytes at {}", rank,
                 peer, buffer.size(), address);
  }
}

}  // namespace

OperationDriver::OperationDriver(const Parts& parts, const WaitPolicy& wait_policy, std::weak_ptr<void> owner)
    : parts_(parts),
      owner_(std::move(owner)),
      scheduler_(parts.query),
      wait_policy_(wait_policy),
      polls_alone_(polls_alone(parts, wait_policy)),
      stalls_(parts, parts.tcp != nullptr),
      inquiry_(parts.identity, parts.failure, parts.query),
      fence_(parts.host, kStandstillSeconds) {}

Status OperationDriver::run(const Call& call, Deadline deadline) {
  if (parts_.failure.is_broken()) return parts_.failure.status();
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

/// Makes known that this rank has entered an operation: to peers that ask, and to whoever watches.
inline void OperationDriver::enter(OperationQueue& queue, Operation& operation, OperationTag tag, const Plan& plan,
                                   const void* send, void* recv) {
  if (queue.history == nullptr)
    parts_.query.publish(operation.call, tag);
  else
    queue.history->add(operation.call, tag);
  parts_.recorder.entered(operation, tag, plan, send, recv);
}

std::optional<Status> OperationDriver::repeat(const CallKey& call, const void* send, void* recv) {
  BoundCall& slot = bound_calls_.slot_of(call);
  if (parts_.failure.is_broken() || !scheduler_.take_token()) return std::nullopt;
  if (!slot.bound || !(slot.key == call) || !is_next(*slot.queue)) {
    scheduler_.give_token();
    return std::nullopt;
  }
  Operation& operation = slot.operation;
  const OperationTag tag{slot.queue->number++, operation.execution.tag().signature};
  enter(*slot.queue, operation, tag, operation.execution.plan(), send, recv);
  operation.execution.restart(tag, send, recv);
  if (run_alone(operation)) {
    scheduler_.give_token();
    return Status{};
  }
  scheduler_.begin(*slot.queue, operation);
  operation.started = true;
  const Status result = run_owned(operation);
  scheduler_.give_token();
  return result;
}

/// Runs an operation that needs nothing but memory of this host, if no other is under way, and the scheduler need not
/// know of it: most small calls end here. Returns whether it is done; if not, it is to be begun like any other.
bool OperationDriver::run_alone(Operation& operation) {
  if (scheduler_.has_active()) return false;
  for (int poll = 0; poll < polls_alone_; ++poll) {
    operation.execution.advance();
    if (operation.execution.state() == Execution::State::running) continue;
    if (operation.execution.state() == Execution::State::failed) return false;
    parts_.recorder.left(operation, false);
    return true;
  }
  return false;
}

/// Returns whether a call may run at once, without overtaking others of its queue.
bool OperationDriver::is_next(const OperationQueue& queue) {
  if (scheduler_.has_mail()) take_mail();
  return OperationScheduler::is_idle(queue);
}

Status OperationDriver::run_owned(Operation& operation) {
  Waiter waiter(wait_policy_, &wait_habit_);
  while (true) {
    const bool moved = service();
    if (operation.done.load(std::memory_order_relaxed)) {
      waiter.reset();
      break;
    }
    if (moved)
      reset_wait(waiter);
    else
      idle_once(waiter);
  }
  if (operation.error != nullptr) return tl::unexpected(*operation.error);
  return {};
}

std::shared_ptr<Operation> OperationDriver::submit(const Call& call, Deadline deadline) {
  auto operation = std::make_shared<Operation>();
  operation->call = call;
  operation->deadline = deadline;
  operation->own_counts();
  const std::shared_ptr<OperationDriver> self(owner_.lock(), this);
  operation->keep_alive = self;
  operation->driver = self;
  scheduler_.submit(operation);
  // Wakes the thread that sleeps with the token, if there is one, so that it takes the operation up.
  if (scheduler_.has_owner()) {
    if (parts_.tcp != nullptr)
      parts_.tcp->wake();
    else
      parts_.host.own().ring();
  }
  of_process<Progress>().attend(self);
  return operation;
}

bool OperationDriver::drive() {
  if (!scheduler_.take_token()) return false;
  const bool moved = service();
  // Nobody may be waiting: this call may be the only one for a while that can notice a rank that is gone. Or it may be
  // one of many in a loop, which is to leave the links to whoever moves them.
  if (!moved && ticks() - looked_at_ > ticks_of_microseconds(kBetweenLooks)) look_after_waits();
  scheduler_.give_token();
  return moved;
}

Status OperationDriver::wait(Operation& operation, Deadline deadline) {
  Waiter waiter(wait_policy_, &wait_habit_);
  while (!operation.done.load(std::memory_order_acquire)) {
    if (deadline.passed()) return fail(ErrorCode::timed_out, "the operation is still under way");
    if (scheduler_.take_token()) {
      const bool moved = service();
      const bool done = operation.done.load(std::memory_order_relaxed);
      if (!moved && !done) idle_once(waiter);
      if (moved) reset_wait(waiter);
      scheduler_.give_token();
    } else if (waiter.pause() == Waiter::Next::sleep) {
      ::usleep(100);
    }
  }
  if (operation.error != nullptr) return tl::unexpected(*operation.error);
  return {};
}

Status OperationDriver::configure(const std::function<void(PlanCache&)>& change) {
  const bool owns = scheduler_.take_token();
  const bool may_change = owns && !scheduler_.has_collectives();
  if (may_change) {
    change(parts_.plans);
    bound_calls_.clear();
  }
  if (owns) scheduler_.give_token();
  if (may_change) return {};
  return fail(ErrorCode::invalid_argument, "programs can be chosen only while no operation is under way");
}

void OperationDriver::finish_pending() {
  Waiter waiter(wait_policy_);
  Deadline grace = Deadline::in(kGraceSeconds);
  while (!idle()) {
    if (grace.passed() && !parts_.failure.is_broken()) {
      Error error;
      error.code = ErrorCode::aborted;
      error.peer = parts_.identity.rank;
      error.message = fmt::format("rank {} destroyed its communicator with {} operations under way",
                                  parts_.identity.rank, scheduler_.submitted());
      parts_.failure.break_with(std::move(error), Notify::peers);
    }
    if (!scheduler_.take_token()) {
      if (waiter.pause() == Waiter::Next::sleep) ::usleep(100);
      continue;
    }
    // Bytes of other communicators, and probes of peers that wait, are no reason to wait longer.
    const std::uint64_t before = advances_;
    const bool moved = service();
    if (!moved && !idle()) idle_once(waiter);
    if (moved) reset_wait(waiter);
    if (advances_ != before) grace = Deadline::in(kGraceSeconds);
    scheduler_.give_token();
  }
}

void OperationDriver::close_profiler() {
  if (!idle() || !scheduler_.take_token()) return;
  parts_.recorder.close_profiler();
  scheduler_.give_token();
}

void OperationDriver::take_mail() {
  for (OperationQueue* const queue : scheduler_.take_mail()) activate_next(*queue);
}

void OperationDriver::activate_next(OperationQueue& queue) {
  if (queue.active == nullptr && !queue.waiting.empty()) activate(queue, *queue.waiting.front());
}

void OperationDriver::activate(OperationQueue& queue, Operation& operation) {
  scheduler_.begin(queue, operation);
  if (const Status started = start(queue, operation); !started) inquiry_.begin(operation, started.error(), false);
}

Status OperationDriver::start(OperationQueue& queue, Operation& operation) {
  if (parts_.failure.is_broken()) return parts_.failure.status();
  operation.stage_input(static_cast<int>(parts_.identity.members.size()));
  const Call& call = operation.call;
  Result<PreparedCall> prepared = parts_.plans.prepare(call);
  if (!prepared) return tl::unexpected(prepared.error());
  const OperationTag tag{queue.number++, prepared->signature};
  const Plan& plan = *prepared->plan.plan;
  parts_.recorder.set_title(operation, plan);
  enter(queue, operation, tag, plan, call.send, call.recv);
  Status started =
      operation.execution.start(prepared->plan, prepared->when_mapped, call, tag, &parts_.host, &parts_.failure.flag());
  operation.started = started.has_value();
  return started;
}

/// Takes everything under way as far as it goes now. Returns whether anything moved.
bool OperationDriver::service() {
  // Something may move all the time and yet not what an operation waits for.
  if (++polls_ % kPollsPerCheck == 0) check_stalls(ticks());
  if (scheduler_.has_mail()) take_mail();
  if (parts_.failure.is_broken()) return fail_all();
  if (!parts_.host.shares_process()) return advance_all();
  // A rank of this process that fails waits until we are outside, before its caller may free what we read. So nothing
  // in between may wait for another rank. Once one has given up, only what has failed goes on.
  if (!parts_.host.begin_touching()) return conclude_failures();
  const struct Touching {
    Host& host;
    ~Touching() { host.end_touching(); }  // also if a user's operator throws
  } touching{parts_.host};
  return advance_all();
}

bool OperationDriver::advance_all() {
  const bool received = progress_tcp();
  const bool moved = scheduler_.advance_active([&](OperationQueue& queue) { return advance(queue); });
  return received || moved;
}

/// Moves the lanes to other hosts on. Whoever waits in Tcp::wait() has to, because the transport's own thread does not
/// then.
bool OperationDriver::progress_tcp() { return parts_.tcp != nullptr && parts_.tcp->progress(); }

bool OperationDriver::advance(OperationQueue& queue) {
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
      inquiry_.begin(operation, operation.execution.error(), true);
      return true;
  }
  return moved;
}

/// Ends an operation. The caller goes on with the next.
void OperationDriver::finish(OperationQueue& queue, Operation& operation, const Error* error) {
  parts_.recorder.left(operation, error != nullptr);
  scheduler_.finish(queue, operation, error);
}

/// Begins a new wait, because something moved: whoever was waited for has come.
void OperationDriver::reset_wait(Waiter& waiter) {
  if (waiter.since() != 0)
    scheduler_.for_each_active([](const Operation& operation) { OperationRecorder::woken(operation); });
  waiter.reset();
}

/// Records that nothing of the operations under way moves, since then (ticks) where it is news.
void OperationDriver::note_waits(std::uint64_t since) {
  scheduler_.for_each_active([&](Operation& operation) { operation.execution.note_wait(since); });
}

/// Records waits and checks the operations. For all who drive and do not spin, as often as they look.
void OperationDriver::look_after_waits() {
  looked_at_ = ticks();
  note_waits(looked_at_);
  check_stalls(looked_at_);
}

/// Spins, yields or sleeps, as the waiter says. After a sleep it checks the operations.
void OperationDriver::idle_once(Waiter& waiter) {
  const bool waited_before = waiter.since() != 0;
  const Waiter::Next next = waiter.pause();
  if (!waited_before && waiter.since() != 0) note_waits(waiter.since());
  if (next == Waiter::Next::again) return;
  scheduler_.for_each_active(
      [&](const Operation& operation) { OperationRecorder::waiting(operation, waiter.since()); });
  if (parts_.tcp != nullptr)
    parts_.tcp->wait(std::chrono::microseconds(kNapMicroseconds));
  else
    parts_.host.own().sleep(kNapMicroseconds);
  look_after_waits();
}

/// Checks every operation under way, if it is time to. All who drive come here, whether they wait, test or are the
/// progress thread: an operation that nobody waits for times out and notices a lost rank, too.
void OperationDriver::check_stalls(std::uint64_t now) {
  if (!stalls_.is_due(now)) return;
  scheduler_.for_each_active([&](Operation& operation) {
    if (parts_.failure.is_broken()) return;
    if (std::optional<Error> error = stalls_.check(operation, now))
      parts_.failure.break_with(operation.attribute(std::move(*error), parts_.identity.rank), Notify::peers);
  });
}

/// Reports the failure of the queue's operation once it is explained. Returns whether it did.
bool OperationDriver::conclude_failure(OperationQueue& queue) {
  Operation& operation = *queue.active;
  const std::optional<Error> error = inquiry_.conclude(operation);
  if (!error) return false;
  const bool breaks = operation.failure->breaks;
  operation.failure.reset();
  if (breaks || error->code == ErrorCode::rank_died) parts_.failure.break_with(*error, Notify::peers);
  if (!breaks) {
    finish(queue, operation, &*error);
    activate_next(queue);
  }
  return true;
}

/// Reports the failures of all operations that have failed, while no other may go on.
bool OperationDriver::conclude_failures() {
  const bool received = progress_tcp();
  const bool concluded = scheduler_.advance_active(
      [&](OperationQueue& queue) { return queue.active->failure != nullptr && conclude_failure(queue); });
  return received || concluded;
}

/// Fails all operations of a broken communicator, once their memory is their callers' again: no peer of this host
/// touches it, and links to other hosts are closed. Peers of other processes that do not come out of a step in time
/// (they may stand still) lose what they could write into. Returns whether it is done.
bool OperationDriver::fail_all() {
  bool started = false;
  scheduler_.for_each_active([&](const Operation& operation) { started = started || operation.started; });
  if (started && !fence_.close()) return progress_tcp();
  const int rank = parts_.identity.rank;
  const Operation* const collective = scheduler_.active_collective();
  if (collective != nullptr && collective->started && !fence_.stuck().empty())
    revoke_exposed(*collective, rank, fence_.stuck().front());
  parts_.plans.clear();
  bound_calls_.clear();
  const Error error = parts_.failure.status().error();
  scheduler_.fail_all([&](Operation& operation) {
    parts_.recorder.left(operation, true);
    return operation.attribute(error, rank);
  });
  return true;
}

}  // namespace tutti
