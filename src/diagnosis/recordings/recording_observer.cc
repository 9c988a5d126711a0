#include "diagnosis/recordings/recording_observer.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/log.hpp"
#include "diagnosis/recordings/recorded_gatherings.hpp"
#include "diagnosis/robust.hpp"
#include "diagnosis/telemetry/telemetry_check.hpp"

namespace tutti::diagnosis {
namespace {

using monitor::LaneView;
using monitor::ProcessView;

constexpr double kLoadWindow = 10;         // seconds over which a lack of cores is averaged
constexpr double kFlapWindow = 300;        // seconds in which losses of a lane count
constexpr double kCorruptionWindow = 300;  // seconds for which a corrupted chunk is told
constexpr double kEnough = 1 << 20;        // bytes for a pace, of one look or several
constexpr double kLongestPace = 2;         // seconds in which a lane sends as much, or it is hardly used
constexpr std::size_t kLooks = 16;         // of which paces are kept
constexpr double kOneLookError = 0.3;      // of the logarithm of a pace that was seen once
constexpr std::size_t kSettled = 8;        // looks, before a pace is what a path can do: the first may be of a burst
constexpr double kLeastError = 0.02;

/// All counters of a rank's part, summed up: whatever moves changes it.
std::uint64_t count_of(const monitor::CommunicatorView& view) {
  std::uint64_t count = view.entered + view.done + view.ends_entered + view.ends_done;
  for (const monitor::PendingView& pending : view.pending)
    for (const monitor::WorkerView& worker : pending.workers)
      count += (std::uint64_t{worker.tile} << 16) + worker.steps_done;
  for (const monitor::LinkView& link : view.links) count += link.posted + link.sent + link.acked;
  return count;
}

int losses_of(const ProcessView& process, const LaneView& lane, double now) {
  return static_cast<int>(std::count_if(process.events.begin(), process.events.end(), [&](const auto& event) {
    return event.kind == monitor::EventKind::lane_down && event.peer == lane.peer &&
           event.lane == static_cast<int>(lane.index) && event.at >= now - kFlapWindow;
  }));
}

bool is_corrupted(const LaneView& lane, double now) {
  return lane.corrupted_at > 0 && lane.corrupted_at >= now - kCorruptionWindow;
}

LaneFacts lane_facts(const SeenProcess& process, const LaneView& view, int peer, double now) {
  LaneFacts lane;
  lane.process = process.index;
  lane.peer = peer;
  lane.peer_name = monitor::peer_of(view);
  lane.name = view.name;
  lane.path = static_cast<int>(view.index);
  // One that is probed for the first time was never there.
  const bool down =
      view.state == "dead" || view.state == "held down" || (view.state == "probing" && !view.reason.empty());
  lane.state = down                      ? LaneFacts::State::down
               : view.state == "suspect" ? LaneFacts::State::suspect
                                         : LaneFacts::State::healthy;
  lane.since = view.since;
  lane.losses = losses_of(*process.view, view, now);
  lane.reason = view.reason;
  lane.rate = view.rate;
  lane.usual = view.usual;
  lane.dropped = view.condition != monitor::Condition::normal;
  lane.congested = lane.dropped && view.cause == monitor::Cause::path_congested;
  lane.corrupted = is_corrupted(view, now);
  return lane;
}

}  // namespace

std::vector<Telemetry> RecordingObserver::observe(const monitor::Snapshot& snapshot,
                                                  const std::map<int, double>& starvation) {
  if (first_look_ == 0) first_look_ = snapshot.now;
  for (const auto& [pid, seconds] : starvation) {
    std::deque<CoreWait>& loads = loads_[pid];
    loads.push_back({snapshot.now, seconds});
    while (loads.front().at < snapshot.now - kLoadWindow) loads.pop_front();
  }
  std::vector<Telemetry> all;
  for (const auto& [job, processes] : jobs_of(snapshot)) {
    Telemetry telemetry;
    telemetry.job = job;
    telemetry.command = processes.front().view->command;
    telemetry.now = snapshot.now;
    telemetry.realtime_offset = snapshot.realtime_offset;
    telemetry.window = snapshot.now - first_look_;
    for (const SeenProcess& process : processes) telemetry.processes.push_back(process_facts(*process.view, job));
    telemetry.communicators = communicator_facts(processes, job, snapshot.now);
    end_waits_.note(processes, snapshot.now, telemetry);
    note_progress(processes, snapshot.now, telemetry);
    note_starvation(starvation, telemetry);
    note_lanes(processes, job, telemetry);
    all.push_back(std::move(telemetry));
  }
  add_gatherings(snapshot, all);
  forget_what_is_gone(snapshot, starvation);
  // Recordings are files that users own: what does not hold together is not judged.
  std::erase_if(all, [](const Telemetry& telemetry) {
    const Status whole = check_telemetry(telemetry);
    if (!whole) log::warn("job {:016x} is left out: {}", telemetry.job, whole.error().message);
    return !whole;
  });
  return all;
}

void RecordingObserver::forget_what_is_gone(const monitor::Snapshot& snapshot,
                                            const std::map<int, double>& starvation) {
  std::set<std::string> files;
  for (const ProcessView& process : snapshot.processes) files.insert(process.file);
  end_waits_.keep(files);
  std::erase_if(progress_, [&](const auto& each) { return !files.contains(each.first.first); });
  std::erase_if(paces_, [&](const auto& each) { return !files.contains(std::get<0>(each.first)); });
  std::erase_if(loads_, [&](const auto& each) { return !starvation.contains(each.first); });
}

void RecordingObserver::note_progress(const std::vector<SeenProcess>& processes, double now, Telemetry& telemetry) {
  std::map<std::pair<std::uint64_t, int>, double> moved;  // by communicator and process
  for (const SeenProcess& process : processes)
    for (const monitor::CommunicatorView& view : process.view->communicators) {
      const auto [place, is_new] = progress_.try_emplace({process.view->file, view.id});
      SeenCount& progress = place->second;
      const std::uint64_t count = count_of(view);
      if (!is_new && progress.count != count) progress.moved = now;
      progress.count = count;
      moved[{view.id, process.index}] = progress.moved;
    }
  for (CommunicatorFacts& communicator : telemetry.communicators)
    for (MemberFacts& member : communicator.members)
      for (OperationFacts& operation : member.operations) operation.moved = moved[{communicator.id, member.process}];
}

void RecordingObserver::note_starvation(const std::map<int, double>& starvation, Telemetry& telemetry) {
  for (ProcessFacts& process : telemetry.processes) {
    if (!starvation.contains(process.pid)) continue;
    const std::deque<CoreWait>& loads = loads_[process.pid];
    const double elapsed = loads.back().at - loads.front().at;
    if (elapsed > 0) process.starved = std::clamp((loads.back().starved - loads.front().starved) / elapsed, 0.0, 1.0);
  }
}

void RecordingObserver::note_lanes(const std::vector<SeenProcess>& processes, std::uint64_t job, Telemetry& telemetry) {
  std::map<int, int> by_rank;
  for (std::size_t i = 0; i < telemetry.processes.size(); ++i)
    by_rank[telemetry.processes[i].rank] = static_cast<int>(i);
  const bool all_here = is_on_one_host(processes, job);
  for (const SeenProcess& process : processes) {
    // Lanes belong to the job that the process began with.
    if (!process.view->alive || telemetry.processes[static_cast<std::size_t>(process.index)].rank < 0) continue;
    for (const LaneView& lane : process.view->lanes) {
      const auto found = by_rank.find(lane.peer);
      int peer = lane.peer < 0 || found == by_rank.end() ? -1 : found->second;
      // Whoever is not recorded any more has left, and its lanes went with it.
      if (peer < 0 && lane.peer >= 0 && all_here) continue;
      if (peer < 0 && lane.peer >= 0 && reach_ == Reach::job)
        by_rank[lane.peer] = peer = add_elsewhere(lane.peer, telemetry);
      telemetry.lanes.push_back(lane_facts(process, lane, peer, telemetry.now));
      if (peer >= 0) note_pace(process, lane, peer, telemetry);
      if (is_corrupted(lane, telemetry.now)) note_corruption(process, lane, peer, telemetry);
    }
  }
  std::map<int, double> best_rates = best_rates_;
  for (const DelayFacts& delay : telemetry.delays)
    best_rates[delay.path] = std::max(best_rates[delay.path], 1 / delay.relative);
  for (DelayFacts& delay : telemetry.delays) delay.relative *= best_rates[delay.path];
  std::erase_if(telemetry.delays, [](const DelayFacts& delay) { return !std::isfinite(delay.relative); });
  if (reach_ == Reach::job)
    for (const auto& [path, rate] : best_rates) telemetry.paths.push_back({path, rate});
}

/// Returns its index.
int RecordingObserver::add_elsewhere(int rank, Telemetry& telemetry) {
  ProcessFacts& process = telemetry.processes.emplace_back();
  process.rank = rank;
  process.state = ProcessState::elsewhere;
  return static_cast<int>(telemetry.processes.size()) - 1;
}

/// Both ends know of it. The receiver is believed; the sender only if nothing is known of the receiver.
void RecordingObserver::note_corruption(const SeenProcess& process, const LaneView& lane, int peer,
                                        Telemetry& telemetry) {
  const bool is_here = peer >= 0;
  if (!is_here && lane.peer < 0) return;  // nothing to name it by
  if (is_here && lane.corrupted_chunks == 0) return;
  int other = peer;
  if (!is_here) {
    auto& all = telemetry.processes;
    const auto known = std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.rank == lane.peer; });
    other = static_cast<int>(known - all.begin());
    if (known == all.end()) {
      all.emplace_back().rank = lane.peer;
      all.back().state = ProcessState::elsewhere;
    }
  }
  const int path = static_cast<int>(lane.index);
  if (lane.corrupted_chunks != 0) telemetry.corruptions.push_back({other, process.index, path, lane.corrupted_chunks});
  if (is_here || (lane.returned_chunks == 0 && lane.corrupted_chunks != 0)) return;
  const std::uint64_t least = 1;  // a header makes the other end give the lane up, and is not counted here
  telemetry.corruptions.push_back({process.index, other, path, std::max(lane.returned_chunks, least)});
}

