// Transfers that are slow, and lanes that are lost.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "diagnosis/delay_fit.hpp"
#include "diagnosis/findings.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::diagnosis {
namespace {

using Kind = SlowPart::Kind;

constexpr double kSure = 0.97;
constexpr double kLikely = 0.8;
constexpr double kOneEndOpen = 0.5;    // what cannot be told from a slow end
constexpr double kSaysItsLane = 0.6;   // a lane's own word, with nothing to compare it with
constexpr double kNearlyAsSlow = 0.8;  // of the logarithm of the slowest

int rank_of(const Telemetry& telemetry, int process) {
  return process < 0 ? -1 : telemetry.processes[static_cast<std::size_t>(process)].rank;
}

std::string path_text(int path) { return path < 0 ? "" : fmt::format(" on path {}", path); }

Suspect end_of(const Telemetry& telemetry, int process, int path, double confidence) {
  Suspect suspect = suspect_of(telemetry, process, confidence);
  suspect.path = path;
  return suspect;
}

/// A link and, where these are not cleared by what else they do, its ends.
void blame_link(const Telemetry& telemetry, const SlowPart& part, Verdict& verdict) {
  verdict.fault = FaultClass::slow_link;
  const bool clear = part.sender_cleared && part.receiver_cleared;
  verdict.confidence = kSure;
  const double link = clear ? kSure : part.sender_cleared || part.receiver_cleared ? kLikely : kOneEndOpen;
  Suspect suspect = end_of(telemetry, part.source, part.path, link);
  suspect.peer = rank_of(telemetry, part.destination);
  verdict.suspects = {suspect};
  const int open = (part.sender_cleared ? 0 : 1) + (part.receiver_cleared ? 0 : 1);
  if (!part.sender_cleared)
    verdict.suspects.push_back(end_of(telemetry, part.source, part.path, (kSure - link) / open));
  if (!part.receiver_cleared)
    verdict.suspects.push_back(end_of(telemetry, part.destination, part.path, (kSure - link) / open));
  verdict.text = fmt::format("what {} sends to rank {}{} takes {:.2f} times as long as usual", text_of(suspect),
                             suspect.peer, path_text(part.path), part.factor);
  if (!clear) verdict.text += "; that may also be one of its ends, which have nothing else to compare with";
}

/// Of all that a process sends, or receives.
void blame_end(const Telemetry& telemetry, const SlowPart& part, bool sends, Verdict& verdict) {
  verdict.fault = sends ? FaultClass::slow_sender : FaultClass::slow_receiver;
  verdict.suspects = {end_of(telemetry, sends ? part.source : part.destination, part.path, kSure)};
  verdict.text =
      fmt::format("what {} {}{} takes {:.2f} times as long as usual, {} all of {} peers", text_of(verdict.suspects),
                  sends ? "sends" : "receives", path_text(part.path), part.factor, sends ? "to" : "from", part.entries);
}

Verdict verdict_of(const Telemetry& telemetry, const SlowPart& part) {
  Verdict verdict;
  verdict.confidence = kSure;
  verdict.evidence = {{"times_usual", part.factor},
                      {"links_compared", static_cast<double>(part.entries)},
                      {"standard_errors", part.significance}};
  switch (part.kind) {
    case Kind::path: {
      verdict.fault = FaultClass::slow_path;
      Suspect suspect;
      suspect.path = part.path;
      suspect.confidence = kSure;
      verdict.suspects = {suspect};
      verdict.text = fmt::format("path {} takes {:.2f} times as long as the others, whoever uses it ({} links)",
                                 part.path, part.factor, part.entries);
      break;
    }
    case Kind::sender:
    case Kind::sender_port:
      blame_end(telemetry, part, true, verdict);
      break;
    case Kind::receiver:
    case Kind::receiver_port:
      blame_end(telemetry, part, false, verdict);
      break;
    case Kind::link:
    case Kind::path_of_link:
      blame_link(telemetry, part, verdict);
  }
  return verdict;
}

/// A process that sends and receives slowly has one fault: its port, or its host.
void merge_directions(const std::vector<SlowPart>& parts, std::size_t index, std::vector<bool>& taken,
                      Verdict& verdict) {
  const SlowPart& part = parts[index];
  if (part.kind != Kind::sender && part.kind != Kind::sender_port) return;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const SlowPart& other = parts[i];
    const bool receives = other.kind == Kind::receiver || other.kind == Kind::receiver_port;
    if (!receives || other.destination != part.source || other.path != part.path || other.local != part.local) continue;
    taken[i] = true;
    verdict.evidence.push_back({"times_usual_receiving", other.factor});
    verdict.text += fmt::format("; what it receives, {:.2f} times: its port, or its host", other.factor);
  }
}

