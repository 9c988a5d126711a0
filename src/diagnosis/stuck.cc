// What stands still, and because of whom.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <span>

#include "diagnosis/findings.hpp"
#include "diagnosis/stuck_operations.hpp"
#include "diagnosis/stuck_transfer.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::diagnosis {
namespace {

constexpr std::size_t kNobody = ~std::size_t{0};
constexpr std::size_t kTold = 8;  // operations of a circle in its sentence

class StuckJudge {
 public:
  StuckJudge(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts)
      : telemetry_(telemetry),
        verdicts_(verdicts),
        operations_(stuck_operations(telemetry, options)),
        cause_(operations_.size(), kNobody) {}

  void judge();

 private:
  /// A verdict on what holds an operation up directly.
  struct StuckCause {
    Verdict verdict;
    bool overdue = false;  // something that it holds up is
  };

  const CommunicatorFacts& communicator_of(const StuckOperation& operation) const {
    return telemetry_.communicators[operation.communicator];
  }
  ProcessState state_of(const StuckOperation& operation, std::size_t member) const;

  void find_cause(std::size_t index);
  bool blame_calls(std::size_t index);
  bool blame_processes(std::size_t index, ProcessState state, FaultClass fault);
  bool blame_missing(std::size_t index);
  std::string missing_text(const StuckOperation& operation, Verdict& verdict) const;
  void blame_unknown(std::size_t index);
  void spread_causes();
  void find_deadlocks();
  void add_deadlock(const std::vector<std::size_t>& circle);
  void add_cause(std::size_t index, Verdict verdict);
  void tell(Verdict verdict, std::vector<std::uint64_t> affected, bool overdue);
  std::vector<Suspect> suspects_of(const StuckOperation& operation, const std::vector<std::size_t>& members,
                                   double confidence) const;

