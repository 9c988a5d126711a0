// How a process becomes a rank of a job, for all who make one: create, grow, join.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "bootstrap/join.hpp"
#include "communicator/impl.hpp"
#include "communicator/operation/rank_slots.hpp"
#include "transport/shm/segment.hpp"

namespace tutti {

struct GatheredRanks;
struct RankDescriptor;

/// A process on its way into a communicator. If all its processes have joined together before, it becomes another one
/// of their job; otherwise they make a new job: each opens what the others need to reach it, and tells them.
class JoiningProcess {
 public:
  explicit JoiningProcess(const JoinInfo& info);
  ~JoiningProcess();
  JoiningProcess(const JoiningProcess&) = delete;
  JoiningProcess& operator=(const JoiningProcess&) = delete;

  /// Lets the communicator be made in a job that this process is in. To be called before describe().
  void offer_jobs();
  /// Returns what this process brings to the meeting point, its encoded RankDescriptor, for a communicator of up to
  /// `size` ranks. All ranks must bring the same `settings`, and the same of those by which they exchange data: enter()
  /// compares them, once all are known, so that every rank fails with the same words.
  Result<Blob> describe(int size, const AgreedSettings& settings = {});
  /// Returns what it brings to a second round, given the descriptors of the first; none if that was enough. See
  /// JoinInfo::again.
  Result<std::optional<Blob>> describe_again(const std::vector<Blob>& descriptors);
  /// Makes the communicator from the descriptors of all ranks, in their order; `rank` is the number of this one.
  Result<std::shared_ptr<CommunicatorImpl>> enter(const std::vector<Blob>& descriptors, int rank, Deadline deadline,
                                                  const Options& options, RankSlots slots);

 private:
  Status open_ports();
  Result<std::shared_ptr<Job>> find_job(const CommonJob& common, int rank) const;
  Result<std::shared_ptr<Job>> start_job(GatheredRanks all, Deadline deadline);

  std::string secret_;
  std::string job_;
  std::function<Status()> interrupted_;
  std::vector<std::shared_ptr<Job>> offered_;  // kept until all have entered
  std::unique_ptr<RankDescriptor> own_;
  std::unique_ptr<Control> control_;
  std::shared_ptr<Tcp> tcp_;
  std::optional<Segment> segment_;
};

/// Tells the other ranks of a communicator to be, which wait for this one, that it could not make its part of it.
void report_failure(Job& job, const Identity& identity, const Error& error);

Deadline join_deadline(const Options& options);

/// Returns an error once a creation is cancelled. Empty if it cannot be.
std::function<Status()> interruption_by(const std::stop_token& cancel);

/// Complains of settings that cannot be read or mean nothing, the first time.
void report_settings_once();

}  // namespace tutti