/// What the receiver was late for is not the way's fault. The delay is in seconds a byte here.
void RecordingObserver::note_pace(const SeenProcess& process, const LaneView& lane, int peer, Telemetry& telemetry) {
  LanePace& pace = paces_[{process.view->file, lane.slot, lane.epoch}];
  const double busy = lane.busy - lane.receiver_late;
  const double sent = static_cast<double>(lane.done_bytes - std::min(lane.done_bytes, pace.bytes));
  const bool is_enough = pace.at > 0 && sent >= kEnough && busy > pace.busy;
  if (is_enough) {
    pace.seconds_per_byte.push_back(std::log((busy - pace.busy) / sent));
    if (pace.seconds_per_byte.size() > kLooks) pace.seconds_per_byte.pop_front();
  }
  if (is_enough || telemetry.now - pace.at > kLongestPace) {
    pace.at = telemetry.now;
    pace.busy = busy;
    pace.bytes = lane.done_bytes;
  }
  if (pace.seconds_per_byte.empty()) return;
  std::vector<double> values(pace.seconds_per_byte.begin(), pace.seconds_per_byte.end());
  const double count = static_cast<double>(values.size());
  const Center center = center_of(values);
  // A few looks may agree by chance.
  const double error = std::max({kLeastError, center.spread / std::sqrt(count), kOneLookError / count});
  const int path = static_cast<int>(lane.index);
  const double seconds = std::exp(center.median);
  best_rates_[path] = std::max({best_rates_[path], lane.usual, values.size() < kSettled ? 0 : 1 / seconds});
  const auto& processes = telemetry.processes;
  const bool local =
      processes[static_cast<std::size_t>(process.index)].host == processes[static_cast<std::size_t>(peer)].host;
  telemetry.delays.push_back({process.index, peer, path, local, seconds, error});
}

}  // namespace tutti::diagnosis
