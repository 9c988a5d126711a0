#include "monitor/trace/trace.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tutti::monitor {
namespace {

// Tracks of a process, from the top.
constexpr int kEvents = 0;
constexpr int kOperations = 10;
constexpr int kWorkersFrom = 1000;
constexpr int kLanesFrom = 100'000;
constexpr int kOrdersOfCommunicator = 10'000;

constexpr std::size_t kRing = 128;           // a ring that holds fewer is not full yet, or is read often anyway
constexpr std::int64_t kIdle = 1'000'000;    // ns without anything to send, after which a lane's rate counts as none
constexpr std::int64_t kMicrosecond = 1000;  // ns

bool is_end(const OperationView& operation) { return operation.collective == Collective::point_to_point; }

std::string title_of(const OperationView& operation) {
  if (is_end(operation)) return operation.sends ? "send" : "receive";
  return std::string(name_of(operation.collective));
}

TraceEvent arguments_of(const CommunicatorView& view, const OperationView& operation) {
  TraceEvent arguments = {{"number", operation.number},
                          {"bytes", operation.bytes},
                          {"type", name_of(operation.type)},
                          {"program", operation.program},
                          {"communicator", fmt::format("{:016x}", view.id)},
                          {"rank", view.rank},
                          {"ranks", view.size}};
  if (reduces(operation.collective)) arguments["operator"] = name_of(operation.op);
  if (has_root(operation.collective)) arguments["root"] = operation.root;
  if (is_end(operation)) arguments["peer"] = operation.root;
  if (operation.failed) arguments["failed"] = true;
  return arguments;
}

std::string lane_name(const LaneView& view) { return fmt::format("lane {} to {}", view.index, peer_of(view)); }

std::string title_of(const EventView& event) {
  std::string title = name_of(event.kind);
  if (event.lane >= 0) title += fmt::format(", lane {}", event.lane);
  if (event.cause != Cause::none) title += fmt::format(": {}", name_of(event.cause));
  return title;
}

TraceEvent arguments_of(const EventView& event) {
  TraceEvent arguments = TraceEvent::object();
  if (!event.text.empty()) arguments["text"] = event.text;
  if (event.cause != Cause::none) arguments["cause"] = name_of(event.cause);
  if (event.communicator != 0) arguments["communicator"] = fmt::format("{:016x}", event.communicator);
  if (event.rank >= 0) arguments["rank"] = event.rank;
  if (event.peer >= 0) arguments["peer"] = event.peer;
  if (event.lane >= 0) arguments["lane"] = event.lane;
  arguments["values"] = {event.values[0], event.values[1], event.values[2]};
  return arguments;
}

}  // namespace

template <typename View, typename Each>
void Tracer::read(Ring& ring, const std::vector<View>& views, std::uint64_t TraceCounts::*count, Each each) {
  if (views.empty()) return;
  // A record that was opened anew counts from the beginning.
  if (ring.next && views.back().index + 1 < *ring.next) ring.next = 0;
  std::uint64_t fresh = 0;
  for (const View& view : views) {
    if (ring.next && view.index < *ring.next) continue;
    if (ring.next) missed_.*count += view.index - *ring.next;
    if (ring.next && view.index != *ring.next) fill_ = 1;
    ring.next = view.index + 1;
    ++fresh;
    ++(written_.*count);
    each(view);
  }
  fill_ = std::max(fill_, static_cast<double>(fresh) / static_cast<double>(std::max(views.size(), kRing)));
}

std::int64_t Tracer::at(const Process& process, double seconds) const {
  return static_cast<std::int64_t>(std::llround(seconds * 1e9)) + process.offset;
}

void Tracer::slice(const SlicePosition& place, const std::string& name, const char* category, TraceEvent arguments) {
  file_.write({{"ph", "X"},
               {"name", name},
               {"cat", category},
               {"pid", place.pid},
               {"tid", place.tid},
               {"ts", trace_microseconds(place.span.from)},
               {"dur", trace_microseconds(place.span.to - place.span.from)},
               {"args", std::move(arguments)}});
}

void Tracer::add(const Snapshot& snapshot) {
  fill_ = 0;
  for (const ProcessView& view : snapshot.processes) {
    Process& process = process_of(view);
    for (const CommunicatorView& communicator : view.communicators) {
      add_operations(process, communicator);
      add_steps(process, communicator);
    }
    for (const LaneView& lane : view.lanes) add_chunks(process, lane);
    add_events(process, view);
  }
  const auto is_gone = [&](const auto& known) {
    return std::none_of(snapshot.processes.begin(), snapshot.processes.end(),
                        [&](const ProcessView& view) { return view.file == known.first; });
  };
  std::erase_if(processes_, is_gone);
}

