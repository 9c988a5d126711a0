// What a Communicator handle points to: the ranks, their links, the plans, and the operations under way.
//
// One thread at a time owns the communicator's *token*; the owner drives every operation that is under way. A blocking
// caller that gets the token runs its operation at once on its own thread; one that does not leaves it in the mailbox,
// where the owner takes it up. Collectives run one after another in call order; sends and receives run beside them,
// in order per peer and direction.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "communicator/identity.hpp"
#include "communicator/job.hpp"
#include "communicator/link_table.hpp"
#include "communicator/message.hpp"
#include "communicator/operation.hpp"
#include "communicator/plan_cache.hpp"
#include "control/agreement.hpp"
#include "engine/waiter.hpp"
#include "monitor/operation_log.hpp"
#include "profiler/profiler.hpp"
#include "selection/plan_folder.hpp"
#include "transport/shm/host.hpp"
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

  /// Whether this rank can read the memory of all others of its host.
  bool can_pull() { return host_->can_attach_memory(); }
  /// All have agreed: from now on programs are selected by the rules.
  void settle(bool pull);
  /// The rules of selection, which must be the same on all ranks.
  const std::vector<Rule>& rules() const { return rules_; }
  /// The same of programs from a folder.
  const PlanFolder& planned() const { return planned_; }

  /// Changes how plans are chosen, between operations.
  Status configure(const std::function<void(PlanCache&)>& change);

  /// Runs a call to its end on this thread. One that is not done at the deadline breaks the communicator.
  Status run(const Call& call, Deadline deadline = Deadline::never());
  /// The same where it was made before, but for its buffers, which must be fit: nothing is chosen or bound again.
  std::optional<Status> repeat(const CallKey& call, const void* send, void* recv);
  /// Hands a call to whoever drives; never blocks.
  std::shared_ptr<Operation> submit(const Call& call, Deadline deadline = Deadline::never());
  /// Drives if nobody does. True if anything moved.
  bool drive();
  Status wait(Operation& operation, Deadline deadline);
  bool idle();

  /// The error that broke it, if any.
  Status status() const;
  /// Ends everything with this error; `tell`: peers too. The first error stays.
  void break_with(Error error, bool tell);
  void hear(const Message& message);
  /// Told again once a presumed death is known.
  void process_died(int process, const Death& death);
  void process_left(int process);
  /// Ranks whose processes have died, are presumed to have, or have left.
  std::vector<Loss> losses() const;

  /// For shrink: returns the number of the agreement that begins. It may end under a higher one, that of another rank.
  std::uint32_t begin_agreement();
  void end_agreement(std::uint32_t number);
  /// Hands over messages of the agreement that has begun, those that came before included.
  using AgreementHandler = std::function<bool(const Message&)>;  // false: the message is for a later one
  void on_agreement(const AgreementHandler& handler);

  /// Its user has no more need of it: ends what is under way, so that nothing touches the user's memory any more, and
  /// reports calls that differed from other ranks' and were not noticed. Threads of ours may still look at it for a
  /// while, even beyond the end of main().
  void let_go();

  /// Numbers the communicators made from this one, in call order.
  std::uint64_t next_child() { return ++children_; }

 private:
  CommunicatorImpl(std::shared_ptr<Job> job, Identity identity, std::unique_ptr<Host> host, const Options& options);

  /// The last sends or receives of a lane, for peers whose own differ. The owner of the token writes: `number` zero,
  /// `what`, `number` (both release). Any thread reads `number`, `what` (both acquire) and `number` again.
  struct EndCall {
    std::atomic<std::uint32_t> number{0};  // plus one
    std::atomic<std::uint64_t> what{0};    // count (56), type (8)
  };
  using EndCalls = std::array<EndCall, 64>;  // as many as a pipe takes before the receiver looks

  struct Lane {  // operations of one peer and direction, in order
    Operation* active = nullptr;
    std::deque<std::shared_ptr<Operation>> waiting;
    std::uint32_t number = 0;
    std::unique_ptr<EndCalls> calls;  // null: collectives
  };

  struct Remembered {
    CallKey call;
    bool bound = false;
    Lane* lane = nullptr;
    Operation operation;
  };

  bool take_token() { return !token_.exchange(true, std::memory_order_acquire); }
  void give_token() { token_.store(false, std::memory_order_release); }

  // drive.cc; the token is held
  Status run_owned(Operation& operation);
  Remembered& slot_of(const CallKey& call);
  bool nothing_pending(const Lane& lane);
  void forget();
  bool service();
  bool advance_all();
  void take_mail();
  Lane& lane_of(const Call& call);
  void begin(Lane& lane, Operation& operation);
  void activate(Lane& lane, Operation& operation);
  void activate_next(Lane& lane);
  bool advance(Lane& lane);
  void finish(Lane& lane, Operation& operation, const Error* error);
  void fail_all();
  void wake_owner();
  void wake(Waiter& waiter);
  void rest(Waiter& waiter);
  void look(std::uint64_t now);
  bool is_news_late(std::uint64_t now);
  void look_at(Operation& operation, std::uint64_t now);
  Execution::Waiting find_awaited(const Operation& operation, double seconds);
  void give_up(const Operation& operation, Execution::Waiting waiting, double seconds);
  Status start(Lane& lane, Operation& operation);
  void stage_input(Operation& operation);
  void finish_pending();
  void leave_peers_alone();

  // recording.cc
  void open_record();
  void close_record();
  void record_broken(const Error& error);
  void record_late(const Operation& operation, int peer, double seconds);
  void record_entered(Operation& operation, OperationTag tag);
  void record_left(Operation& operation, bool failed);
  static void record_waiting(const Operation& operation, std::uint64_t since);
  static void record_woken(const Operation& operation);
  monitor::Title title_of(const Operation& operation, const Plan& plan) const;

  // profiling.cc
  void open_profiler();
  void close_profiler();
  void profile_entered(Operation& operation, OperationTag tag, const Plan& plan, const void* send, void* recv);

  void hear_agreement(const Message& message);
  void keep_for_agreement(const Message& message);  // with the mutex held

  // status.cc
  void publish(Lane& lane, const Call& call, OperationTag tag);
  void publish_entered(const Call& call, OperationTag tag);
  static void publish_end(EndCalls& calls, const Call& call, OperationTag tag);
  std::string recall_end(int peer, bool sends, std::uint32_t number) const;
  std::string ask_end(int peer, bool sends, std::uint32_t number);
  std::string describe_end_mismatch(const Operation& operation, int peer);
  void tell_all(const Message& message);
  std::string describe_peer(int rank);
  std::string describe_lanes(int peer) const;
  void inquire(Operation& operation, int rank);
  void ask(int peer);
  void ask_all();
  int find_latecomer(std::uint32_t number);
  Error explain(const Operation& operation, Error error);
  std::string describe_mismatch(const Operation& operation, int peer);
  std::string describe_difference(int peer) const;
  void report_unnoticed() const;
  Error blame(Error error) const;
  Error with_context(Error error, const Operation* operation) const;
  std::string name_operation(const Operation& operation) const;

  std::shared_ptr<Job> job_;
  Identity identity_;
  Options options_;
  HostLayout layout_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<LinkTable> links_;
  std::unique_ptr<PlanCache> plans_;
  std::vector<Rule> rules_;
  PlanFolder planned_;
  monitor::OperationLog log_;
  std::uint32_t untraced_ = ~std::uint32_t{0};     // bits of an operation's number; where none is set, it is traced
  std::uint64_t traced_from_ = ~std::uint64_t{0};  // bytes
  std::unique_ptr<profiler::ProfiledCommunicator> profiler_;  // null: no plugin wants to know
  WaitPolicy wait_policy_;
  WaitHabit wait_habit_;
  bool uses_tcp_ = false;

  std::atomic<bool> token_{false};
  std::atomic<bool> broken_{false};
  std::atomic<bool> has_mail_{false};
  std::atomic<int> queued_{0};  // operations submitted and not done
  std::atomic<std::uint64_t> children_{0};

  Lane collectives_;
  std::map<std::pair<int, bool>, Lane> point_to_point_;  // peer, whether it sends; the owner inserts under mutex_
  std::vector<Lane*> active_ends_;                       // of point_to_point_
  Remembered remembered_[16];                            // blocking calls as they were bound; slot_of() finds them
  unsigned polls_ = 0;
  std::uint64_t advances_ = 0;  // how often an operation moved
  std::uint64_t last_look_ = 0;
  std::uint64_t last_question_ = 0;
  std::uint64_t stopped_since_ = 0;  // ticks: when it was first seen that a rank of the host gave up; 0: not yet

  mutable std::mutex mutex_;  // what follows
  std::vector<std::shared_ptr<Operation>> mail_;
  std::unique_ptr<Error> broken_error_;
  std::vector<std::optional<Certainty>> departed_;  // per rank: its process has left or died
  std::vector<bool> left_;                          // per rank of another host: its communicator was destroyed
  std::map<int, Message> answers_;
  std::map<int, Message> end_answers_;
  AgreementHandler agreement_handler_;
  std::uint64_t agreement_handlers_ = 0;  // how often it was set
  std::uint32_t agreements_ = 0;          // that have begun
  std::vector<Message> early_agreement_;
};

}  // namespace tutti
