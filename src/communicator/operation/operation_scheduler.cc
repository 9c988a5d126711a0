#include "communicator/operation/operation_scheduler.hpp"

#include <algorithm>

namespace tutti {

void OperationScheduler::submit(std::shared_ptr<Operation> operation) {
  submitted_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    mail_.push_back(std::move(operation));
  }
  has_mail_.store(true, std::memory_order_release);
}

OperationQueue& OperationScheduler::queue_of(const Call& call) {
  if (call.collective != Collective::point_to_point) return collectives_;
  OperationQueue& queue = point_to_point_[{call.root, call.sends}];
  if (queue.history == nullptr) queue.history = &query_.history_of(call.root, call.sends);
  return queue;
}

std::vector<OperationQueue*> OperationScheduler::take_mail() {
  std::vector<std::shared_ptr<Operation>> mail;
  {
    const std::lock_guard lock(mutex_);
    mail.swap(mail_);
    has_mail_.store(false, std::memory_order_relaxed);
  }
  std::vector<OperationQueue*> ready;
  for (auto& operation : mail) {
    OperationQueue& queue = queue_of(operation->call);
    if (is_idle(queue)) ready.push_back(&queue);
    queue.waiting.push_back(std::move(operation));
  }
  return ready;
}

/// Going on with the next is left to the caller, so that any number of operations that fail one after another take no
/// more stack than one.
void OperationScheduler::finish(OperationQueue& queue, Operation& operation, const Error* error) {
  queue.active = nullptr;
  if (&queue != &collectives_) std::erase(active_point_to_point_, &queue);
  if (error != nullptr) operation.error = std::make_unique<Error>(*error);
  std::shared_ptr<Operation> kept;
  if (!queue.waiting.empty() && queue.waiting.front().get() == &operation) {
    kept = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    submitted_.fetch_sub(1, std::memory_order_release);
  }
  operation.done.store(true, std::memory_order_release);
  if (kept != nullptr) kept->keep_alive.reset();
}

}  // namespace tutti