/// A lane that is lost, or both of its ends' views of it.
struct LaneLosses {
  int one = -1, other = -1;  // processes; the other may not be known
  const LaneFacts* lane = nullptr;
};

/// Lanes that are lost, by what they have in common: the port at which several of them end, else each by itself.
class LostLanes {
 public:
  LostLanes(const Telemetry& telemetry, FaultClass fault) : telemetry_(telemetry), fault_(fault) {}

  void add(const LaneFacts& lane) {
    const bool known = std::any_of(lanes_.begin(), lanes_.end(), [&](const LaneLosses& each) {
      return each.one == lane.peer && each.other == lane.process && each.lane->path == lane.path;
    });
    if (!known) lanes_.push_back({lane.process, lane.peer, &lane});
  }

  void tell(std::vector<Verdict>& verdicts) {
    std::map<std::pair<int, int>, int> ends;  // lanes of each process and path
    for (const LaneLosses& each : lanes_) {
      ++ends[{each.one, each.lane->path}];
      if (each.other >= 0) ++ends[{each.other, each.lane->path}];
    }
    std::vector<bool> told(lanes_.size());
    std::vector<std::pair<int, std::pair<int, int>>> most;
    for (const auto& [end, count] : ends)
      if (count > 1) most.emplace_back(-count, end);
    std::sort(most.begin(), most.end());
    for (const auto& [count, end] : most) tell_port(end.first, end.second, told, verdicts);
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (!told[i]) verdicts.push_back(verdict_on(lanes_[i].one, lanes_[i].other, *lanes_[i].lane, 1));
  }

 private:
  void tell_port(int process, int path, std::vector<bool>& told, std::vector<Verdict>& verdicts) {
    int count = 0;
    const LaneFacts* first = nullptr;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const LaneLosses& each = lanes_[i];
      if (told[i] || each.lane->path != path || (each.one != process && each.other != process)) continue;
      ++count;
      if (first == nullptr) first = each.lane;
    }
    if (count < 2) return;
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      if (lanes_[i].lane->path == path && (lanes_[i].one == process || lanes_[i].other == process)) told[i] = true;
    verdicts.push_back(verdict_on(process, -1, *first, count));
  }

  Verdict verdict_on(int process, int peer, const LaneFacts& lane, int lanes) const {
    Verdict verdict;
    verdict.fault = fault_;
    verdict.confidence = kSure;
    verdict.since = lane.since;
    Suspect suspect = end_of(telemetry_, process, lane.path, kSure);
    suspect.peer = rank_of(telemetry_, peer);
    verdict.suspects = {suspect};
    verdict.evidence = {{"losses", static_cast<double>(lane.losses)}, {"lanes", static_cast<double>(lanes)}};
    const std::string to =
        lanes > 1 ? fmt::format(", {} lanes", lanes)
                  : fmt::format(" to {}", suspect.peer >= 0 ? fmt::format("rank {}", suspect.peer) : lane.peer_name);
    const std::string what = fmt::format("path {} of {}{}", lane.path, text_of(suspect), to);
    verdict.text = fault_ == FaultClass::flapping
                       ? fmt::format("{} was lost and came back {} times", what, lane.losses)
                       : fmt::format("{} is lost since {}: {}", what, lasting(telemetry_.now - lane.since),
                                     lane.reason.empty() ? "no reason is known" : lane.reason);
    return verdict;
  }

  const Telemetry& telemetry_;
  FaultClass fault_;
  std::vector<LaneLosses> lanes_;
};

