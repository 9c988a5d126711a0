#include "monitor/read/recording.hpp"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "base/clock.hpp"

namespace tutti::monitor {
namespace {

constexpr int kMostRanks = 1 << 20;
constexpr std::uint32_t kMostLanes = 1 << 16;  // to one peer
constexpr const char* kLaneStates[] = {"free", "probing", "healthy", "suspect", "dead", "held down"};

/// How ticks of a recording become seconds.
class TickClock {
 public:
  TickClock(const Head& head, bool alive)
      : ticks0_(head.ticks0.get()), seconds0_(1e-9 * static_cast<double>(head.monotonic0.get())) {
    per_second_ = 1e6 * head.ticks_per_microsecond.get();
    if (!std::isfinite(per_second_) || per_second_ < 1e6) per_second_ = 1e9;
    // The process took the rate within 2 ms; we know it from all the time since then. A recording of one that is gone
    // may come from another machine, whose ticks these are not.
    const double elapsed = 1e-9 * static_cast<double>(monotonic_nanoseconds()) - seconds0_;
    const double measured = static_cast<double>(ticks() - ticks0_) / elapsed;
    const bool plausible = std::isfinite(measured) && std::abs(measured / per_second_ - 1) < (alive ? 0.2 : 0.01);
    if (elapsed >= 0.1 && plausible) per_second_ = measured;
  }

  double length(std::uint64_t count) const { return static_cast<double>(count) / per_second_; }
  /// 0 stays 0: that never happened.
  double at(std::uint64_t when) const {
    return when == 0 ? 0 : seconds0_ + static_cast<double>(static_cast<std::int64_t>(when - ticks0_)) / per_second_;
  }

 private:
  std::uint64_t ticks0_;
  double seconds0_;
  double per_second_ = 1e9;
};

template <std::size_t N>
std::string printable(const Text<N>& text) {
  std::string letters = text.get();
  for (char& letter : letters)
    if (letter < ' ' || letter > '~') letter = '?';
  return letters;
}

double finite(double value) { return std::isfinite(value) ? value : 0; }

class RecordingReader {
 public:
  RecordingReader(const Map& map, const TickClock& clock, const Detail& detail)
      : map_(map), clock_(clock), detail_(detail) {}

  ProcessView process() const;

 private:
  void read_gathering(const GatheringRecord& record, std::vector<GatheringView>& into) const;
  void read_communicator(const CommunicatorRecord& record, std::vector<CommunicatorView>& into) const;
  void read_pending(const CommunicatorRecord& record, CommunicatorView& view) const;
  void read_links(const CommunicatorRecord& record, CommunicatorView& view) const;
  void read_totals(const CommunicatorRecord& record, CommunicatorView& view) const;
  void read_waits(const CommunicatorRecord& record, CommunicatorView& view) const;
  void read_marks(const CommunicatorRecord& record, CommunicatorView& view) const;
  void read_operations(const CommunicatorRecord& record, CommunicatorView& view) const;
  void read_steps(const CommunicatorRecord& record, CommunicatorView& view) const;
  void read_lane(std::uint32_t slot, std::vector<LaneView>& into) const;
  void read_chunks(const LaneRecord& record, LaneView& view) const;
  void read_events(std::vector<EventView>& into) const;
  /// What a record of an operation, over or under way, has in common. False where it makes no sense.
  template <typename Record>
  bool read_operation(const Record& record, int ranks, OperationView& view) const;
  std::string program(std::uint32_t number) const;

