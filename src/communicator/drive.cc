// How operations of a communicator move: the token, the mailbox, and the loop that waits.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "communicator/impl.hpp"
#include "communicator/progress.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {
namespace {

constexpr int kNapMicroseconds = 1000;  // a missed wake costs no more than this
constexpr double kAskAllSeconds = 0.3;
constexpr double kLookMicroseconds = 50e3;    // how often operations under way are looked at
constexpr double kStillMicroseconds = 100e3;  // without anything moving, until a rank asks what its peers do
constexpr double kNewsMicroseconds = 2e6;     // how long news of a rank that gave up may take
constexpr double kGraceSeconds = 5;           // for operations of a communicator that is dropped, after the last move
constexpr unsigned kPollsPerLook = 1024;      // polls between two readings of the clock while something moves

}  // namespace

void Operation::own_counts() {
  std::span<const std::size_t>* const spans[4] = {&call.send_counts, &call.send_offsets, &call.recv_counts,
                                                  &call.recv_offsets};
  for (int i = 0; i < 4; ++i) {
    counts[i].assign(spans[i]->begin(), spans[i]->end());
    *spans[i] = counts[i];
  }
}

Status CommunicatorImpl::run(const Call& call, Deadline deadline) {
  if (broken_.load(std::memory_order_acquire)) return status();
  if (!take_token()) return wait(*submit(call, deadline), Deadline::never());
  Lane& lane = lane_of(call);
  if (!nothing_pending(lane)) {
    give_token();
    return wait(*submit(call, deadline), Deadline::never());
  }
  const CallKey key = CallKey::of(call);
  Remembered& slot = slot_of(key);
  slot.bound = false;
  slot.operation.call = call;
  slot.operation.deadline = deadline;
  activate(lane, slot.operation);
  const Status result = run_owned(slot.operation);
  slot.call = key;
  slot.lane = &lane;
  // What the arguments alone do not tell, or what works on a copy of them, is bound anew each time.
  slot.bound = result.has_value() && !call.uneven && slot.operation.call.send == call.send &&
               call.reduction.op != Operator::user && deadline.is_never();
  give_token();
  return result;
}

std::optional<Status> CommunicatorImpl::repeat(const CallKey& call, const void* send, void* recv) {
  Remembered& slot = slot_of(call);
  if (broken_.load(std::memory_order_acquire) || !take_token()) return std::nullopt;
  if (!slot.bound || !(slot.call == call) || !nothing_pending(*slot.lane)) {
    give_token();
    return std::nullopt;
  }
  Operation& operation = slot.operation;
  begin(*slot.lane, operation);
  const OperationTag tag{slot.lane->number++, operation.execution.tag().signature};
  publish(*slot.lane, operation.call, tag);
  record_entered(operation, tag);
  if (profiler_ != nullptr) profile_entered(operation, tag, operation.execution.plan(), send, recv);
  operation.execution.restart(tag, send, recv);
  const Status result = run_owned(operation);
  give_token();
  return result;
}

CommunicatorImpl::Remembered& CommunicatorImpl::slot_of(const CallKey& call) {
  return remembered_[call.hash() % std::size(remembered_)];
}

/// Whether a call may run at once, without overtaking others of its lane.
bool CommunicatorImpl::nothing_pending(const Lane& lane) {
  if (has_mail_.load(std::memory_order_acquire)) take_mail();
  return lane.active == nullptr && lane.waiting.empty();
}

void CommunicatorImpl::forget() {
  for (Remembered& each : remembered_) each.bound = false;
}

Status CommunicatorImpl::configure(const std::function<void(PlanCache&)>& change) {
  if (!take_token())
    return fail(ErrorCode::invalid_argument, "programs can be chosen only while no operation is under way");
  const bool idle_now = collectives_.active == nullptr && collectives_.waiting.empty();
  if (idle_now) change(*plans_), forget();
  give_token();
  if (!idle_now)
    return fail(ErrorCode::invalid_argument, "programs can be chosen only while no operation is under way");
  return {};
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
  queued_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    mail_.push_back(operation);
  }
  has_mail_.store(true, std::memory_order_release);
  wake_owner();
  Progress::of_process().attend(shared_from_this());
  return operation;
}

/// Wakes the thread that sleeps with the token, if there is one, so that it takes up what was left in the mailbox.
void CommunicatorImpl::wake_owner() {
  if (!token_.load(std::memory_order_relaxed)) return;
  if (uses_tcp_)
    job_->tcp()->wake();
  else
    host_->own().ring();
}

bool CommunicatorImpl::drive() {
  if (!take_token()) return false;
  const bool moved = service();
  // Nobody may be waiting: this call may be the only one for a while that can notice a rank that is gone.
  if (!moved) look(ticks());
  give_token();
  return moved;
}

