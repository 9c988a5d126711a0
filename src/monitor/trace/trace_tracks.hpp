// The tracks of a trace. Slices of one thread of a trace must lie within each other or apart; where things of one kind
// overlap (chunks of a lane, sends to several peers), a track has as many rows as it takes, each a thread of its own.
// One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "monitor/trace/trace_file.hpp"

namespace tutti::monitor {

/// From one moment to another; nanoseconds on the trace's axis.
struct TimeSpan {
  std::int64_t from = 0;
  std::int64_t to = 0;
};

/// Where a slice lies.
struct SlicePosition {
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  TimeSpan span;  // as it can be drawn there
};

/// Numbers for processes and threads: readers name threads by these alone, so none is used twice.
class TraceNumbers {
 public:
  std::uint32_t next() { return ++last_; }

 private:
  std::uint32_t last_ = 0;
};

class TraceTrack {
 public:
  /// `order`: among the tracks of its process.
  TraceTrack(std::uint32_t pid, std::string name, int order) : pid_(pid), name_(std::move(name)), order_(order) {}

  /// Finds a row for a slice. To be asked in the order in which slices end.
  SlicePosition place(TimeSpan span, TraceNumbers& numbers, TraceFile& file);

  const std::string& name() const { return name_; }

 private:
  struct TraceRow {
    std::uint32_t tid;
    std::int64_t end;
  };

  std::uint32_t pid_;
  std::string name_;
  int order_;
  std::vector<TraceRow> rows_;
};

}  // namespace tutti::monitor
