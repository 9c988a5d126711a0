// Whether a communicator is broken, why, and which of its ranks are gone.
//
// The first error that breaks a communicator stays. It is recorded before any thread can see it; then it stops all
// executions (flag()), wakes the thread that drives, and is sent to the other ranks if it is news to them. Any thread
// may call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "communicator/operation/identity.hpp"
#include "control/agreement/loss_set.hpp"
#include "tutti/error.hpp"

namespace tutti {

class Host;
class Job;
class OperationRecorder;

/// Who is to hear of an error from this rank. Peers that sent it, or that learn of it from control, need not.
enum class Notify : std::uint8_t { nobody, peers };

class FailureState {
 public:
  /// All must outlive it.
  FailureState(Job& job, const Identity& identity, const Host& host, OperationRecorder& recorder)
      : job_(job),
        identity_(identity),
        host_(host),
        recorder_(recorder),
        departed_(identity.members.size()),
        left_(identity.members.size()) {}

  /// Breaks the communicator, unless it is broken. Whoever drives ends all operations with this error.
  void break_with(Error error, Notify notify);
  bool is_broken() const { return broken_.load(std::memory_order_acquire); }
  const std::atomic<bool>& flag() const { return broken_; }
  /// Returns the error that broke the communicator, if it is broken.
  Status status() const;

  /// Notes that the rank's process has left or died. Returns true if that is news, and not only more certain than
  /// before.
  bool add_departure(int rank, Certainty certainty);
  /// Notes that the rank, of another host, has destroyed its communicator.
  void add_left(int rank);
  bool is_gone(int rank) const;
  /// Returns the ranks whose processes have died, are presumed to have, or have left.
  std::vector<Loss> losses() const;

 private:
  bool keep(const Error& error);

  Job& job_;
  const Identity& identity_;
  const Host& host_;
  OperationRecorder& recorder_;
  std::atomic<bool> broken_{false};
  mutable std::mutex mutex_;  // what follows
  std::unique_ptr<Error> error_;
  std::vector<std::optional<Certainty>> departed_;  // by rank
  std::vector<bool> left_;
};

}  // namespace tutti
