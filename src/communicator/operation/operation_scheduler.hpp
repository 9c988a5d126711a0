// Which operations of a communicator are under way, and who drives them.
//
// One thread at a time owns the *token*; the owner drives every operation that is under way. A blocking caller that
// gets the token runs its operation at once on its own thread; one that does not leaves it in the mailbox, where the
// owner finds it. Collectives run one after another in call order; sends and receives run beside them, in order per
// peer and direction.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "communicator/operation/operation.hpp"
#include "communicator/operation/peer_query.hpp"

namespace tutti {

/// The collectives, or the operations of one peer and direction, in order.
struct OperationQueue {
  Operation* active = nullptr;
  std::deque<std::shared_ptr<Operation>> waiting;
  std::uint32_t number = 0;                // of the next one
  PointToPointHistory* history = nullptr;  // null: collectives
};

class OperationScheduler {
 public:
  explicit OperationScheduler(PeerQuery& query) : query_(query) {}

  // Any thread.
  bool take_token() { return !token_.exchange(true, std::memory_order_acquire); }
  void give_token() { token_.store(false, std::memory_order_release); }
  bool has_owner() const { return token_.load(std::memory_order_relaxed); }
  /// Leaves an operation in the mailbox.
  void submit(std::shared_ptr<Operation> operation);
  /// Returns how many operations were submitted and are not done.
  int submitted() const { return submitted_.load(std::memory_order_acquire); }

  // The owner of the token only.
  OperationQueue& queue_of(const Call& call);
  /// Returns whether a call of this queue may run at once, without overtaking others. The mailbox must be empty.
  static bool is_idle(const OperationQueue& queue) { return queue.active == nullptr && queue.waiting.empty(); }
  bool has_mail() const { return has_mail_.load(std::memory_order_acquire); }
  /// Appends what was submitted to the queues. Returns queues that have no operation under way now, and one waiting.
  std::vector<OperationQueue*> take_mail();
  /// An operation begins, and is over.
  void begin(OperationQueue& queue, Operation& operation) {
    queue.active = &operation;
    if (&queue != &collectives_) active_point_to_point_.push_back(&queue);
    operation.reset();
  }
  void finish(OperationQueue& queue, Operation& operation, const Error* error);

  Operation* active_collective() const { return collectives_.active; }
  bool has_collectives() const { return !is_idle(collectives_); }
  bool has_active() const { return collectives_.active != nullptr || !active_point_to_point_.empty(); }
  /// Calls `visit(operation)` for each that is under way; it must not begin or finish any.
  template <typename Visit>
  void for_each_active(Visit visit) const {
    if (collectives_.active != nullptr) visit(*collectives_.active);
    for (const OperationQueue* const queue : active_point_to_point_) visit(*queue->active);
  }
  /// Calls `advance(queue)` for each queue with an operation under way, which may finish it and begin the next. Returns
  /// whether any returned true.
  template <typename Advance>
  bool advance_active(Advance advance) {
    bool moved = collectives_.active != nullptr && advance(collectives_);
    for (std::size_t i = 0; i < active_point_to_point_.size(); ++i) {
      OperationQueue& queue = *active_point_to_point_[i];
      moved |= advance(queue);
      if (i < active_point_to_point_.size() && active_point_to_point_[i] != &queue) --i;  // another has its place
    }
    return moved;
  }
  /// Finishes all operations, with the error that `error_of(operation)` returns.
  template <typename ErrorOf>
  void fail_all(ErrorOf error_of) {
    fail_queue(collectives_, error_of);
    for (auto& [peer, queue] : point_to_point_) fail_queue(queue, error_of);
  }

 private:
  template <typename ErrorOf>
  void fail_queue(OperationQueue& queue, ErrorOf& error_of) {
    while (!is_idle(queue)) {
      Operation& operation = queue.active != nullptr ? *queue.active : *queue.waiting.front();
      queue.active = &operation;
      const Error error = error_of(operation);
      finish(queue, operation, &error);
    }
  }

  PeerQuery& query_;
  std::atomic<bool> token_{false};
  std::atomic<bool> has_mail_{false};
  std::atomic<int> submitted_{0};
  OperationQueue collectives_;
  std::map<std::pair<int, bool>, OperationQueue> point_to_point_;  // by peer, and whether it sends
  std::vector<OperationQueue*> active_point_to_point_;
  std::mutex mutex_;  // what follows
  std::vector<std::shared_ptr<Operation>> mail_;
};

}  // namespace tutti
