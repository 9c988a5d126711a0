// Who waits for whom in sends and receives. Unlike a collective, these have no end at which ranks meet, so that the
// counters of waits are compared from look to look: of each rank, what share of the time it waited for each other.
// Only where ranks send and receive, as stages of a pipeline do: whoever only receives is meant to wait. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "diagnosis/recordings/recording_facts.hpp"
#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

class EndWaits {
 public:
  /// Notes what the processes of a job have recorded until `now`, and fills in the waits of communicators whose ranks
  /// send and receive more than they call collectives.
  void note(const std::vector<SeenProcess>& processes, double now, Telemetry& telemetry);
  /// Forgets recordings that are gone.
  void keep(const std::set<std::string>& files);

 private:
  using Waits = std::map<int, double>;  // by the rank that was waited for
  /// Of one rank of a communicator.
  struct Member {
    double at = 0;  // when the counters below were read
    std::uint64_t ends = 0, collectives = 0;
    Waits seconds;
    std::deque<Waits> shares;  // of the time between two of the last looks

    void look(const monitor::CommunicatorView& view, double now);
    std::vector<WaitFacts> waits(int rank) const;
  };
  using MemberKey = std::pair<std::string, std::uint64_t>;  // recording, communicator

  std::map<MemberKey, Member> members_;
};

}  // namespace tutti::diagnosis
