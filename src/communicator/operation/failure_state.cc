#include "communicator/operation/failure_state.hpp"

#include <algorithm>

namespace tutti {

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
