// Faults that telemetry says outright: ranks that have not come, data that was corrupted, ranks nobody sees, and faults
// that come back.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "diagnosis/findings.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::diagnosis {
namespace {

/// Chunks that were corrupted between these two, or between one and several others (-1).
Verdict corruption_of(const Telemetry& telemetry, int process, int peer, int path, bool sends, std::uint64_t chunks) {
  Verdict verdict;
  verdict.fault = FaultClass::corrupted;
  verdict.confidence = 0.95;
  Suspect suspect = suspect_of(telemetry, process, 0.95);
  suspect.path = path;
  suspect.peer = peer < 0 ? -1 : telemetry.processes[static_cast<std::size_t>(peer)].rank;
  verdict.suspects = {suspect};
  verdict.evidence = {{"chunks", static_cast<double>(chunks)}};
  const std::string on = path < 0 ? "several paths" : fmt::format("path {}", path);
  const std::string to = peer < 0 ? (sends ? "to several ranks" : "from several ranks")
                                  : fmt::format("to rank {}, on {}", suspect.peer, on);
  verdict.text = fmt::format("{} chunk{} that {} {} {} arrived other than sent", chunks, chunks == 1 ? "" : "s",
                             text_of(suspect), sends ? "sent" : "received", to);
  return verdict;
}

/// One fact for each pair; of several paths: -1.
std::vector<CorruptionFacts> by_pair(const std::vector<CorruptionFacts>& all) {
  std::map<std::pair<int, int>, CorruptionFacts> pairs;
  for (const CorruptionFacts& each : all) {
    const auto [place, is_new] = pairs.try_emplace({each.source, each.destination}, each);
    if (is_new) continue;
    place->second.chunks += each.chunks;
    if (place->second.path != each.path) place->second.path = -1;
  }
  std::vector<CorruptionFacts> facts;
  for (const auto& [pair, each] : pairs) facts.push_back(each);
  return facts;
}

/// The path that several pairs have in common which have no process in common; -1: there is none.
int common_path(const std::vector<CorruptionFacts>& pairs) {
  constexpr std::size_t kLeastPairs = 3;
  if (pairs.size() < kLeastPairs) return -1;
  const auto is_on_it = [&](const CorruptionFacts& each) { return each.path == pairs.front().path; };
  if (!std::all_of(pairs.begin(), pairs.end(), is_on_it)) return -1;
  for (const int process : {pairs.front().source, pairs.front().destination})
    if (std::all_of(pairs.begin(), pairs.end(),
                    [&](const auto& each) { return each.source == process || each.destination == process; }))
      return -1;
  return pairs.front().path;
}

Verdict corruption_of_path(const std::vector<CorruptionFacts>& pairs, int path) {
  Verdict verdict;
  verdict.fault = FaultClass::corrupted;
  verdict.confidence = 0.95;
  Suspect suspect;
  suspect.path = path;
  suspect.confidence = 0.95;
  verdict.suspects = {suspect};
  std::uint64_t chunks = 0;
  for (const CorruptionFacts& each : pairs) chunks += each.chunks;
  verdict.evidence = {{"chunks", static_cast<double>(chunks)}, {"pairs", static_cast<double>(pairs.size())}};
  verdict.text = fmt::format(
      "{} chunks on path {} arrived other than sent, between {} pairs of processes that have no end "
      "in common",
      chunks, path, pairs.size());
  return verdict;
}

/// Whether a fault of this class may come from the host, so that two ranks of one host have the same one.
bool may_be_of_the_host(FaultClass fault) {
  return fault == FaultClass::crashed || fault == FaultClass::transfer_stuck || fault == FaultClass::corrupted;
}

bool stops_a_job(FaultClass fault) {
  return may_be_of_the_host(fault) || fault == FaultClass::missing_at_start || fault == FaultClass::not_entered ||
         fault == FaultClass::mismatched_call || fault == FaultClass::deadlocked;
}

bool is_suspected(const std::vector<Verdict>& verdicts, int process) {
  return std::any_of(verdicts.begin(), verdicts.end(), [&](const Verdict& verdict) {
    return std::any_of(verdict.suspects.begin(), verdict.suspects.end(),
                       [&](const Suspect& each) { return each.process == process; });
  });
}

}  // namespace

Suspect suspect_of(const Telemetry& telemetry, int process, double confidence) {
  Suspect suspect;
  suspect.process = process;
  suspect.confidence = confidence;
  if (process < 0) return suspect;
  const ProcessFacts& facts = telemetry.processes[static_cast<std::size_t>(process)];
  suspect.rank = facts.rank;
  suspect.pid = facts.pid;
  suspect.host = facts.host;
  return suspect;
}

/// A rank that has not come. If its process is known, it waits, but the others have not seen it come.
Suspect missing_rank(const Telemetry& telemetry, const GatheringFacts& gathering, int rank, double confidence) {
  const auto& waiting = gathering.waiting;
  const auto found = std::find_if(waiting.begin(), waiting.end(), [&](const auto& each) { return each.rank == rank; });
  Suspect suspect = suspect_of(telemetry, found == waiting.end() ? -1 : found->process, confidence);
  suspect.rank = rank;
  return suspect;
}