bool CommunicatorImpl::idle() { return queued_.load(std::memory_order_acquire) == 0; }

Status CommunicatorImpl::wait(Operation& operation, Deadline deadline) {
  Waiter waiter(wait_policy_, &wait_habit_);
  while (!operation.done.load(std::memory_order_acquire)) {
    if (deadline.passed()) return fail(ErrorCode::timed_out, "the operation is still under way");
    if (take_token()) {
      const bool moved = service();
      const bool done = operation.done.load(std::memory_order_relaxed);
      if (!moved && !done) rest(waiter);
      if (moved) wake(waiter);
      give_token();
    } else if (waiter.pause() == Waiter::Next::sleep) {
      ::usleep(100);
    }
  }
  if (operation.error != nullptr) return tl::unexpected(*operation.error);
  return {};
}

void CommunicatorImpl::let_go() {
  // A child made by fork holds a copy, whose end is none of the rank's business.
  const Member& self = identity_.members[static_cast<std::size_t>(rank())];
  if (self.segment.pid != ::getpid()) return;
  finish_pending();
  if (!broken_.load(std::memory_order_acquire)) report_unnoticed();
  close_profiler();
}

/// Waits for operations that nobody waits for any more, as long as something moves, and aborts what does not.
void CommunicatorImpl::finish_pending() {
  Waiter waiter(wait_policy_);
  Deadline grace = Deadline::in(kGraceSeconds);
  while (!idle()) {
    if (grace.passed() && !broken_.load(std::memory_order_acquire)) {
      Error error;
      error.code = ErrorCode::aborted;
      error.peer = rank();
      error.message = fmt::format("rank {} destroyed its communicator with {} operations under way", rank(),
                                  queued_.load(std::memory_order_relaxed));
      break_with(std::move(error), true);
    }
    if (!take_token()) {
      if (waiter.pause() == Waiter::Next::sleep) ::usleep(100);
      continue;
    }
    // Bytes of other communicators, and probes of peers that wait, are no reason to wait longer.
    const std::uint64_t before = advances_;
    const bool moved = service();
    if (!moved && !idle()) rest(waiter);
    if (moved) wake(waiter);
    if (advances_ != before) grace = Deadline::in(kGraceSeconds);
    give_token();
  }
}

CommunicatorImpl::Lane& CommunicatorImpl::lane_of(const Call& call) {
  if (call.collective != Collective::point_to_point) return collectives_;
  const std::pair key{call.root, call.sends};
  if (const auto found = point_to_point_.find(key); found != point_to_point_.end()) return found->second;
  const std::lock_guard lock(mutex_);  // others look lanes up to answer questions
  Lane& lane = point_to_point_[key];
  lane.calls = std::make_unique<EndCalls>();
  return lane;
}

void CommunicatorImpl::take_mail() {
  std::vector<std::shared_ptr<Operation>> mail;
  {
    const std::lock_guard lock(mutex_);
    mail.swap(mail_);
    has_mail_.store(false, std::memory_order_relaxed);
  }
  for (auto& operation : mail) {
    Lane& lane = lane_of(operation->call);
    lane.waiting.push_back(std::move(operation));
    if (lane.active == nullptr) activate_next(lane);
  }
}

void CommunicatorImpl::activate_next(Lane& lane) {
  while (lane.active == nullptr && !lane.waiting.empty()) activate(lane, *lane.waiting.front());
}

void CommunicatorImpl::begin(Lane& lane, Operation& operation) {
  lane.active = &operation;
  if (&lane != &collectives_) active_ends_.push_back(&lane);
  operation.done.store(false, std::memory_order_relaxed);
  operation.error.reset();
  operation.still_since = 0;
  operation.idle_since = 0;
  operation.warned = false;
  operation.missed = -1;
}

/// Starts an operation; one that cannot start is finished at once with its error.
void CommunicatorImpl::activate(Lane& lane, Operation& operation) {
  begin(lane, operation);
  const Status started = start(lane, operation);
  if (started) return;
  const Error error = explain(operation, started.error());
  if (error.code == ErrorCode::rank_died) break_with(error, true);
  finish(lane, operation, &error);
}

Status CommunicatorImpl::start(Lane& lane, Operation& operation) {
  if (broken_.load(std::memory_order_acquire)) return status();
  Call& call = operation.call;
  // What the programs cannot say is made so that they can: every rank's own factor, and an exchange within one buffer.
  const bool scaled = reduces(call.collective) && call.reduction.op == Operator::premultiplied_sum;
  const bool copied = call.collective == Collective::all_to_all && call.in_place;
  if (scaled || copied) stage_input(operation);
  Result<PreparedCall> prepared = plans_->prepare(call);
  if (!prepared) return tl::unexpected(prepared.error());
  const OperationTag tag{lane.number++, prepared->signature};
  publish(lane, call, tag);
  operation.title = title_of(operation, *prepared->plan.plan);
  record_entered(operation, tag);
  if (profiler_ != nullptr) profile_entered(operation, tag, *prepared->plan.plan, call.send, call.recv);
  return operation.execution.start(prepared->plan, prepared->when_mapped, call, tag, host_.get(), &broken_);
}

