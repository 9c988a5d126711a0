// Processes that died, and which of them died first: those that died of the others' deaths are no culprits.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "diagnosis/findings.hpp"
#include "diagnosis/stuck_operations.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::diagnosis {
namespace {

constexpr double kAccused = 0.98;   // those that lived on say so
constexpr double kUnaccused = 0.9;  // it died, and nobody has noticed yet
constexpr double kGone = 0.7;       // it has left without a trace
constexpr double kAllAtOnce = 0.3;  // of a whole job: it was ended from outside

/// What the members of all communicators say of a process.
struct Reputation {
  bool is_broken = false;  // it lived to see the failure
  int accusations = 0;     // by others, which saw it
  std::vector<std::uint64_t> communicators;
  std::string place;  // what it was in
};

class Deaths {
 public:
  Deaths(const Telemetry& telemetry, std::vector<Verdict>& verdicts)
      : telemetry_(telemetry), verdicts_(verdicts), reputations_(telemetry.processes.size()) {}

  void judge();

 private:
  Reputation& of(int process) { return reputations_[static_cast<std::size_t>(process)]; }
  void hear(const CommunicatorFacts& communicator);
  bool is_mismatched(std::uint64_t communicator) const;
  /// Whether the process was told to end: that it went is nobody's fault, nor that others left before it.
  bool was_told_to_end(const MemberFacts& member) const {
    return member.process >= 0 && telemetry_.processes[static_cast<std::size_t>(member.process)].told_to_end;
  }
  void blame(const std::vector<int>& culprits, double confidence, std::size_t killed);
  void blame_ended_from_outside(const std::vector<int>& killed);
  void blame_gone(const CommunicatorFacts& communicator);

  const Telemetry& telemetry_;
  std::vector<Verdict>& verdicts_;
  std::vector<Reputation> reputations_;
};

bool Deaths::is_mismatched(std::uint64_t communicator) const {
  return std::any_of(verdicts_.begin(), verdicts_.end(), [&](const Verdict& each) {
    return each.fault == FaultClass::mismatched_call && each.communicators.front() == communicator;
  });
}

void Deaths::hear(const CommunicatorFacts& communicator) {
  const bool counts = !is_mismatched(communicator.id);
  for (const MemberFacts& member : communicator.members) {
    if (member.process >= 0) {
      Reputation& own = of(member.process);
      own.is_broken = own.is_broken || member.state == MemberFacts::State::broken;
      if (telemetry_.processes[static_cast<std::size_t>(member.process)].state == ProcessState::killed) {
        own.communicators.push_back(communicator.id);
        for (const OperationFacts& each : member.operations)
          if (own.place.empty()) own.place = title_of(each.call);
      }
    }
    if (!counts || member.state != MemberFacts::State::broken || member.accused < 0) continue;
    const MemberFacts* const accused = find_member(communicator, member.accused);
    if (accused == nullptr || accused->process < 0 || accused == &member || was_told_to_end(*accused)) continue;
    ++of(accused->process).accusations;
  }
}

void Deaths::blame(const std::vector<int>& culprits, double confidence, std::size_t killed) {
  for (const int process : culprits) {
    const Reputation& known = of(process);
    Verdict verdict;
    verdict.fault = FaultClass::crashed;
    verdict.confidence = confidence;
    verdict.suspects = {suspect_of(telemetry_, process, confidence)};
    verdict.since = telemetry_.processes[static_cast<std::size_t>(process)].since;
    verdict.communicators = known.communicators;
    verdict.place = known.place;
    verdict.evidence = {{"accusations", static_cast<double>(known.accusations)},
                        {"dead_processes", static_cast<double>(killed)}};
    const std::string& how = telemetry_.processes[static_cast<std::size_t>(process)].how;
    verdict.text = fmt::format("{} died{}{}", text_of(verdict.suspects), how.empty() ? "" : fmt::format(" ({})", how),
                               known.place.empty() ? "" : fmt::format(" in {}", known.place));
    if (known.accusations > 0)
      verdict.text += fmt::format("; {} other{} saw it", known.accusations, known.accusations == 1 ? "" : "s");
    if (killed > culprits.size()) verdict.text += fmt::format("; {} more ended after it", killed - culprits.size());
    verdicts_.push_back(std::move(verdict));
  }
}

void Deaths::blame_ended_from_outside(const std::vector<int>& killed) {
  Verdict verdict;
  verdict.fault = FaultClass::crashed;
  verdict.confidence = kAllAtOnce;
  for (const int process : killed)
    verdict.suspects.push_back(suspect_of(telemetry_, process, kAllAtOnce / static_cast<double>(killed.size())));
  verdict.evidence = {{"dead_processes", static_cast<double>(killed.size())}};
  verdict.text = fmt::format(
      "all {} ranks died and none of them saw another die: the job was ended from outside, or its host went down",
      killed.size());
  verdicts_.push_back(std::move(verdict));
}

/// Ranks that others call dead, and of which there is no recording: it ended in order, and took that with it.
void Deaths::blame_gone(const CommunicatorFacts& communicator) {
  if (is_mismatched(communicator.id)) return;
  std::vector<int> gone;
  for (const MemberFacts& member : communicator.members) {
    if (member.state != MemberFacts::State::broken || member.accused < 0 || was_told_to_end(member)) continue;
    const MemberFacts* const accused = find_member(communicator, member.accused);
    if (accused != nullptr && was_told_to_end(*accused)) continue;
    const bool known = accused != nullptr && accused->process >= 0 &&
                       telemetry_.processes[static_cast<std::size_t>(accused->process)].state != ProcessState::ended;
    if (!known) gone.push_back(member.accused);
  }
  std::sort(gone.begin(), gone.end());
  gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
  for (const int rank : gone) {
    Verdict verdict;
    verdict.fault = FaultClass::crashed;
    verdict.confidence = kGone;
    Suspect suspect;
    suspect.rank = rank;
    suspect.confidence = kGone;
    verdict.suspects = {suspect};
    verdict.communicators = {communicator.id};
    verdict.text = fmt::format("rank {} of {} left while others needed it; its recording is not here", rank,
                               name_of(communicator));
    verdicts_.push_back(std::move(verdict));
  }
}

void Deaths::judge() {
  for (const CommunicatorFacts& communicator : telemetry_.communicators) hear(communicator);
  std::vector<int> killed, accused, unbroken;
  std::size_t alive = 0;
  for (std::size_t i = 0; i < telemetry_.processes.size(); ++i) {
    const ProcessState state = telemetry_.processes[i].state;
    alive += state == ProcessState::running || state == ProcessState::stopped ? 1 : 0;
    if (state != ProcessState::killed) continue;
    const int process = static_cast<int>(i);
    killed.push_back(process);
    // Of two that accuse one another, both saw the other go; whoever saw nothing went first.
    if (of(process).accusations > 0 && !of(process).is_broken) accused.push_back(process);
    if (!of(process).is_broken) unbroken.push_back(process);
  }
  if (!accused.empty())
    blame(accused, kAccused, killed.size());
  else if (alive == 0 && unbroken.size() == killed.size() && killed.size() > 1)
    blame_ended_from_outside(killed);
  else
    blame(unbroken, kUnaccused, killed.size());
  for (const CommunicatorFacts& communicator : telemetry_.communicators) blame_gone(communicator);
}

}  // namespace

void find_deaths(const Telemetry& telemetry, std::vector<Verdict>& verdicts) { Deaths(telemetry, verdicts).judge(); }

}  // namespace tutti::diagnosis