void find_missing_at_start(const Telemetry& telemetry, const DiagnosisOptions& options,
                           std::vector<Verdict>& verdicts) {
  for (const GatheringFacts& gathering : telemetry.gatherings) {
    const double seconds = telemetry.now - gathering.began;
    if (seconds < options.warm_up_patience || static_cast<int>(gathering.joined.size()) >= gathering.size) continue;
    Verdict verdict;
    verdict.fault = FaultClass::missing_at_start;
    // Whoever is not seen may be on a host of which nothing is known.
    verdict.confidence = gathering.whole ? 0.95 : 0.5;
    verdict.since = gathering.began;
    std::vector<int> missing;
    auto next = gathering.joined.begin();
    for (int rank = 0; rank < gathering.size; ++rank)
      if (next != gathering.joined.end() && *next == rank)
        ++next;
      else
        missing.push_back(rank);
    const double confidence = gathering.whole ? 0.95 : 0.5 / static_cast<double>(missing.size());
    for (const int rank : missing) verdict.suspects.push_back(missing_rank(telemetry, gathering, rank, confidence));
    verdict.evidence = {{"joined", static_cast<double>(gathering.joined.size())},
                        {"expected", static_cast<double>(gathering.size)},
                        {"waited_seconds", seconds}};
    const bool wait_in_vain = std::all_of(verdict.suspects.begin(), verdict.suspects.end(),
                                          [](const Suspect& each) { return each.process >= 0; });
    verdict.text =
        fmt::format("{} of {} ranks have waited for {} to make {}; {} {}{}", gathering.joined.size(), gathering.size,
                    lasting(seconds), gathering.name.empty() ? "a communicator" : gathering.name,
                    text_of(verdict.suspects), missing.size() == 1 ? "is" : "are",
                    wait_in_vain      ? " waiting, too, but cannot reach the others"
                    : gathering.whole ? " missing"
                                      : " not seen here");
    verdicts.push_back(std::move(verdict));
  }
}

void find_corruption(const Telemetry& telemetry, std::vector<Verdict>& verdicts) {
  const std::vector<CorruptionFacts> pairs = by_pair(telemetry.corruptions);
  if (const int path = common_path(pairs); path >= 0) return verdicts.push_back(corruption_of_path(pairs, path));
  std::map<int, std::set<int>> sent_to, received_from;
  for (const CorruptionFacts& each : pairs) {
    sent_to[each.source].insert(each.destination);
    received_from[each.destination].insert(each.source);
  }
  std::map<std::pair<int, bool>, std::uint64_t> ends;  // process, whether it sends
  for (const CorruptionFacts& each : pairs) {
    const std::size_t receivers = sent_to[each.source].size(), senders = received_from[each.destination].size();
    if (receivers > 1 || senders > 1)
      ends[receivers >= senders ? std::pair(each.source, true) : std::pair(each.destination, false)] += each.chunks;
    else
      verdicts.push_back(corruption_of(telemetry, each.source, each.destination, each.path, true, each.chunks));
  }
  for (const auto& [end, chunks] : ends)
    verdicts.push_back(corruption_of(telemetry, end.first, -1, -1, end.second, chunks));
}

void find_unobserved(const Telemetry& telemetry, std::vector<Verdict>& verdicts) {
  std::map<std::string, std::vector<int>> hosts;
  for (std::size_t i = 0; i < telemetry.processes.size(); ++i)
    if (telemetry.processes[i].state == ProcessState::unreachable && !is_suspected(verdicts, static_cast<int>(i)))
      hosts[telemetry.processes[i].host].push_back(static_cast<int>(i));
  for (const auto& [host, processes] : hosts) {
    Verdict verdict;
    verdict.fault = FaultClass::unobserved;
    verdict.confidence = 0.9;
    for (const int process : processes) verdict.suspects.push_back(suspect_of(telemetry, process, 0.9));
    verdict.evidence = {{"ranks", static_cast<double>(processes.size())}};
    verdict.text = fmt::format("nothing is known of {}{}: the agent there does not answer, and nobody waits for {}",
                               text_of(verdict.suspects), host.empty() ? "" : " on " + host,
                               processes.size() == 1 ? "it" : "them");
    verdicts.push_back(std::move(verdict));
  }
}

void find_repeated(const Telemetry& telemetry, std::vector<Verdict>& verdicts) {
  const std::size_t count = verdicts.size();
  // Where all ranks are on one host, all their faults are, and say nothing of it.
  const auto& processes = telemetry.processes;
  const bool has_hosts = std::any_of(processes.begin(), processes.end(),
                                     [&](const auto& each) { return each.host != processes.front().host; });
  for (std::size_t i = 0; i < count; ++i) {
    if (verdicts[i].suspects.empty() || !stops_a_job(verdicts[i].fault)) continue;
    const Suspect& first = verdicts[i].suspects.front();
    const auto times = std::count_if(telemetry.past.begin(), telemetry.past.end(), [&](const PastFault& past) {
      if (past.fault != verdicts[i].fault) return false;
      const bool same_host =
          has_hosts && may_be_of_the_host(past.fault) && !past.host.empty() && past.host == first.host;
      const bool same_job = past.command.empty() || past.command == telemetry.command;
      const bool same_place =
          same_job && past.rank == first.rank && !past.place.empty() && past.place == verdicts[i].place;
      return same_host || same_place;
    });
    if (times == 0) continue;
    Verdict verdict;
    verdict.fault = FaultClass::repeated;
    verdict.confidence = 0.9;
    verdict.suspects = {first};
    verdict.place = verdicts[i].place;
    verdict.since = verdicts[i].since;
    verdict.evidence = {{"times_before", static_cast<double>(times)}};
    verdict.text = fmt::format("the same as {} time{} before, {}, at {}: starting again does not help", times,
                               times == 1 ? "" : "s", name_of(verdicts[i].fault), text_of(first));
    verdicts.push_back(std::move(verdict));
  }
}

}  // namespace tutti::diagnosis