  const Telemetry& telemetry_;
  std::vector<Verdict>& verdicts_;  // so far: deaths and mismatches
  std::vector<StuckOperation> operations_;
  std::vector<std::size_t> cause_;  // of each operation
  std::vector<StuckCause> causes_;
  std::map<std::string, std::size_t> by_key_;
};

ProcessState StuckJudge::state_of(const StuckOperation& operation, std::size_t member) const {
  const MemberFacts& facts = communicator_of(operation).members[member];
  if (facts.process < 0) return ProcessState::elsewhere;
  return telemetry_.processes[static_cast<std::size_t>(facts.process)].state;
}

std::vector<Suspect> StuckJudge::suspects_of(const StuckOperation& operation, const std::vector<std::size_t>& members,
                                             double confidence) const {
  std::vector<Suspect> suspects;
  for (const std::size_t member : members) {
    const MemberFacts& facts = communicator_of(operation).members[member];
    Suspect suspect = suspect_of(telemetry_, facts.process, confidence);
    if (suspect.rank < 0) suspect.rank = facts.rank;
    suspects.push_back(suspect);
  }
  return suspects;
}

/// The same cause in several communicators is one verdict.
void StuckJudge::add_cause(std::size_t index, Verdict verdict) {
  const StuckOperation& operation = operations_[index];
  const auto [place, is_new] = by_key_.try_emplace(key_of(verdict), causes_.size());
  if (is_new) {
    verdict.since = operation.since;
    verdict.evidence.push_back({"still_seconds", operation.still});
    verdict.evidence.push_back({"waiting_ranks", static_cast<double>(operation.inside.size())});
    causes_.push_back({std::move(verdict), false});
  }
  Verdict& known = causes_[place->second].verdict;
  known.since = std::min(known.since, operation.since);
  if (cause_[index] == kNobody) cause_[index] = place->second;
}

bool StuckJudge::blame_calls(std::size_t index) {
  const std::uint64_t id = communicator_of(operations_[index]).id;
  for (const Verdict& each : verdicts_) {
    if (each.fault != FaultClass::mismatched_call || each.communicators.empty() || each.communicators[0] != id)
      continue;
    Verdict verdict = each;
    add_cause(index, std::move(verdict));
    return true;
  }
  return false;
}

bool StuckJudge::blame_processes(std::size_t index, ProcessState state, FaultClass fault) {
  const StuckOperation& operation = operations_[index];
  std::vector<std::size_t> culprits;
  for (const auto* members : {&operation.inside, &operation.missing})
    for (const std::size_t member : *members)
      if (state_of(operation, member) == state) culprits.push_back(member);
  for (const std::size_t member : culprits) {
    Verdict verdict;
    verdict.fault = fault;
    verdict.place = title_of(operation.call);
    verdict.suspects = suspects_of(operation, {member}, 1);
    verdict.text = fault == FaultClass::crashed
                       ? fmt::format("{} died; {} of {} waits for it", text_of(verdict.suspects), verdict.place,
                                     name_of(communicator_of(operation)))
                       : fmt::format("{} is stopped, by a signal or a debugger; {} of {} has waited for it for {}",
                                     text_of(verdict.suspects), verdict.place, name_of(communicator_of(operation)),
                                     lasting(operation.still));
    add_cause(index, std::move(verdict));
  }
  return !culprits.empty();
}

bool StuckJudge::blame_missing(std::size_t index) {
  const StuckOperation& operation = operations_[index];
  if (operation.free.empty()) return false;
  Verdict verdict;
  verdict.fault = FaultClass::not_entered;
  verdict.place = title_of(operation.call);
  verdict.suspects = suspects_of(operation, operation.free, 1);
  verdict.text = missing_text(operation, verdict);
  add_cause(index, std::move(verdict));
  return true;
}

/// Ranks of which nothing is known may be missing, each of them, unless bytes that do not move say more.
void StuckJudge::blame_unknown(std::size_t index) {
  constexpr double kGuess = 0.5;
  constexpr std::size_t kNamed = 1024;  // of many that may be to blame these stand for all
  const StuckOperation& operation = operations_[index];
  Verdict verdict = judge_transfer(telemetry_, operation);
  if (verdict.confidence <= kGuess) {
    verdict = {};
    verdict.fault = FaultClass::not_entered;
    verdict.confidence = kGuess;
    verdict.place = title_of(operation.call);
    for (const int rank : std::span(operation.unknown).first(std::min(operation.unknown.size(), kNamed))) {
      const MemberFacts* const member = find_member(communicator_of(operation), rank);
      Suspect suspect = suspect_of(telemetry_, member == nullptr ? -1 : member->process,
                                   kGuess / static_cast<double>(operation.unknown.size()));
      if (suspect.rank < 0) suspect.rank = rank;
      verdict.suspects.push_back(suspect);
    }
    verdict.text = missing_text(operation, verdict);
  }
  add_cause(index, std::move(verdict));
}

/// Also says how sure that is.
std::string StuckJudge::missing_text(const StuckOperation& operation, Verdict& verdict) const {
  const CommunicatorFacts& communicator = communicator_of(operation);
  const bool seen = std::all_of(operation.free.begin(), operation.free.end(),
                                [&](std::size_t each) { return is_alive(telemetry_, communicator.members[each]); });
  std::string why;
  if (operation.missing.empty()) {
    why = "out of sight: it has left, or runs on a host that says nothing";
  } else if (!seen) {
    verdict.confidence = 0.7;
    why = "it has left";
  } else {
    const MemberFacts& first = communicator.members[operation.free.front()];
    why = "alive";
    if (first.last_done >= 0) {
      verdict.evidence.push_back({"last_done", static_cast<double>(first.last_done)});
      why += fmt::format(", last done #{}", first.last_done);
      if (first.done_at > 0) why += fmt::format(", {} ago", lasting(telemetry_.now - first.done_at));
    }
  }
  return fmt::format("{} has not entered {} of {} ({}); {} rank{} waited for {}", text_of(verdict.suspects),
                     verdict.place, name_of(communicator), why, operation.inside.size(),
                     operation.inside.size() == 1 ? " has" : "s have", lasting(operation.still));
}

void StuckJudge::find_cause(std::size_t index) {
  if (blame_calls(index)) return;
  const bool died = blame_processes(index, ProcessState::killed, FaultClass::crashed);
  const bool stopped = blame_processes(index, ProcessState::stopped, FaultClass::frozen);
  if (died || stopped) return;
  if (blame_missing(index)) return;
  const StuckOperation& operation = operations_[index];
  if (operation.missing.empty() && operation.unknown.empty()) add_cause(index, judge_transfer(telemetry_, operation));
}

/// What waits for an operation with a known cause has the same one.
void StuckJudge::spread_causes() {
  std::vector<std::vector<std::size_t>> awaited_by(operations_.size());
  for (std::size_t i = 0; i < operations_.size(); ++i)
    for (const HeldUp& each : operations_[i].held_up) awaited_by[each.operation].push_back(i);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < operations_.size(); ++i)
    if (cause_[i] != kNobody) open.push_back(i);
  for (std::size_t next = 0; next < open.size(); ++next)
    for (const std::size_t waiting : awaited_by[open[next]])
      if (cause_[waiting] == kNobody) {
        cause_[waiting] = cause_[open[next]];
        open.push_back(waiting);
      }
}

