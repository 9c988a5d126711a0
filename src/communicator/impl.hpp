// What a Communicator handle points to: who its ranks are, and the parts that run and watch its operations.
//
// CommunicatorImpl puts the parts together, takes the news that its job delivers, and lets go of all in order. The
// driver runs the operations, the plan cache chooses how, the peer query knows what other ranks run, and the failure
// state whether all is over. create() and the destructor aside, any thread may call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "communicator/job/agreement_mailbox.hpp"
#include "communicator/job/job.hpp"
#include "communicator/job/message.hpp"
#include "communicator/operation/failure_state.hpp"
#include "communicator/operation/identity.hpp"
#include "communicator/operation/link_table.hpp"
#include "communicator/operation/operation_driver.hpp"
#include "communicator/operation/operation_recorder.hpp"
#include "communicator/operation/peer_query.hpp"
#include "communicator/operation/plan_cache.hpp"
#include "transport/shm/host.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

class CommunicatorImpl {
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

  /// Runs the operations.
  OperationDriver& driver() { return *driver_; }
  /// Knows whether the communicator is broken; breaks it.
  FailureState& failure() { return failure_; }
  const FailureState& failure() const { return failure_; }

  /// Returns whether this rank can read the memory of all others of its host.
  bool can_pull() { return host_->can_attach_memory(); }
  /// Chooses programs by the rules from now on, since all ranks have agreed on them. `pull`: every rank can read the
  /// memory of the others of its host.
  void settle(bool pull);

  /// Takes a message of another rank, or of this one's agreement. Any thread.
  void hear(const Message& message);
  /// Breaks the communicator if a rank of it was in the process. To be called again once a presumed death is known.
  void process_died(int process, const Death& death);
  /// Notes that the ranks of a process are gone; only ranks that still wait for them fail.
  void process_left(int process);

  /// Ends what is under way, so that nothing touches the user's memory any more, and reports calls that differed from
  /// other ranks' and were not noticed. To be called when the last handle of a user is gone. Internal threads may hold
  /// references for a while, even beyond the end of main().
  void close();

  /// Numbers the communicators made from this one, in call order.
  std::uint64_t next_child() { return ++children_; }

 private:
  CommunicatorImpl(std::shared_ptr<Job> job, Identity identity, std::unique_ptr<Host> host, const Options& options);

  std::shared_ptr<Job> job_;
  Identity identity_;
  Options options_;
  HostLayout layout_;
  std::unique_ptr<Host> host_;
  OperationRecorder recorder_;
  FailureState failure_;
  PeerQuery query_;
  AgreementMailbox agreements_;
  std::unique_ptr<LinkTable> links_;
  std::unique_ptr<PlanCache> plans_;
  std::optional<OperationDriver> driver_;  // from create() on; here, so that a call need not follow another pointer
  std::atomic<std::uint64_t> children_{0};
};

}  // namespace tutti
