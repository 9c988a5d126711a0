#include "monitor/trace/trace_tracks.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace tutti::monitor {
namespace {

// Ticks become seconds at a rate that is measured anew with each snapshot: what was read at different times may be off
// by so much, and would seem to overlap.
constexpr std::int64_t kJitter = 1000;

}  // namespace

SlicePosition TraceTrack::place(TimeSpan span, TraceNumbers& numbers, TraceFile& file) {
  span.to = std::max(span.to, span.from);
  auto row =
      std::find_if(rows_.begin(), rows_.end(), [&](const TraceRow& each) { return each.end - kJitter <= span.from; });
  if (row == rows_.end()) {
    const std::uint32_t tid = numbers.next();
    const std::size_t index = rows_.size();
    file.name(pid_, tid, index == 0 ? name_ : fmt::format("{} ({})", name_, index + 1), order_);
    row = rows_.insert(row, {tid, span.from});
  }
  span.from = std::max(span.from, row->end);
  span.to = std::max(span.to, span.from);
  row->end = span.to;
  return {pid_, row->tid, span};
}

}  // namespace tutti::monitor