/// As far as is known.
bool is_running(const Telemetry& telemetry, int process) {
  if (process < 0) return true;
  const ProcessState state = telemetry.processes[static_cast<std::size_t>(process)].state;
  return state == ProcessState::running || state == ProcessState::elsewhere;
}

void find_lost_lanes(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts) {
  LostLanes flapping(telemetry, FaultClass::flapping), down(telemetry, FaultClass::path_down);
  for (const LaneFacts& lane : telemetry.lanes) {
    // Who is gone takes all lanes along.
    if (!is_running(telemetry, lane.process) || !is_running(telemetry, lane.peer)) continue;
    if (lane.corrupted) continue;  // which is told
    if (lane.losses >= options.least_losses)
      flapping.add(lane);
    else if (lane.state == LaneFacts::State::down)
      down.add(lane);
  }
  flapping.tell(verdicts);
  down.tell(verdicts);
}

/// Whether a lane that flaps explains that this is slow.
bool is_explained(const Telemetry& telemetry, const DiagnosisOptions& options, const SlowPart& part) {
  if (part.kind == Kind::path) return false;
  return std::any_of(telemetry.lanes.begin(), telemetry.lanes.end(), [&](const LaneFacts& lane) {
    if (lane.losses < options.least_losses || (part.path >= 0 && lane.path != part.path)) return false;
    const auto is_end = [&](int process) { return process >= 0 && (process == lane.process || process == lane.peer); };
    return is_end(part.source) || is_end(part.destination);
  });
}

bool is_between_two(const SlowPart& part) {
  return part.kind == Kind::path_of_link && !part.sender_cleared && !part.receiver_cleared;
}

/// Whether a slower path between the same two processes explains that this one is slow: load moves from the one to the
/// other, which acknowledgements of both directions take, too. With no other process to compare with, only the slowest
/// of them is told, and what is nearly as slow.
bool is_side_effect(const std::vector<SlowPart>& parts, const SlowPart& part) {
  if (!is_between_two(part)) return false;
  return std::any_of(parts.begin(), parts.end(), [&](const SlowPart& other) {
    const bool same = other.source == part.source && other.destination == part.destination;
    const bool reversed = other.source == part.destination && other.destination == part.source;
    return is_between_two(other) && (same || reversed) &&
           std::log(part.factor) < kNearlyAsSlow * std::log(other.factor);
  });
}

void find_congested_lanes(const Telemetry& telemetry, std::vector<Verdict>& verdicts) {
  if (!telemetry.delays.empty()) return;
  for (const LaneFacts& lane : telemetry.lanes) {
    if (!lane.dropped || !lane.congested || lane.rate <= 0) continue;
    Verdict verdict;
    verdict.fault = FaultClass::slow_link;
    verdict.confidence = kSaysItsLane;
    Suspect suspect = end_of(telemetry, lane.process, lane.path, kSaysItsLane);
    suspect.peer = rank_of(telemetry, lane.peer);
    verdict.suspects = {suspect};
    verdict.evidence = {{"times_usual", lane.usual / lane.rate}};
    verdict.text = fmt::format("what {} sends to {}{} takes {:.2f} times as long as usual", text_of(suspect),
                               suspect.peer >= 0 ? fmt::format("rank {}", suspect.peer) : lane.peer_name,
                               path_text(lane.path), lane.usual / lane.rate);
    verdicts.push_back(std::move(verdict));
  }
}

}  // namespace

void find_slow_transfers(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts) {
  find_lost_lanes(telemetry, options, verdicts);
  find_congested_lanes(telemetry, verdicts);
  const std::vector<SlowPart> parts =
      fit_delays(telemetry.delays, static_cast<int>(telemetry.processes.size()), options.least_slowdown);
  std::vector<bool> taken(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (is_explained(telemetry, options, parts[i]) || is_side_effect(parts, parts[i])) taken[i] = true;
    if (taken[i]) continue;
    Verdict verdict = verdict_of(telemetry, parts[i]);
    merge_directions(parts, i, taken, verdict);
    verdicts.push_back(std::move(verdict));
  }
}

}  // namespace tutti::diagnosis
