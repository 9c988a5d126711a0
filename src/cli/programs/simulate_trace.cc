#include "cli/programs/simulate_trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "monitor/trace/trace_file.hpp"

namespace tutti::cli {
namespace {

using monitor::TraceEvent;
using monitor::TraceFile;

struct FlightTrack {
  std::uint32_t number = 0;
  double free = 0;
};

class FlightWriter {
 public:
  explicit FlightWriter(TraceFile& file) : file_(file) {}

  void write(const Flight& flight) {
    const auto begins = std::llround(flight.begins * 1e9), ends = std::llround(flight.ends * 1e9);
    file_.write({{"ph", "X"},
                 {"name", fmt::format("step {}", flight.step)},
                 {"pid", process_of(flight.from)},
                 {"tid", track_of(flight)},
                 {"ts", monitor::trace_microseconds(begins)},
                 {"dur", monitor::trace_microseconds(std::max(ends - begins, 1LL))},
                 {"args", {{"channel", flight.channel}, {"worker", flight.worker}, {"tile", flight.tile}}}});
  }

 private:
  std::uint32_t process_of(int rank) {
    const auto number = static_cast<std::uint32_t>(rank) + 1;
    if (tracks_in_.try_emplace(rank, 0).second) file_.name(number, 0, fmt::format("rank {}", rank), rank);
    return number;
  }

  /// Slices of a track do not overlap: the first that is free takes the flight.
  std::uint32_t track_of(const Flight& flight) {
    std::vector<FlightTrack>& tracks = tracks_[{flight.from, flight.to}];
    auto found =
        std::find_if(tracks.begin(), tracks.end(), [&](const FlightTrack& one) { return one.free < flight.begins; });
    if (found == tracks.end()) {
      found = tracks.insert(tracks.end(), {.number = ++tracks_in_[flight.from]});
      file_.name(process_of(flight.from), found->number, fmt::format("to rank {}", flight.to), flight.to);
    }
    found->free = flight.ends;
    return found->number;
  }

  TraceFile& file_;
  std::map<int, std::uint32_t> tracks_in_;  // by rank
  std::map<std::pair<int, int>, std::vector<FlightTrack>> tracks_;
};

}  // namespace

Status write_flights(const Simulation& simulation, const std::string& path) {
  auto file = TraceFile::create(path);
  if (!file) return tl::unexpected(file.error());
  FlightWriter writer(**file);
  for (const Flight& flight : simulation.flights) writer.write(flight);
  return (*file)->close({{"seconds", simulation.seconds}, {"pieces", simulation.pieces}});
}

}  // namespace tutti::cli
