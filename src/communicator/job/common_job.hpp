// Which job a new communicator can be made in. Processes that have joined together before need no new connections, no
// threads and no sockets for another communicator: each says which jobs it is in, and all choose the same one. Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/wire.hpp"

namespace tutti {

/// A job that a process is in.
struct JobOffer {
  static constexpr std::size_t kMostAbsent = 64;

  std::uint64_t job = 0;
  std::int32_t process = 0;          // index of this process in it
  std::int32_t processes = 0;        // how many have joined it
  std::vector<std::int32_t> absent;  // those that have died or left since, as this process knows

  void encode(WireWriter& out) const;
  static JobOffer decode(WireReader& in);
  bool operator==(const JobOffer&) const = default;
};

struct CommonJob {
  std::uint64_t job = 0;
  std::vector<int> processes;  // by rank: indices in the job

  bool operator==(const CommonJob&) const = default;
};

/// Returns the largest job that every rank offers, with a process of its own for each, none of which counts as absent
/// to any of them. `offers` is by rank; ranks of one process make the same offers.
std::optional<CommonJob> find_common_job(std::span<const std::vector<JobOffer>> offers);

}  // namespace tutti