/// Operations that are left wait for one another in circles.
void StuckJudge::find_deadlocks() {
  std::vector<std::size_t> walk(operations_.size(), kNobody);  // the walk on which each was passed
  for (std::size_t start = 0; start < operations_.size(); ++start) {
    std::vector<std::size_t> passed;
    std::size_t at = start;
    while (at != kNobody && cause_[at] == kNobody && walk[at] == kNobody) {
      walk[at] = start;
      passed.push_back(at);
      const auto& next = operations_[at].held_up;
      const auto open =
          std::find_if(next.begin(), next.end(), [&](const HeldUp& each) { return cause_[each.operation] == kNobody; });
      at = open == next.end() ? kNobody : open->operation;
    }
    if (at == kNobody || cause_[at] != kNobody || walk[at] != start) continue;
    passed.erase(passed.begin(), std::find(passed.begin(), passed.end(), at));
    add_deadlock(passed);
    spread_causes();
  }
}

void StuckJudge::add_deadlock(const std::vector<std::size_t>& circle) {
  Verdict verdict;
  verdict.fault = FaultClass::deadlocked;
  std::string chain;
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const StuckOperation& operation = operations_[circle[i]];
    const std::size_t next = circle[(i + 1) % circle.size()];
    const auto holder = std::find_if(operation.held_up.begin(), operation.held_up.end(),
                                     [&](const HeldUp& each) { return each.operation == next; });
    const int process = communicator_of(operation).members[holder->member].process;
    verdict.suspects.push_back(suspect_of(telemetry_, process, 1));
    if (i >= kTold) continue;
    chain += fmt::format("{}{} of {} waits for rank {}, which is in {} of {}", chain.empty() ? "" : "; ",
                         title_of(operation.call), name_of(communicator_of(operation)), verdict.suspects.back().rank,
                         title_of(operations_[next].call), name_of(communicator_of(operations_[next])));
  }
  verdict.place = title_of(operations_[circle.front()].call);
  verdict.evidence.push_back({"operations_in_circle", static_cast<double>(circle.size())});
  verdict.text = fmt::format("deadlock: {}", chain);
  for (const std::size_t index : circle) add_cause(index, verdict);
}

/// What was told before is told once, with all that suffers from it.
void StuckJudge::tell(Verdict verdict, std::vector<std::uint64_t> affected, bool overdue) {
  const std::string key = key_of(verdict);
  const auto known =
      std::find_if(verdicts_.begin(), verdicts_.end(), [&](const Verdict& each) { return key_of(each) == key; });
  if (known == verdicts_.end()) {
    if (!overdue) return;
    verdict.communicators = std::move(affected);
    verdicts_.push_back(std::move(verdict));
    return;
  }
  for (const std::uint64_t id : affected)
    if (std::find(known->communicators.begin(), known->communicators.end(), id) == known->communicators.end())
      known->communicators.push_back(id);
  if (known->place.empty()) known->place = verdict.place;
}

void StuckJudge::judge() {
  for (std::size_t i = 0; i < operations_.size(); ++i) find_cause(i);
  spread_causes();
  for (std::size_t i = 0; i < operations_.size(); ++i)
    if (cause_[i] == kNobody && operations_[i].missing.empty()) blame_unknown(i);
  spread_causes();
  find_deadlocks();
  std::vector<std::vector<std::uint64_t>> affected(causes_.size());
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    if (cause_[i] == kNobody) continue;
    causes_[cause_[i]].overdue = causes_[cause_[i]].overdue || operations_[i].overdue;
    std::vector<std::uint64_t>& ids = affected[cause_[i]];
    const std::uint64_t id = communicator_of(operations_[i]).id;
    if (ids.empty() || ids.back() != id) ids.push_back(id);
  }
  for (std::size_t i = 0; i < causes_.size(); ++i)
    tell(std::move(causes_[i].verdict), std::move(affected[i]), causes_[i].overdue);
}

}  // namespace

void find_stuck(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts) {
  StuckJudge(telemetry, options, verdicts).judge();
}

}  // namespace tutti::diagnosis
