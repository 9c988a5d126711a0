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
constexpr double kLookMicroseconds = 100e3;  // how often a waiting rank looks what its peers do

}  // namespace

void Operation::own_counts() {
  std::span<const std::size_t>* const spans[4] = {&call.send_counts, &call.send_offsets, &call.recv_counts,
                                                  &call.recv_offsets};
  for (int i = 0; i < 4; ++i) {
    counts[i].assign(spans[i]->begin(), spans[i]->end());
    *spans[i] = counts[i];
  }
}

Status CommunicatorImpl::run(const Call& call) {
  if (broken_.load(std::memory_order_acquire)) return status();
  if (!take_token()) return wait(*submit(call), Deadline::never());
  Lane& lane = lane_of(call);
  if (!nothing_pending(lane)) {
    give_token();
    return wait(*submit(call), Deadline::never());
  }
  const Repeatable key = Repeatable::of(call);
  Remembered& slot = slot_of(key);
  slot.bound = false;
  slot.operation.call = call;
  activate(lane, slot.operation);
  const Status result = run_owned(slot.operation);
  slot.call = key;
  slot.lane = &lane;
  // What the arguments alone do not tell, or what works on a copy of them, is bound anew each time.
  slot.bound = result.has_value() && !call.uneven && slot.operation.call.send == call.send &&
               call.reduction.op != Operator::user;
  give_token();
  return result;
}

std::optional<Status> CommunicatorImpl::repeat(const Repeatable& call, const void* send, void* recv) {
  Remembered& slot = slot_of(call);
  if (broken_.load(std::memory_order_acquire) || !take_token()) return std::nullopt;
  if (!slot.bound || !(slot.call == call) || !nothing_pending(*slot.lane)) {
    give_token();
    return std::nullopt;
  }
  Operation& operation = slot.operation;
  begin(*slot.lane, operation);
  const OperationTag tag{slot.lane->number++, operation.execution.tag().signature};
  if (slot.lane == &collectives_) publish_entered(operation.call, tag);
  record_entered(operation, tag);
  if (profiler_ != nullptr) profile_entered(operation, tag, operation.execution.plan(), send, recv);
  operation.execution.restart(tag, send, recv);
  const Status result = run_owned(operation);
  give_token();
  return result;
}

CommunicatorImpl::Remembered& CommunicatorImpl::slot_of(const Repeatable& call) {
  const std::uint64_t mixed = (call.what ^ call.count * 0x9e3779b97f4a7c15) * 0x9e3779b97f4a7c15 >> 60;
  return remembered_[mixed];
}

/// Whether a call may run at once, without overtaking others of its lane.
bool CommunicatorImpl::nothing_pending(const Lane& lane) {
  if (has_mail_.load(std::memory_order_acquire)) take_mail();
  return lane.active == nullptr && lane.waiting.empty();
}

void CommunicatorImpl::forget() {
  for (Remembered& each : remembered_) each.bound = false;
}

Status CommunicatorImpl::configure(const std::function<void(Plans&)>& change) {
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
  Waiter waiter(wait_policy_);
  while (true) {
    const bool moved = service();
    if (operation.done.load(std::memory_order_relaxed)) break;
    if (moved)
      wake(waiter);
    else
      rest(waiter);
  }
  if (operation.error != nullptr) return tl::unexpected(*operation.error);
  return {};
}

std::shared_ptr<Operation> CommunicatorImpl::submit(const Call& call) {
  auto operation = std::make_shared<Operation>();
  operation->call = call;
  operation->own_counts();
  operation->communicator = shared_from_this();
  operation->home = operation->communicator;
  queued_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    mail_.push_back(operation);
  }
  has_mail_.store(true, std::memory_order_release);
  Progress::of_process().attend(shared_from_this());
  return operation;
}

bool CommunicatorImpl::drive() {
  if (!take_token()) return false;
  const bool moved = service();
  give_token();
  return moved;
}

