// What a Communicator handle points to: the ranks, their links, the plans, and the operations under way.
//
// CommunicatorImpl puts its parts together: the scheduler says which operations run and who drives them, the plan cache
// how, the stall watch and the peer query why one does not move, the failure state whether all is over.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "communicator/job/agreement_mailbox.hpp"
#include "communicator/job/job.hpp"
#include "communicator/job/message.hpp"
#include "communicator/operation/bound_call_cache.hpp"
#include "communicator/operation/failure_state.hpp"
#include "communicator/operation/identity.hpp"
#include "communicator/operation/link_table.hpp"
#include "communicator/operation/operation.hpp"
#include "communicator/operation/operation_recorder.hpp"
#include "communicator/operation/operation_scheduler.hpp"
#include "communicator/operation/peer_query.hpp"
#include "communicator/operation/plan_cache.hpp"
#include "communicator/operation/stall_watch.hpp"
#include "engine/waiter.hpp"
#include "transport/shm/host.hpp"
#include "transport/shm/peer_fence.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

class CommunicatorImpl : public std::enable_shared_from_this<CommunicatorImpl> {
 public:
  static Result<std::shared_ptr<CommunicatorImpl>> create(std::shared_ptr<Job> job, Identity identity, Segment segment,
                                                          const Options& options);
  ~CommunicatorImpl();

  int rank() const { return identity_.rank; }
  int size() const { return static_cast<int>(identity_.members.size()); }
  const Identity& identity() const { return identity_; }
  const HostLayout& layout() const { return layout_; }
  const Options& options() const { return options_; }
  const std::shared_ptr<Job>& job() const { return job_; }
  /// The rules and programs by which plans are chosen must be the same on all ranks.
  const PlanCache& plans() const { return *plans_; }
  AgreementMailbox& agreements() { return agreements_; }

  /// Returns whether this rank can read the memory of all others of its host.
  bool can_pull() { return host_->can_attach_memory(); }
  /// The ranks have agreed: from now on programs are chosen by the rules.
  void settle(bool pull);
  /// Changes how plans are chosen, between operations.
  Status configure(const std::function<void(PlanCache&)>& change);

  /// Runs a call to its end on this thread. One that is not done at the deadline breaks the communicator.
  Status run(const Call& call, Deadline deadline = Deadline::never());
  /// Runs a call that ran before on other buffers, which must be fit: nothing is chosen or bound again. None: it has to
  /// run as a new one.
  std::optional<Status> repeat(const CallKey& call, const void* send, void* recv);
  /// Hands a call to whoever drives; never blocks.
  std::shared_ptr<Operation> submit(const Call& call, Deadline deadline = Deadline::never());
  /// Drives if nobody does. Returns true if anything moved.
  bool drive();
  Status wait(Operation& operation, Deadline deadline);
  bool idle() const { return scheduler_.submitted() == 0; }

  /// Returns the error that broke it, if any.
  Status status() const { return failure_.status(); }
  /// Ends everything with this error; `tell`: peers too. The first error stays.
  void break_with(Error error, bool tell);
  void hear(const Message& message);
  /// To be called again once a presumed death is known.
  void process_died(int process, const Death& death);
  void process_left(int process);
  /// Returns the ranks whose processes have died, are presumed to have, or have left.
  std::vector<Loss> losses() const { return failure_.losses(); }

  /// To be called when the last handle of a user is gone: ends what is under way, so that nothing touches the user's
  /// memory any more, and reports calls that differed from other ranks' and were not noticed. Internal threads may hold
  /// references for a while, even beyond the end of main().
  void let_go();

  /// Numbers the communicators made from this one, in call order.
  std::uint64_t next_child() { return ++children_; }

 private:
  CommunicatorImpl(std::shared_ptr<Job> job, Identity identity, std::unique_ptr<Host> host, const Options& options);

  // drive.cc; the token is held
  bool is_next(const OperationQueue& queue);
  Status run_owned(Operation& operation);
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
  void wake(Waiter& waiter);
  void rest(Waiter& waiter);
  void look(std::uint64_t now);
  void finish_pending();

  // failing.cc; the token is held
  void begin_failure(Operation& operation, Error error, bool breaks);
  bool is_explained(const Operation& operation);
  bool conclude_failure(OperationQueue& queue);
  bool conclude_failures();
  Error with_context(Error error, const Operation& operation) const;
  bool fail_all();

  std::shared_ptr<Job> job_;
  Identity identity_;
  Options options_;
  HostLayout layout_;
  std::unique_ptr<Host> host_;
  FailureState failure_;
  PeerQuery query_;
  OperationRecorder recorder_;
  StallWatch stalls_;
  PeerFence fence_;
  OperationScheduler scheduler_;
  AgreementMailbox agreements_;
  std::unique_ptr<LinkTable> links_;
  std::unique_ptr<PlanCache> plans_;
  BoundCallCache bound_calls_;
  WaitPolicy wait_policy_;
  WaitHabit wait_habit_;
  std::atomic<std::uint64_t> children_{0};
  unsigned polls_ = 0;
  std::uint64_t advances_ = 0;  // how often an operation moved
};

}  // namespace tutti
