// An agreement of the ranks of a communicator on who is left, for shrink(): fed by the thread that runs it and by
// whoever delivers messages.
//
// Ranks number their calls of shrink(). They need not count alike, since a call may have failed on some ranks only: one
// that hears a higher number goes on with that.
// A rank whose leader died between two commits asks the others what was decided. They may have returned and dropped the
// communicator by then, so a decided agreement belongs to the job, which keeps it for a while (Job::keep).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "communicator/job/message.hpp"
#include "control/agreement/agreement.hpp"

namespace tutti {

class CommunicatorImpl;
class Job;

class ShrinkAgreement : public std::enable_shared_from_this<ShrinkAgreement> {
 public:
  ShrinkAgreement(const CommunicatorImpl& impl, ShrinkOptions options);

  /// Returns when the ranks have decided, or this one has given up. `blob` is for the other survivors.
  Result<Survivors> run(CommunicatorImpl& impl, Blob blob);
  /// Takes in, and answers, a message for this rank. False if it is for a later call of shrink(). Any thread.
  bool hear(const Message& message);

  std::uint64_t id() const { return id_; }
  int rank() const { return rank_; }
  std::uint32_t number() const;

 private:
  void restart(std::uint32_t number);
  void take_losses(const CommunicatorImpl& impl);
  std::vector<int> neighbours() const;
  void tell_number(std::unique_lock<std::mutex>& lock, std::span<const int> ranks);
  void flush(std::unique_lock<std::mutex>& lock);

  const std::weak_ptr<Job> job_;
  const std::uint64_t id_;
  const int rank_;
  const ShrinkOptions options_;
  std::vector<int> processes_;  // of each rank, as the job counts them

  mutable std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  std::uint32_t number_ = 0;  // among the agreements of the communicator
  Blob blob_;
  Agreement agreement_;
  std::vector<Loss> losses_;      // that the agreement was told
  std::optional<Error> failure_;  // a message could not be sent
};

}  // namespace tutti
