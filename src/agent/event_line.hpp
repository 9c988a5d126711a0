// An event as a line: JSON for machines, in a schema that only grows (docs/monitor-agent.md), or text for a person.
// Plain functions; any thread.
#pragma once

#include <string>

#include "monitor/read/snapshot.hpp"

namespace tutti::agent {

/// An event with where it came from.
struct SeenEvent {
  enum class Source { process, process_killed };

  Source source = Source::process;  // process_killed: seen by us, told by nobody; no event but for its time
  monitor::EventView event;
  std::uint64_t missed = 0;    // events of that process right before this one that were overwritten unread
  double realtime_offset = 0;  // from the event's times to the time of day; seconds
  int pid = 0;
  std::string host, command, launcher_job;
};

const char* kind_of(const SeenEvent& seen);
/// Both without the end of the line.
std::string json_line(const SeenEvent& seen);
std::string text_line(const SeenEvent& seen);
/// Says that `count` events had to be dropped before what follows.
std::string dropped_json_line(std::uint64_t count);

/// "2026-01-31T12:00:00.000001Z", of seconds since 1970.
std::string rfc3339(double seconds);

}  // namespace tutti::agent