bool CommunicatorImpl::idle() { return queued_.load(std::memory_order_acquire) == 0; }

Status CommunicatorImpl::wait(Operation& operation, Deadline deadline) {
  Waiter waiter(wait_policy_);
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

CommunicatorImpl::Lane& CommunicatorImpl::lane_of(const Call& call) {
  if (call.collective != Collective::point_to_point) return collectives_;
  return point_to_point_[{call.root, call.sends}];
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
  operation.idle_since = 0;
  warned_ = false;
  missed_ = -1;
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
  Result<Prepared> prepared = plans_->prepare(call);
  if (!prepared) return tl::unexpected(prepared.error());
  const OperationTag tag{lane.number++, prepared->signature};
  if (&lane == &collectives_) publish_entered(call, tag);
  operation.title = title_of(operation, *prepared->way.plan);
  record_entered(operation, tag);
  if (profiler_ != nullptr) profile_entered(operation, tag, *prepared->way.plan, call.send, call.recv);
  return operation.execution.start(prepared->way, prepared->when_mapped, call, tag, host_.get(), &broken_);
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
  switch (operation.execution.state()) {
    case Execution::State::running:
      return moved;
    case Execution::State::done:
      finish(lane, operation, nullptr);
      return true;
    case Execution::State::failed:
      break;
  }
  Error error = explain(operation, operation.execution.error());
  break_with(error, true);
  return true;
}

/// The operation's lane goes on with the next.
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
  activate_next(lane);
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
  if (collectives_.active != nullptr) record_waiting(*collectives_.active, waiter);
  for (const Lane* const lane : active_ends_) record_waiting(*lane->active, waiter);
  if (uses_tcp_)
    job_->tcp()->wait(std::chrono::microseconds(kNapMicroseconds));
  else
    host_->sleep(kNapMicroseconds);
  if (last_look_ != 0 && microseconds_since(last_look_) < kLookMicroseconds) return;
  last_look_ = ticks();
  if (collectives_.active != nullptr) look_around(*collectives_.active, waiter);
  for (const Lane* const lane : active_ends_) look_around(*lane->active, waiter);
}

void CommunicatorImpl::look_around(Operation& operation, const Waiter& waiter) {
  if (broken_.load(std::memory_order_relaxed) || waiter.idle_microseconds() < kLookMicroseconds) return;
  Execution::Waiting waiting = operation.execution.waiting_for();
  const double seconds = waiter.idle_microseconds() * 1e-6;
  const bool collective = operation.call.collective != Collective::point_to_point;
  if (collective && seconds > kAskAllSeconds) {
    // The rank we wait for may itself wait: name one that has not come.
    ask_all();
    const int late = find_latecomer(operation.execution.tag().number);
    if (late >= 0 && late != waiting.rank) waiting = {late, -1, -1};
  }
  if (operation.idle_since == 0) operation.idle_since = waiter.since();
  if (options_.timeout > 0 && microseconds_since(operation.idle_since) > options_.timeout * 1e6) {
    Error error;
    error.code = ErrorCode::timed_out;
    error.peer = waiting.rank;
    error.message = fmt::format("no progress for {:.1f} s, waiting for rank {}{}{}", seconds, waiting.rank,
                                describe_peer(waiting.rank), describe_lanes(waiting.rank));
    if (waiting.step >= 0) error.step = fmt::format("worker {} step {}", waiting.worker, waiting.step);
    break_with(with_context(error, &operation), true);
    return;
  }
  if (waiting.rank < 0) return;
  inquire(operation, waiting.rank);
  if (!warned_ && seconds > settings().late_warning) {
    warned_ = true;
    record_late(operation, waiting.rank, seconds);
    log::warn("rank {}: {}: waiting for rank {} for {:.0f} s{}{}", rank(), name_operation(operation), waiting.rank,
              seconds, describe_peer(waiting.rank), describe_lanes(waiting.rank));
  }
}

}  // namespace tutti
