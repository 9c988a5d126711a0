// For tests of the agent: what the library writes when an operation is over, and lanes.
#pragma once

#include <time.h>

#include <string>

#include "monitor/read/recording_test_kit.hpp"

namespace tutti::agent {

struct Ended {
  Collective collective = Collective::all_reduce;
  std::uint64_t bytes = 0;
  double microseconds = 0;
  double waited = 0;  // of these
  std::string program = "ring";
  std::uint8_t flags = 0;
};

inline void end_operation(monitor::Recorder& recorder, monitor::CommunicatorRecord& of, const Ended& ended) {
  const std::uint64_t now = ticks(), length = ticks_of_microseconds(ended.microseconds);
  const auto kind = static_cast<std::uint8_t>(ended.collective);
  monitor::Total& total = of.totals[kind][monitor::size_class(ended.bytes)];
  total.operations.add(1);
  total.bytes.add(ended.bytes);
  total.ticks.add(length);
  total.waited.add(ticks_of_microseconds(ended.waited));
  of.waits[1].name.set(2);
  of.waits[1].ticks.add(ticks_of_microseconds(ended.waited));
  const std::uint64_t index = of.operation_count.get();
  monitor::OperationRecord& record = recorder.map().operation(of, index);
  record.index.set(0);
  record.what.set(monitor::What{static_cast<std::uint32_t>(index), kind, 0, 0, ended.flags}.pack());
  record.bytes.set(ended.bytes);
  record.program.set(recorder.program(ended.program));
  record.entered.set(now - length);
  record.waited.set(ticks_of_microseconds(ended.waited));
  record.waited_for.set(ended.waited > 0 ? 1 : -1);
  record.done.set(now);
  record.index.set(index + 1);
  of.operation_count.set(index + 1);
}

/// A lane that is up. `state` is LaneState + 1.
inline monitor::LaneRecord& add_lane(monitor::Recorder& recorder, std::uint32_t index, int peer) {
  static constexpr std::uint32_t kHealthy = 2;
  monitor::LaneRecord& lane = *recorder.open_lane();
  lane.index.set(index);
  lane.peer.set(peer);
  lane.peer_name.set("host-b");
  lane.name.set("192.0.2.1:7000");
  lane.state.set(kHealthy);
  return lane;
}

inline monitor::Event event_of(monitor::EventKind kind, int peer = -1) {
  monitor::Event event;
  event.kind = kind;
  event.rank = 0;
  event.peer = peer;
  return event;
}

inline double monotonic_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace tutti::agent
