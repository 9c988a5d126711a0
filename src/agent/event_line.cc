#include "agent/event_line.hpp"

#include <fmt/core.h>
#include <time.h>

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <span>

namespace tutti::agent {
namespace {

using monitor::EventKind;
using nlohmann::ordered_json;

/// What an event's values are called; those of all other kinds mean nothing.
std::span<const char* const> value_names(EventKind kind) {
  static constexpr const char* kLate[] = {"seconds"};
  static constexpr const char* kDrop[] = {"usual_bytes_per_second", "bytes_per_second", "seconds"};
  static constexpr const char* kStall[] = {"usual_bytes_per_second", "outstanding_bytes", "seconds"};
  static constexpr const char* kUneven[] = {"bytes_per_second", "fastest_bytes_per_second"};
  static constexpr const char* kCorrupted[] = {"corrupted_chunks", "returned_chunks"};
  switch (kind) {
    case EventKind::rank_late:
      return kLate;
    case EventKind::lane_dropped:
    case EventKind::lane_recovered:
      return kDrop;
    case EventKind::lane_stalled:
      return kStall;
    case EventKind::lanes_uneven:
      return kUneven;
    case EventKind::lane_corrupted:
      return kCorrupted;
    default:
      return {};
  }
}

ordered_json or_null(int number) { return number < 0 ? ordered_json(nullptr) : ordered_json(number); }

double now_of_day() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// What happened, in words a person needs no table for.
std::string sentence_of(const SeenEvent& seen) {
  const monitor::EventView& event = seen.event;
  std::string text = kind_of(seen);
  if (event.rank >= 0) text += fmt::format(" rank {}", event.rank);
  if (event.peer >= 0) text += fmt::format(" peer {}", event.peer);
  if (event.lane >= 0) text += fmt::format(" lane {}", event.lane);
  if (event.kind == EventKind::rank_late) text += fmt::format(" operation {}", event.operation);
  if (event.cause != monitor::Cause::none) text += fmt::format(" cause {}", name_of(event.cause));
  const auto names = value_names(event.kind);
  for (std::size_t i = 0; i < names.size(); ++i) text += fmt::format(" {} {:.6g}", names[i], event.values[i]);
  if (!event.text.empty()) text += ": " + event.text;
  return text;
}

}  // namespace

const char* kind_of(const SeenEvent& seen) {
  return seen.source == SeenEvent::Source::process_killed ? "process_killed" : name_of(seen.event.kind);
}

std::string rfc3339(double seconds) {
  const auto microseconds = static_cast<std::int64_t>(std::floor(seconds * 1e6));
  const time_t whole = microseconds / 1'000'000;
  tm parts{};
  ::gmtime_r(&whole, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, microseconds % 1'000'000);
}

std::string json_line(const SeenEvent& seen) {
  const monitor::EventView& event = seen.event;
  const bool is_told = seen.source == SeenEvent::Source::process;
  ordered_json values = ordered_json::object();
  if (is_told) {
    const auto names = value_names(event.kind);
    for (std::size_t i = 0; i < names.size(); ++i) values[names[i]] = event.values[i];
  }
  const bool has_operation = is_told && (event.operation != 0 || event.kind == EventKind::rank_late);
  const ordered_json line = {
      {"time", rfc3339(event.at + seen.realtime_offset)},
      {"monotonic", std::round(event.at * 1e6) * 1e-6},
      {"began", event.began == 0 ? ordered_json(nullptr) : ordered_json(rfc3339(event.began + seen.realtime_offset))},
      {"kind", kind_of(seen)},
      {"host", seen.host},
      {"pid", seen.pid},
      {"command", seen.command},
      {"launcher_job", seen.launcher_job},
      {"index", is_told ? ordered_json(event.index) : ordered_json(nullptr)},
      {"missed", seen.missed},
      {"communicator",
       event.communicator == 0 ? ordered_json(nullptr) : ordered_json(fmt::format("{:016x}", event.communicator))},
      {"rank", or_null(event.rank)},
      {"peer", or_null(event.peer)},
      {"lane", or_null(event.lane)},
      {"operation", has_operation ? ordered_json(event.operation) : ordered_json(nullptr)},
      {"cause", event.cause == monitor::Cause::none ? ordered_json(nullptr) : ordered_json(name_of(event.cause))},
      {"values", values},
      {"text", event.text}};
  return line.dump();
}

std::string text_line(const SeenEvent& seen) {
  const std::string lost = seen.missed == 0 ? "" : fmt::format(" ({} events before this were lost)", seen.missed);
  return fmt::format("{} {} {}[{}] {}{}", rfc3339(seen.event.at + seen.realtime_offset), seen.host, seen.command,
                     seen.pid, sentence_of(seen), lost);
}

std::string dropped_json_line(std::uint64_t count) {
  return ordered_json{{"time", rfc3339(now_of_day())}, {"kind", "events_dropped"}, {"values", {{"count", count}}}}
      .dump();
}

}  // namespace tutti::agent
