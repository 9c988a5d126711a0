// Telemetry from the recordings of this host. It looks again and again, and remembers of earlier looks what one alone
// does not tell: whether counters move, how fast lanes have become, how long threads have had no core. The only part of
// diagnosis that knows recordings. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "diagnosis/recordings/end_waits.hpp"
#include "diagnosis/recordings/recording_facts.hpp"
#include "diagnosis/telemetry/telemetry.hpp"
#include "monitor/read/snapshot.hpp"

namespace tutti::diagnosis {

class RecordingObserver {
 public:
  enum class Reach : std::uint8_t {
    host,  // processes of other hosts are left out
    job,   // they are told of as `elsewhere`, for whoever merges the telemetry of all hosts (merge_telemetry.hpp)
  };

  explicit RecordingObserver(Reach reach = Reach::host) : reach_(reach) {}

  /// What take_snapshot() must read for it.
  static monitor::Detail detail() { return {.operations = true, .events = true}; }

  /// One for each job. Looks come in the order of their time. `starvation`: as read_starvation() says.
  std::vector<Telemetry> observe(const monitor::Snapshot& snapshot, const std::map<int, double>& starvation);

 private:
  struct SeenCount {
    std::uint64_t count = 0;
    double moved = 0;  // 0: not seen to move
  };
  struct CoreWait {
    double at = 0, starved = 0;
  };
  struct LanePace {
    double at = 0, busy = 0;
    std::uint64_t bytes = 0;
    std::deque<double> seconds_per_byte;  // logarithms; of the last looks in which enough was sent
  };
  using LaneKey = std::tuple<std::string, std::uint32_t, std::uint32_t>;  // recording, slot, incarnation

  void note_progress(const std::vector<SeenProcess>& processes, double now, Telemetry& telemetry);
  void forget_what_is_gone(const monitor::Snapshot& snapshot, const std::map<int, double>& starvation);
  void note_starvation(const std::map<int, double>& starvation, Telemetry& telemetry);
  void note_lanes(const std::vector<SeenProcess>& processes, std::uint64_t job, Telemetry& telemetry);
  static int add_elsewhere(int rank, Telemetry& telemetry);
  static void note_corruption(const SeenProcess& process, const monitor::LaneView& lane, int peer,
                              Telemetry& telemetry);
  void note_pace(const SeenProcess& process, const monitor::LaneView& lane, int peer, Telemetry& telemetry);

  Reach reach_;
  double first_look_ = 0;
  std::map<std::pair<std::string, std::uint64_t>, SeenCount> progress_;  // of a recording's communicators
  std::map<int, std::deque<CoreWait>> loads_;
  EndWaits end_waits_;
  std::map<LaneKey, LanePace> paces_;
  std::map<int, double> best_rates_;  // of each path, bytes per second, ever; paths differ
};

}  // namespace tutti::diagnosis
