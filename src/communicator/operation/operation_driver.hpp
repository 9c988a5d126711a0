// Runs the operations of a communicator: starts them, moves them on, waits, and ends them, well or not.
//
// One thread at a time holds the scheduler's token and drives all operations that are under way; everything private
// here is for that thread. A blocking call that gets the token runs on its caller's thread. One that does not is
// submitted, like an asynchronous one, and is moved by whoever drives: a waiting caller, or the progress thread.
//
// Nothing waits with the token but in idle_once(), for a millisecond at most. Once the communicator is broken, all
// operations fail, as soon as no peer touches their memory any more.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "communicator/operation/bound_call_cache.hpp"
#include "communicator/operation/failure_inquiry.hpp"
#include "communicator/operation/failure_state.hpp"
#include "communicator/operation/identity.hpp"
#include "communicator/operation/operation.hpp"
#include "communicator/operation/operation_recorder.hpp"
#include "communicator/operation/operation_scheduler.hpp"
#include "communicator/operation/peer_query.hpp"
#include "communicator/operation/plan_cache.hpp"
#include "communicator/operation/stall_watch.hpp"
#include "engine/waiter.hpp"
#include "transport/shm/host.hpp"
#include "transport/shm/peer_fence.hpp"

namespace tutti {

class Tcp;

class OperationDriver {
 public:
  /// All must outlive it.
  struct Parts : StallWatch::Parts {
    Tcp* tcp;  // null if all ranks are on one host
    PlanCache& plans;
  };
  /// `owner`: holds the driver and its parts. Submitted operations keep it alive until they are done.
  OperationDriver(const Parts& parts, const WaitPolicy& wait_policy, std::weak_ptr<void> owner);
  OperationDriver(const OperationDriver&) = delete;
  OperationDriver& operator=(const OperationDriver&) = delete;

  /// Runs a call to its end on this thread. One that is not done at the deadline breaks the communicator.
  Status run(const Call& call, Deadline deadline = Deadline::never());
  /// Runs a call that ran before on other buffers, which must be non-null and aligned: nothing is chosen or bound
  /// again. Returns none if the call has to run as a new one.
  std::optional<Status> repeat(const CallKey& call, const void* send, void* recv);
  /// Hands a call to whoever drives; never blocks.
  std::shared_ptr<Operation> submit(const Call& call, Deadline deadline = Deadline::never());
  /// Drives if nobody does. Returns true if anything moved.
  bool drive();
  /// Waits until a submitted operation is done, and drives if nobody else does. Fails at the deadline; the operation
  /// goes on.
  Status wait(Operation& operation, Deadline deadline);
  bool idle() const { return scheduler_.submitted() == 0; }

  /// Changes how plans are chosen. Fails if a collective is under way.
  Status configure(const std::function<void(PlanCache&)>& change);
  /// Waits for submitted operations as long as something moves, and then breaks the communicator if any is left.
  void finish_pending();
  /// Detaches the profiler, if no operation is under way that it could be told of.
  void close_profiler();

 private:
  bool is_next(const OperationQueue& queue);
  Status run_owned(Operation& operation);
  bool run_alone(Operation& operation);
  bool service();
  bool advance_all();
  bool progress_tcp();
  void take_mail();
  void activate(OperationQueue& queue, Operation& operation);
  void activate_next(OperationQueue& queue);
  Status start(OperationQueue& queue, Operation& operation);
  void enter(OperationQueue& queue, Operation& operation, OperationTag tag, const Plan& plan, const void* send,
             void* recv);
  bool advance(OperationQueue& queue);
  void finish(OperationQueue& queue, Operation& operation, const Error* error);

  void reset_wait(Waiter& waiter);
  void idle_once(Waiter& waiter);
  void note_waits(std::uint64_t since);
  void look_after_waits();
  void check_stalls(std::uint64_t now);

  bool conclude_failure(OperationQueue& queue);
  bool conclude_failures();
  bool fail_all();

  const Parts parts_;
  const std::weak_ptr<void> owner_;
  OperationScheduler scheduler_;
  BoundCallCache bound_calls_;
  const WaitPolicy wait_policy_;
  const int polls_alone_;  // of a call that is alone, before it waits as others do
  WaitHabit wait_habit_;
  unsigned polls_ = 0;
  std::uint64_t looked_at_ = 0;  // ticks: look_after_waits()
  std::uint64_t advances_ = 0;   // how often an operation moved
  StallWatch stalls_;
  FailureInquiry inquiry_;
  PeerFence fence_;
};

}  // namespace tutti