void CommunicatorImpl::stage_input(Operation& operation) {
  Call& call = operation.call;
  const std::size_t blocks = call.collective == Collective::reduce_scatter || call.collective == Collective::all_to_all
                                 ? static_cast<std::size_t>(size())
                                 : 1;
  std::size_t elements = call.count * blocks;
  for (std::size_t block = 0; call.uneven && block < call.send_counts.size(); ++block) {
    const std::size_t offset = call.send_offsets.empty() ? elements : call.send_offsets[block];
    elements = std::max(elements, offset + call.send_counts[block]);
  }
  operation.staged.resize(elements * size_of(call.type));
  if (call.collective == Collective::all_to_all)
    copy(operation.staged.data(), call.send, operation.staged.size(), false);
  else
    scale(operation.staged.data(), call.send, elements, call.type, call.reduction.factor);
  call.send = operation.staged.data();
  call.in_place = false;
}

bool CommunicatorImpl::service() {
  // Something may move all the time and yet not what an operation waits for.
  if (++polls_ % kPollsPerLook == 0) look(ticks());
  if (has_mail_.load(std::memory_order_acquire)) take_mail();
  if (broken_.load(std::memory_order_acquire)) {
    fail_all();
    return true;
  }
  if (!host_->shares_process()) return advance_all();
  // A rank of this process that fails waits until we are outside, before its caller may free what we read. So nothing
  // in between may wait for another rank.
  if (!host_->begin_touching()) return false;
  const struct Touching {
    Host& host;
    ~Touching() { host.end_touching(); }  // also if a user's operator throws
  } touching{*host_};
  return advance_all();
}

bool CommunicatorImpl::advance_all() {
  bool moved = uses_tcp_ && job_->tcp()->progress();
  if (collectives_.active != nullptr) moved |= advance(collectives_);
  for (std::size_t i = 0; i < active_ends_.size(); ++i) {
    Lane& lane = *active_ends_[i];
    moved |= advance(lane);
    if (i < active_ends_.size() && active_ends_[i] != &lane) --i;  // it is done, and another has its place
  }
  return moved;
}

bool CommunicatorImpl::advance(Lane& lane) {
  Operation& operation = *lane.active;
  const bool moved = operation.execution.advance();
  if (moved) ++advances_;
  switch (operation.execution.state()) {
    case Execution::State::running:
      if (moved && operation.still_since != 0) {
        operation.still_since = 0;
        record_woken(operation);
      }
      return moved;
    case Execution::State::done:
      finish(lane, operation, nullptr);
      activate_next(lane);
      return true;
    case Execution::State::failed:
      break;
  }
  Error error = explain(operation, operation.execution.error());
  break_with(error, true);
  return true;
}

/// Ends an operation. Its lane is free then; going on with the next is left to the caller, so that any number of
/// operations that fail one after another take no more stack than one.
void CommunicatorImpl::finish(Lane& lane, Operation& operation, const Error* error) {
  lane.active = nullptr;
  record_left(operation, error != nullptr);
  if (profiler_ != nullptr) profiler_->end(operation.profiled);
  if (&lane != &collectives_) std::erase(active_ends_, &lane);
  if (error != nullptr) operation.error = std::make_unique<Error>(*error);
  const bool queued = !lane.waiting.empty() && lane.waiting.front().get() == &operation;
  std::shared_ptr<Operation> kept;
  if (queued) {
    kept = std::move(lane.waiting.front());
    lane.waiting.pop_front();
    queued_.fetch_sub(1, std::memory_order_release);
  }
  operation.done.store(true, std::memory_order_release);
  if (kept != nullptr) kept->communicator.reset();
}

void CommunicatorImpl::fail_all() {
  const Error error = status().error();
  // Links to other hosts refer to users' memory, which is theirs again once their calls have returned.
  leave_peers_alone();
  forget();
  const auto fail_lane = [&](Lane& lane) {
    while (lane.active != nullptr || !lane.waiting.empty()) {
      Operation& operation = lane.active != nullptr ? *lane.active : *lane.waiting.front();
      lane.active = &operation;
      const Error own = with_context(error, &operation);
      finish(lane, operation, &own);
    }
  };
  fail_lane(collectives_);
  for (auto& [peer, lane] : point_to_point_) fail_lane(lane);
}

