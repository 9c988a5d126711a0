// Who the ranks of a communicator are.
#pragma once

#include <cstdint>
#include <vector>

#include "communicator/operation/rank_slots.hpp"
#include "transport/shm/segment.hpp"

namespace tutti {

/// A rank as others need to know it.
struct Member {
  int process = 0;  // index in the job
  std::uint64_t host = 0;
  SegmentName segment;
};

struct Identity {
  std::uint64_t id = 0;  // the same on all ranks
  int rank = 0;
  bool settled = false;  // the ranks have agreed on what follows
  bool pull = false;     // every rank can read the memory of every other of its host
  std::vector<Member> members;
  RankSlots slots;

  int process_of(int of_rank) const { return members[static_cast<std::size_t>(of_rank)].process; }
  /// Returns the processes of all ranks, as the job counts them.
  std::vector<int> processes() const {
    std::vector<int> found;
    for (const Member& member : members) found.push_back(member.process);
    return found;
  }
};

}  // namespace tutti
