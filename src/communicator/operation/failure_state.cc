#include "communicator/operation/failure_state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "communicator/job/job.hpp"
#include "communicator/job/message.hpp"
#include "communicator/operation/operation_recorder.hpp"
#include "transport/shm/host.hpp"

namespace tutti {

void FailureState::break_with(Error error, Notify notify) {
  if (error.rank < 0) error.rank = identity_.rank;
  if (!keep(error)) return;
  recorder_.broken(error);  // before anybody can see that it is
  broken_.store(true, std::memory_order_seq_cst);
  host_.own().ring();
  if (notify == Notify::nobody) return;
  log::error("{}", error.to_string());
  Message message;
  message.kind = Message::Kind::broken;
  message.from = identity_.rank;
  message.code = error.code;
  message.peer = error.peer;
  message.text = error.message;
  if (error.code == ErrorCode::timed_out || error.code == ErrorCode::system)
    message.text = fmt::format("rank {} gave up: {}", identity_.rank, error.message);
  // To all ranks, and to nobody else: processes without a rank here would keep it for a communicator they never get.
  job_.broadcast(identity_.id, identity_.processes(), message);
}

/// Keeps the error, unless there is one. Nobody sees it before the communicator is marked as broken.
bool FailureState::keep(const Error& error) {
  const std::lock_guard lock(mutex_);
  if (error_ != nullptr) return false;
  error_ = std::make_unique<Error>(error);
  return true;
}

Status FailureState::status() const {
  if (!is_broken()) return {};
  const std::lock_guard lock(mutex_);
  return tl::unexpected(*error_);
}

bool FailureState::add_departure(int rank, Certainty certainty) {
  const std::lock_guard lock(mutex_);
  std::optional<Certainty>& known = departed_[static_cast<std::size_t>(rank)];
  const bool news = !known;
  known = std::max(known.value_or(Certainty::presumed), certainty);
  return news;
}

void FailureState::add_left(int rank) {
  const std::lock_guard lock(mutex_);
  left_[static_cast<std::size_t>(rank)] = true;
}

bool FailureState::is_gone(int rank) const {
  const std::lock_guard lock(mutex_);
  return departed_[static_cast<std::size_t>(rank)] || left_[static_cast<std::size_t>(rank)];
}

std::vector<Loss> FailureState::losses() const {
  const std::lock_guard lock(mutex_);
  std::vector<Loss> losses;
  for (std::size_t peer = 0; peer < departed_.size(); ++peer)
    if (departed_[peer]) losses.push_back({static_cast<int>(peer), *departed_[peer]});
  return losses;
}

}  // namespace tutti