/// Something moved: whoever was waited for has come.
void CommunicatorImpl::wake(Waiter& waiter) {
  if (waiter.since() != 0) {
    if (collectives_.active != nullptr) record_woken(*collectives_.active);
    for (const Lane* const lane : active_ends_) record_woken(*lane->active);
  }
  waiter.reset();
}

/// Sleeps as the waiter says, and looks around now and then.
void CommunicatorImpl::rest(Waiter& waiter) {
  if (waiter.pause() == Waiter::Next::again) return;
  if (collectives_.active != nullptr) record_waiting(*collectives_.active, waiter.since());
  for (const Lane* const lane : active_ends_) record_waiting(*lane->active, waiter.since());
  if (uses_tcp_)
    job_->tcp()->wait(std::chrono::microseconds(kNapMicroseconds));
  else
    host_->sleep(kNapMicroseconds);
  look(ticks());
}

/// Looks at every operation under way, once in kLookMicroseconds at most. All who drive come here, whether they wait,
/// test or are the progress thread: an operation that nobody waits for times out and notices a lost rank, too.
void CommunicatorImpl::look(std::uint64_t now) {
  static const std::uint64_t apart = ticks_of_microseconds(kLookMicroseconds);
  if (now - last_look_ < apart) return;
  last_look_ = now;
  if (collectives_.active != nullptr) look_at(*collectives_.active, now);
  for (const Lane* const lane : active_ends_) look_at(*lane->active, now);
}

/// Whether a rank of the host gave up so long ago that its reason should have come.
bool CommunicatorImpl::is_news_late(std::uint64_t now) {
  if (host_->stopped() && stopped_since_ == 0) stopped_since_ = now;
  return stopped_since_ != 0 && static_cast<double>(now - stopped_since_) > kNewsMicroseconds * ticks_per_microsecond();
}

void CommunicatorImpl::look_at(Operation& operation, std::uint64_t now) {
  if (broken_.load(std::memory_order_relaxed)) return;
  if (operation.still_since == 0) operation.still_since = now;
  const double still = static_cast<double>(now - operation.still_since) / ticks_per_microsecond();
  if (is_news_late(now)) {
    Error error;
    error.code = ErrorCode::aborted;
    error.message = "a rank of this host gave up, and no word of why has come";
    return break_with(with_context(error, &operation), true);
  }
  if (operation.deadline.passed()) return give_up(operation, find_awaited(operation, still * 1e-6), still * 1e-6);
  if (still < kStillMicroseconds) return;
  if (operation.active != nullptr && operation.active->awaited.get() < 0)
    record_waiting(operation, operation.still_since);
  const Execution::Waiting waiting = find_awaited(operation, still * 1e-6);
  if (operation.idle_since == 0) operation.idle_since = operation.still_since;
  if (options_.timeout > 0 && microseconds_since(operation.idle_since) > options_.timeout * 1e6)
    return give_up(operation, waiting, still * 1e-6);
  if (waiting.rank < 0) return;
  inquire(operation, waiting.rank);
  if (!operation.warned && still * 1e-6 > settings().late_warning) {
    operation.warned = true;
    record_late(operation, waiting.rank, still * 1e-6);
    log::warn("rank {}: {}: waiting for rank {} for {:.0f} s{}{}", rank(), name_operation(operation), waiting.rank,
              still * 1e-6, describe_peer(waiting.rank), describe_lanes(waiting.rank));
  }
}

/// Returns the rank the operation waits for, after so many seconds without anything moving.
Execution::Waiting CommunicatorImpl::find_awaited(const Operation& operation, double seconds) {
  const Execution::Waiting waiting = operation.execution.waiting_for();
  if (operation.call.collective == Collective::point_to_point || seconds < kAskAllSeconds) return waiting;
  // The rank we wait for may itself wait: name one that has not come.
  ask_all();
  const int late = find_latecomer(operation.execution.tag().number);
  return late >= 0 && late != waiting.rank ? Execution::Waiting{late, -1, -1} : waiting;
}

/// Breaks the communicator: the time of the operation is up.
void CommunicatorImpl::give_up(const Operation& operation, Execution::Waiting waiting, double seconds) {
  Error error;
  error.code = ErrorCode::timed_out;
  error.peer = waiting.rank;
  error.message = fmt::format("no progress for {:.1f} s", seconds);
  if (waiting.rank >= 0)
    error.message += fmt::format(", waiting for rank {}{}{}", waiting.rank, describe_peer(waiting.rank),
                                 describe_lanes(waiting.rank));
  if (waiting.step >= 0) error.step = fmt::format("worker {} step {}", waiting.worker, waiting.step);
  break_with(with_context(error, &operation), true);
}

}  // namespace tutti