  const Map& map_;
  const TickClock& clock_;
  const Detail& detail_;
};

template <typename View>
void in_order(std::vector<View>& views) {
  std::sort(views.begin(), views.end(), [](const View& a, const View& b) { return a.index < b.index; });
}

ProcessView RecordingReader::process() const {
  const Head& head = map_.head();
  ProcessView view;
  view.pid = head.pid.get();
  view.told_to_end = static_cast<int>(head.told_to_end.get());
  view.ended = head.ended.get() != 0 || view.told_to_end != 0;
  view.host = printable(head.host);
  view.command = printable(head.command);
  view.launcher_job = printable(head.launcher_job);
  view.clock_offset = head.clock_offset.get();
  if (head.clock_error.get() != ~std::uint64_t{0}) view.clock_error = head.clock_error.get();
  view.window = head.window.get();
  view.lost_communicators = head.lost_communicators.get();
  view.lost_lanes = head.lost_lanes.get();
  view.event_count = head.event_count.get();
  for (int i = 0; i < kGatherings; ++i) read_gathering(map_.gathering(i), view.gatherings);
  for (std::uint32_t i = 0; i < map_.shape().communicators; ++i)
    read_communicator(map_.communicator(i), view.communicators);
  for (std::uint32_t i = 0; i < map_.shape().lanes; ++i) read_lane(i, view.lanes);
  if (detail_.events) read_events(view.events);
  return view;
}

void RecordingReader::read_gathering(const GatheringRecord& record, std::vector<GatheringView>& into) const {
  if (record.open.get() == 0) return;
  GatheringView view;
  view.key = record.key.get();
  view.rank = record.rank.get();
  view.size = record.size.get();
  if (view.size < 1 || view.size > kGathered || view.rank < 0 || view.rank >= view.size) return;
  view.serves = record.serves.get() != 0;
  view.began = clock_.at(record.began.get());
  for (int rank = 0; rank < view.size; ++rank)
    if (record.has_joined(rank)) view.joined.push_back(rank);
  into.push_back(std::move(view));
}

void RecordingReader::read_communicator(const CommunicatorRecord& record, std::vector<CommunicatorView>& into) const {
  CommunicatorView view;
  const std::uint32_t state = record.state.get();
  if (state == CommunicatorRecord::free || state > CommunicatorRecord::closed) return;
  view.state = static_cast<CommunicatorRecord::State>(state);
  view.id = record.id.get();
  view.job = record.job.get();
  view.rank = record.rank.get();
  view.size = record.size.get();
  if (view.size < 1 || view.size > kMostRanks || view.rank < 0 || view.rank >= view.size) return;
  view.hosts = std::clamp(record.hosts.get(), 0, view.size);
  view.host = std::clamp(record.host.get(), 0, view.size);
  view.name = printable(record.name);
  view.error = printable(record.error);
  view.created = clock_.at(record.created.get());
  view.entered = record.entered.get();
  view.done = record.done.get();
  view.ends_entered = record.ends_entered.get();
  view.ends_done = record.ends_done.get();
  view.lost_links = record.lost_links.get();
  read_pending(record, view);
  read_links(record, view);
  read_totals(record, view);
  read_waits(record, view);
  read_marks(record, view);
  if (detail_.operations) read_operations(record, view);
  if (detail_.steps) read_steps(record, view);
  into.push_back(std::move(view));
}

template <typename Record>
bool RecordingReader::read_operation(const Record& record, int ranks, OperationView& view) const {
  const What what = What::of(record.what.get());
  if (what.collective >= kCollectives || what.type >= kDataTypes || what.op >= kOperators) return false;
  view.number = what.number;
  view.collective = static_cast<Collective>(what.collective);
  view.type = static_cast<DataType>(what.type);
  view.op = static_cast<Operator>(what.op);
  view.sends = (what.flags & What::sends) != 0;
  view.failed = (what.flags & What::failed) != 0;
  view.bytes = record.bytes.get();
  view.root = record.root.get();
  view.program = program(record.program.get());
  view.signature = record.signature.get();
  view.entered = clock_.at(record.entered.get());
  view.waited = clock_.length(record.waited.get());
  if (const int rank = record.waited_for.get(); rank >= 0 && rank < ranks) view.waited_for = rank;
  return true;
}

std::string RecordingReader::program(std::uint32_t number) const {
  const Head& head = map_.head();
  const bool known = number < head.program_count.get() && number < kPrograms;
  return known ? printable(head.programs[number]) : "";
}

void RecordingReader::read_pending(const CommunicatorRecord& record, CommunicatorView& view) const {
  for (const Active& active : record.actives) {
    PendingView pending;
    if (active.generation.get() % 2 == 0 || !read_operation(active, view.size, pending.operation)) continue;
    const std::uint32_t workers = std::min<std::uint32_t>(active.workers.get(), kWorkers);
    for (std::uint32_t i = 0; i < workers; ++i) {
      const std::uint64_t progress = active.progress[i].get();
      pending.workers.push_back({static_cast<std::uint32_t>(progress >> 32), static_cast<std::uint32_t>(progress)});
    }
    const int awaited = active.awaited.get();
    if (awaited >= 0 && awaited < view.size) {
      pending.awaited = awaited;
      pending.awaited_since = clock_.at(active.awaited_since.get());
      const std::uint32_t in = active.awaited_in.get();
      if (in != ~std::uint32_t{0}) {
        pending.awaited_worker = static_cast<int>(in >> 16);
        pending.awaited_step = static_cast<int>(in & 0xffff);
      }
    }
    view.pending.push_back(std::move(pending));
  }
}

void RecordingReader::read_links(const CommunicatorRecord& record, CommunicatorView& view) const {
  for (const LinkRecord& link : record.links) {
    const std::uint64_t name = link.name.get();
    const auto peer = static_cast<std::int64_t>(name >> 32) - 1;
    if (name == 0 || peer < 0 || peer >= view.size) continue;
    view.links.push_back({static_cast<int>(peer), static_cast<int>(name >> 16 & 0xffff), (name & 1) != 0,
                          link.posted.get(), link.transferred.get(), link.done.get(), link.bytes.get(),
                          link.operation.get()});
  }
}

void RecordingReader::read_totals(const CommunicatorRecord& record, CommunicatorView& view) const {
  for (int kind = 0; kind < kKinds; ++kind)
    for (int size = 0; size < kSizeClasses; ++size) {
      const Total& total = record.totals[kind][size];
      if (total.operations.get() == 0) continue;
      view.totals.push_back({static_cast<Collective>(kind), size, total.operations.get(), total.bytes.get(),
                             clock_.length(total.ticks.get()), clock_.length(total.waited.get())});
    }
}

void RecordingReader::read_waits(const CommunicatorRecord& record, CommunicatorView& view) const {
  for (int i = 0; i < kWaits; ++i) {
    const auto rank = static_cast<std::int64_t>(record.waits[i].name.get()) - 1;
    const std::uint64_t waited = record.waits[i].ticks.get();
    const bool stands_for_others = i + 1 == kWaits;
    if (waited == 0 || rank >= view.size || (rank < 0 && !stands_for_others)) continue;
    view.waits.push_back({stands_for_others ? -1 : static_cast<int>(rank), clock_.length(waited)});
  }
  std::sort(view.waits.begin(), view.waits.end(),
            [](const WaitedView& a, const WaitedView& b) { return a.rank < b.rank; });
}

void RecordingReader::read_marks(const CommunicatorRecord& record, CommunicatorView& view) const {
  for (const auto& ring : record.marks) {
    std::vector<MarkView>& marks = view.marks.emplace_back();
    for (const Mark& mark : ring)
      if (mark.index.get() != 0)
        marks.push_back({static_cast<std::uint32_t>(mark.index.get() - 1), clock_.at(mark.at.get()),
                         clock_.length(mark.ticks.get()), clock_.length(mark.waited.get())});
    std::sort(marks.begin(), marks.end(), [](const MarkView& a, const MarkView& b) { return a.number < b.number; });
  }
}

void RecordingReader::read_operations(const CommunicatorRecord& record, CommunicatorView& view) const {
  for (std::uint32_t i = 0; i < map_.shape().operations; ++i) {
    const OperationRecord& each = map_.operation(record, i);
    OperationView operation;
    if (each.index.get() == 0 || !read_operation(each, view.size, operation)) continue;
    operation.index = each.index.get() - 1;
    operation.done = clock_.at(each.done.get());
    view.operations.push_back(std::move(operation));
  }
  in_order(view.operations);
}

void RecordingReader::read_steps(const CommunicatorRecord& record, CommunicatorView& view) const {
  for (std::uint32_t i = 0; i < map_.shape().steps; ++i) {
    const StepRecord& each = map_.step(record, i);
    if (each.index.get() == 0) continue;
    const std::uint64_t where = each.where.get();
    const double begun = clock_.at(each.begun.get());
    view.steps.push_back({each.index.get() - 1, static_cast<std::uint32_t>(where),
                          static_cast<int>(where >> 32 & 0xffff), static_cast<int>(where >> 48), each.tile.get(), begun,
                          begun + clock_.length(each.duration.get())});
  }
  in_order(view.steps);
}

void RecordingReader::read_lane(std::uint32_t slot, std::vector<LaneView>& into) const {
  const LaneRecord& record = map_.lane(slot);
  const std::uint32_t state = record.state.get();
  if (state == 0 || state >= std::size(kLaneStates) || record.index.get() >= kMostLanes) return;
  LaneView view;
  view.slot = slot;
  view.state = kLaneStates[state];
  view.index = record.index.get();
  view.epoch = record.epoch.get();
  view.relayed = record.relayed.get() != 0;
  view.peer = record.peer.get();
  view.peer_name = printable(record.peer_name);
  view.name = printable(record.name);
  view.reason = printable(record.reason);
  view.since = clock_.at(record.since.get());
  view.posted_chunks = record.posted_chunks.get();
  view.posted_bytes = record.posted_bytes.get();
  view.done_chunks = record.done_chunks.get();
  view.done_bytes = record.done_bytes.get();
  view.quick_chunks = record.quick_chunks.get();
  view.quick_bytes = record.quick_bytes.get();
  view.busy = clock_.length(record.busy.get());
  view.receiver_late = clock_.length(record.receiver_late.get());
  view.starved = clock_.length(record.starved.get());
  view.rate = finite(record.rate.get());
  view.usual = finite(record.usual.get());
  if (record.condition.get() <= static_cast<std::uint32_t>(Condition::stalled))
    view.condition = static_cast<Condition>(record.condition.get());
  if (record.cause.get() <= static_cast<std::uint32_t>(Cause::path_congested))
    view.cause = static_cast<Cause>(record.cause.get());
  view.drops = record.drops.get();
  view.stalls = record.stalls.get();
  view.checked_chunks = record.checked_chunks.get();
  view.corrupted_chunks = record.corrupted_chunks.get();
  view.returned_chunks = record.returned_chunks.get();
  view.corrupted_at = clock_.at(record.corrupted_at.get());
  if (detail_.chunks) read_chunks(record, view);
  into.push_back(std::move(view));
}

void RecordingReader::read_chunks(const LaneRecord& record, LaneView& view) const {
  for (std::uint32_t i = 0; i < map_.shape().chunks; ++i) {
    const ChunkRecord& each = map_.chunk(record, i);
    if (each.index.get() == 0) continue;
    view.chunks.push_back({each.index.get() - 1, clock_.at(each.posted.get()), clock_.at(each.done.get()),
                           each.bytes.get(), each.operation.get(), clock_.length(each.receiver_late.get()),
                           clock_.length(each.starved.get()), finite(each.rate.get())});
  }
  in_order(view.chunks);
}

void RecordingReader::read_events(std::vector<EventView>& into) const {
  for (std::uint32_t i = 0; i < map_.shape().events; ++i) {
    const EventRecord& each = map_.event(i);
    if (each.index.get() == 0 || each.kind.get() >= static_cast<std::uint32_t>(kEventKinds)) continue;
    EventView view;
    view.index = each.index.get() - 1;
    view.at = clock_.at(each.at.get());
    view.began = clock_.at(each.began.get());
    view.kind = static_cast<EventKind>(each.kind.get());
    if (each.cause.get() <= static_cast<std::uint32_t>(Cause::path_congested))
      view.cause = static_cast<Cause>(each.cause.get());
    view.communicator = each.communicator.get();
    view.rank = each.rank.get();
    view.peer = each.peer.get();
    view.lane = each.lane.get();
    view.operation = each.operation.get();
    for (int value = 0; value < 3; ++value) view.values[value] = finite(each.values[value].get());
    view.text = printable(each.text);
    into.push_back(std::move(view));
  }
  in_order(into);
}

}  // namespace

std::uint64_t monotonic_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

Result<ProcessView> read_recording(const RecordingSource& source, bool alive, const Detail& detail) {
  const Result<RecordingImage> image = RecordingImage::copy_of(source, detail);
  if (!image) return tl::unexpected(image.error());
  const TickClock clock(image->map().head(), alive);
  return RecordingReader(image->map(), clock, detail).process();
}

}  // namespace tutti::monitor