void Tracer::finish(const Snapshot& snapshot) {
  for (const ProcessView& view : snapshot.processes) {
    Process& process = process_of(view);
    for (const CommunicatorView& communicator : view.communicators)
      for (const PendingView& pending : communicator.pending)
        add_pending(process, view, communicator, pending, snapshot.now);
  }
}

Tracer::Process& Tracer::process_of(const ProcessView& view) {
  const auto [found, is_new] = processes_.try_emplace(view.file);
  Process& process = found->second;
  if (is_new) {
    process.pid = numbers_.next();
    process.place = fmt::format("on {}, process {}", view.host, view.pid);
    if (view.communicators.empty()) file_.name(process.pid, 0, fmt::format("a process {}", process.place), 0);
    if (!view.clock_error) unsure_.push_back(fmt::format("process {} on {}", view.pid, view.host));
  }
  // Once: an axis that moves would tear apart what belongs together.
  if (view.clock_error && !process.clock_told) {
    process.clock_told = true;
    process.offset = view.clock_offset;
    file_.write({{"ph", "M"},
                 {"name", "process_labels"},
                 {"pid", process.pid},
                 {"args", {{"labels", fmt::format("clock within {:.1f} us", 1e-3 * *view.clock_error)}}}});
  }
  return process;
}

void Tracer::name_rank(const Process& process, std::uint32_t pid, int rank) {
  file_.name(pid, 0, fmt::format("rank {} {}", rank, process.place), rank);
  ++ranks_;
}

Tracer::CommunicatorTracks& Tracer::communicator_of(Process& process, const CommunicatorView& view) {
  const auto [found, is_new] = process.communicators.try_emplace({view.id, view.rank});
  CommunicatorTracks& communicator = found->second;
  if (!is_new) return communicator;
  communicator.pid = process.pid;
  communicator.order = static_cast<int>(process.communicators.size()) - 1;
  const auto same_communicator = [&](const auto& each) {
    return each.first.first == view.id && each.first.second != view.rank;
  };
  if (std::any_of(process.communicators.begin(), process.communicators.end(), same_communicator)) {
    // Ranks are threads: each is drawn as a process of its own.
    communicator.pid = numbers_.next();
    name_rank(process, communicator.pid, view.rank);
  } else if (communicator.order == 0) {
    name_rank(process, process.pid, view.rank);
  } else {
    const std::string name = view.name.empty() ? fmt::format("communicator {}", communicator.order) : view.name;
    communicator.prefix = fmt::format("{} (rank {} of {}): ", name, view.rank, view.size);
  }
  return communicator;
}

TraceTrack& Tracer::track_of(CommunicatorTracks& communicator, const std::string& name, int order) {
  const int placed = order + communicator.order * kOrdersOfCommunicator;
  return communicator.tracks.try_emplace(name, communicator.pid, communicator.prefix + name, placed).first->second;
}

TraceTrack& Tracer::operation_track(CommunicatorTracks& communicator, const OperationView& operation) {
  if (!is_end(operation)) return track_of(communicator, "operations", kOperations);
  return track_of(communicator, fmt::format("{} {}", operation.sends ? "sends to" : "receives from", operation.root),
                  kOperations + 1);
}

void Tracer::add_operations(Process& process, const CommunicatorView& view) {
  CommunicatorTracks& communicator = communicator_of(process, view);
  read(communicator.operations, view.operations, &TraceCounts::operations,
       [&](const OperationView& operation) { add_operation(process, communicator, view, operation); });
}

void Tracer::add_operation(Process& process, CommunicatorTracks& communicator, const CommunicatorView& view,
                           const OperationView& operation) {
  const TimeSpan whole = span(process, operation.entered, operation.done);
  const SlicePosition place = operation_track(communicator, operation).place(whole, numbers_, file_);
  const std::int64_t met =
      std::clamp(operation.waited > 0 ? at(process, operation.met()) : place.span.from, place.span.from, place.span.to);
  TraceEvent arguments = arguments_of(view, operation);
  arguments["waited_us"] = trace_microseconds(met - place.span.from);
  if (operation.waited_for >= 0) arguments["waited_most_for"] = operation.waited_for;
  slice(place, title_of(operation), "operation", std::move(arguments));
  if (met > place.span.from)
    slice({place.pid, place.tid, {place.span.from, met}}, "waiting for others", "waiting", TraceEvent::object());
  if (!is_end(operation))
    arrows_.add(
        {view.id, operation.number, view.size, view.rank, place.pid, place.tid, place.span.from, met, place.span.to});
}

void Tracer::add_steps(Process& process, const CommunicatorView& view) {
  CommunicatorTracks& communicator = communicator_of(process, view);
  read(communicator.steps, view.steps, &TraceCounts::steps, [&](const StepView& step) {
    TraceTrack& track = track_of(communicator, fmt::format("worker {}", step.worker), kWorkersFrom + step.worker);
    const SlicePosition place = track.place(span(process, step.begun, step.done), numbers_, file_);
    slice(place, fmt::format("step {}, tile {}", step.step, step.tile), "step", {{"operation", step.operation}});
  });
}

