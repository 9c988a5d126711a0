// How a process becomes a rank of a job, for all who make one: create, grow, join.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "bootstrap/join.hpp"
#include "communicator/impl.hpp"
#include "communicator/seats.hpp"
#include "transport/shm/segment.hpp"

namespace tutti {

/// A process on its way into a job: first it opens what the others need to reach it, then it knows all of them.
class Entrant {
 public:
  explicit Entrant(const JoinInfo& info);
  ~Entrant();
  Entrant(const Entrant&) = delete;
  Entrant& operator=(const Entrant&) = delete;

  /// What this process brings to the meeting point, for a job of up to `size` ranks. All ranks must bring the same
  /// `settings`, and the same of those by which they exchange data: enter() compares them, once all are known, so that
  /// every rank fails with the same words.
  Result<Blob> introduce(int size, const AgreedSettings& settings = {});
  /// The introductions of all ranks, in their order, and the number of this one.
  Result<std::shared_ptr<CommunicatorImpl>> enter(const std::vector<Blob>& introductions, int rank, Deadline deadline,
                                                  const Options& options, Seats seats);

 private:
  std::string secret_;
  std::string job_;
  std::unique_ptr<Control> control_;
  std::shared_ptr<Tcp> tcp_;
  std::optional<Segment> segment_;
};

/// Tells the other ranks of a communicator to be, which wait for this one, that it could not make its part of it.
void report_failure(Job& job, const Identity& identity, const Error& error);

Deadline join_deadline(const Options& options);

/// Complains of settings that cannot be read or mean nothing, the first time.
void report_settings_once();

}  // namespace tutti
