// Whether a communicator is broken, why, and which of its ranks are gone. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "control/agreement/agreement.hpp"
#include "tutti/error.hpp"

namespace tutti {

class FailureState {
 public:
  explicit FailureState(std::size_t ranks) : departed_(ranks), left_(ranks) {}

  /// Keeps the error that breaks the communicator. False: it has one. Nobody sees it before publish().
  bool keep(const Error& error);
  void publish() { broken_.store(true, std::memory_order_seq_cst); }
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }
  const std::atomic<bool>& flag() const { return broken_; }
  /// Returns the error that broke the communicator, if it is broken.
  Status status() const;

  /// The rank's process has left or died. Returns true if that is news, and not only more certain than before.
  bool add_departure(int rank, Certainty certainty);
  /// The rank, of another host, has destroyed its communicator.
  void add_left(int rank);
  bool is_gone(int rank) const;
  /// Returns the ranks whose processes have died, are presumed to have, or have left.
  std::vector<Loss> losses() const;

 private:
  std::atomic<bool> broken_{false};
  mutable std::mutex mutex_;  // what follows
  std::unique_ptr<Error> error_;
  std::vector<std::optional<Certainty>> departed_;  // by rank
  std::vector<bool> left_;
};

}  // namespace tutti