void Tracer::add_chunks(Process& process, const LaneView& view) {
  LaneTrack& lane = process.lanes[view.slot];
  if (const std::string name = lane_name(view); name != lane.name) {
    lane = {name, {}, TraceTrack(process.pid, name, kLanesFrom + static_cast<int>(view.slot)), 0};
  }
  const auto count = [&](std::int64_t when, double rate) {
    file_.write({{"ph", "C"},
                 {"name", lane.name},
                 {"pid", process.pid},
                 {"ts", trace_microseconds(when)},
                 {"args", {{"MB/s", rate / 1e6}}}});
  };
  read(lane.chunks, view.chunks, &TraceCounts::chunks, [&](const ChunkView& chunk) {
    const SlicePosition place = lane.track->place(span(process, chunk.posted, chunk.done), numbers_, file_);
    slice(place, fmt::format("{} B", chunk.bytes), "chunk",
          {{"operation", chunk.operation},
           {"receiver_late_us", chunk.receiver_late * 1e6},
           {"starved_us", chunk.starved * 1e6},
           {"window_MB/s", chunk.rate / 1e6}});
    // A rate says nothing of the time in which there was nothing to send.
    if (lane.last_done != 0 && at(process, chunk.posted) > lane.last_done + kIdle)
      count(lane.last_done + kMicrosecond, 0);
    lane.last_done = std::max(lane.last_done, at(process, chunk.done));
    count(at(process, chunk.done), chunk.rate);
  });
}

void Tracer::add_events(Process& process, const ProcessView& view) {
  if (!process.event_track) process.event_track.emplace(process.pid, "events", kEvents);
  read(process.events, view.events, &TraceCounts::events, [&](const EventView& event) {
    const std::int64_t when = at(process, event.at);
    // One that tells of something that lasted ends when it is told.
    const TimeSpan lasted{event.began > 0 ? at(process, event.began) : when, when};
    const SlicePosition place = process.event_track->place(lasted, numbers_, file_);
    if (event.began > 0) return slice(place, title_of(event), "event", arguments_of(event));
    file_.write({{"ph", "i"},
                 {"s", "t"},
                 {"name", title_of(event)},
                 {"cat", "event"},
                 {"pid", place.pid},
                 {"tid", place.tid},
                 {"ts", trace_microseconds(place.span.from)},
                 {"args", arguments_of(event)}});
  });
}

void Tracer::add_pending(Process& process, const ProcessView& owner, const CommunicatorView& view,
                         const PendingView& pending, double now) {
  CommunicatorTracks& communicator = communicator_of(process, view);
  const OperationView& operation = pending.operation;
  const TimeSpan whole = span(process, operation.entered, std::max(now, operation.entered));
  const SlicePosition place = operation_track(communicator, operation).place(whole, numbers_, file_);
  TraceEvent arguments = arguments_of(view, operation);
  arguments["unfinished"] = true;
  if (pending.awaited >= 0) arguments["waits_for_rank"] = pending.awaited;
  if (pending.awaited_step >= 0)
    arguments["waits_in"] = fmt::format("worker {} step {}", pending.awaited_worker, pending.awaited_step);
  for (std::size_t i = 0; i < pending.workers.size(); ++i)
    arguments[fmt::format("worker {}", i)] =
        fmt::format("tile {}, {} steps done", pending.workers[i].tile, pending.workers[i].steps_done);
  const char* const how = owner.alive ? "under way" : owner.ended ? "left behind" : "killed in it";
  slice(place, fmt::format("{} ({})", title_of(operation), how), "operation", std::move(arguments));
  const auto within = [&](double from, double to) {
    return SlicePosition{place.pid,
                         place.tid,
                         {std::clamp(at(process, from), place.span.from, place.span.to),
                          std::clamp(at(process, to), place.span.from, place.span.to)}};
  };
  // The wait it is in is drawn where it is; those that are over as if they had come first.
  const bool still_waits = pending.awaited >= 0 && pending.awaited_since <= operation.met();
  slice(within(operation.entered, operation.waited > 0 && !still_waits ? operation.met() : now), "waiting for others",
        "waiting", TraceEvent::object());
  if (pending.awaited >= 0)
    slice(within(pending.awaited_since, now), fmt::format("waiting for rank {}", pending.awaited), "waiting",
          TraceEvent::object());
}

TraceEvent Tracer::about() const {
  const auto counts = [](const TraceCounts& each) {
    return TraceEvent{
        {"operations", each.operations}, {"steps", each.steps}, {"chunks", each.chunks}, {"events", each.events}};
  };
  return {{"made_by", "tutti trace"}, {"written", counts(written_)}, {"missed", counts(missed_)}};
}

}  // namespace tutti::monitor
