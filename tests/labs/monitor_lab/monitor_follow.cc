// Follows the recordings in a folder, and prints what is new in them as JSON lines, until its input ends:
//   {"chunk": INDEX, "pid", "lane", "peer_name", "posted", "done", "bytes", "operation", "receiver_late", "starved",
//   "rate"}
//   {"event": KIND, "pid", "lane", "at", "began", "cause", "values", "text"}
// Times are seconds of the monotonic clock. Chunks that were overwritten before they were read are missing.
#include <poll.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "monitor/read/snapshot.hpp"

namespace {

using nlohmann::json;

class Follower {
 public:
  void look(const std::string& folder) {
    const auto snapshot = tutti::monitor::take_snapshot({folder}, {false, false, true, true});
    for (const auto& process : snapshot.processes) {
      for (const auto& lane : process.lanes) chunks(process.pid, lane);
      events(process);
    }
    std::fflush(stdout);
  }

 private:
  void chunks(int pid, const tutti::monitor::LaneView& lane) {
    std::uint64_t& next = chunks_seen_[{pid, lane.slot}];
    for (const auto& chunk : lane.chunks) {
      if (chunk.index < next) continue;
      next = chunk.index + 1;
      print({{"chunk", chunk.index},
             {"pid", pid},
             {"lane", lane.index},
             {"peer_name", lane.peer_name},
             {"posted", chunk.posted},
             {"done", chunk.done},
             {"bytes", chunk.bytes},
             {"operation", chunk.operation},
             {"receiver_late", chunk.receiver_late},
             {"starved", chunk.starved},
             {"rate", chunk.rate}});
    }
  }

  void events(const tutti::monitor::ProcessView& process) {
    std::uint64_t& next = events_seen_[process.pid];
    for (const auto& event : process.events) {
      if (event.index < next) continue;
      next = event.index + 1;
      print({{"event", name_of(event.kind)},
             {"pid", process.pid},
             {"lane", event.lane},
             {"at", event.at},
             {"began", event.began},
             {"cause", name_of(event.cause)},
             {"values", event.values},
             {"text", event.text}});
    }
  }

  static void print(const json& line) { std::printf("%s\n", line.dump().c_str()); }

  std::map<std::pair<int, std::uint32_t>, std::uint64_t> chunks_seen_;
  std::map<int, std::uint64_t> events_seen_;
};

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  int every = 4;
  CLI::App app("What is new in recordings, as JSON lines");
  app.add_option("folder", folder, "of the recordings")->required();
  app.add_option("--every", every, "milliseconds between looks")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  Follower follower;
  pollfd input{0, POLLIN, 0};
  do {
    follower.look(folder);
  } while (::poll(&input, 1, every) == 0);
  follower.look(folder);
  return 0;
}
