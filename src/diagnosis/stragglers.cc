// Ranks whose computation others wait for, and slowness that comes from having no core.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

#include "diagnosis/findings.hpp"
#include "diagnosis/robust.hpp"
#include "diagnosis/stuck_operations.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::diagnosis {
namespace {

constexpr std::size_t kManyMembers = 8;  // of which a spread can be learned
constexpr double kOutlying = 6;          // standard deviations
constexpr double kStandsOut = 0.1;       // share of the time without a core beyond that of most processes

/// A member that waits less than the others of its communicator: they wait for it.
struct Lateness {
  int process = -1;
  std::size_t communicator = 0;
  double share = 0;  // of the time
  double threshold = 0;
};

class Stragglers {
 public:
  Stragglers(const Telemetry& telemetry, const DiagnosisOptions& options)
      : telemetry_(telemetry),
        options_(options),
        waited_(telemetry.processes.size()),
        unseen_(telemetry.processes.size()) {}

  void judge(std::vector<Verdict>& verdicts);

 private:
  void compare(std::size_t index);
  Verdict verdict_of(const Lateness& late, double share) const;

  const Telemetry& telemetry_;
  const DiagnosisOptions& options_;
  std::vector<double> waited_;  // share of the time that each process waits, in all communicators
  std::vector<bool> unseen_;    // whether it may wait in sends and receives of which not enough is known
  std::vector<Lateness> late_;
  std::vector<double> own_;  // beside late_: of what it waits, the part in that communicator
};

void Stragglers::compare(std::size_t index) {
  const CommunicatorFacts& communicator = telemetry_.communicators[index];
  for (const MemberFacts& member : communicator.members)
    if (communicator.learning && member.process >= 0) unseen_[static_cast<std::size_t>(member.process)] = true;
  if (communicator.waits.empty()) return;
  // Of members that are out of sight nobody knows how long they waited.
  std::vector<const MemberFacts*> members;
  for (const MemberFacts& member : communicator.members)
    if (member.process < 0 || is_alive(telemetry_, member)) members.push_back(&member);
  if (members.size() < 2) return;
  std::vector<double> waits(members.size());
  for (const WaitFacts& wait : communicator.waits) {
    const auto waiter = std::lower_bound(members.begin(), members.end(), wait.waiter,
                                         [](const MemberFacts* each, int rank) { return each->rank < rank; });
    if (waiter != members.end() && (*waiter)->rank == wait.waiter)
      waits[static_cast<std::size_t>(waiter - members.begin())] += wait.share;
  }
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i]->process >= 0) waited_[static_cast<std::size_t>(members[i]->process)] += waits[i];
  // In sends and receives each rank knows its own waits only: none can be left out.
  if (communicator.exchanges && static_cast<int>(members.size()) < communicator.size) return;
  std::vector<double> sorted = waits;
  // Of two, the other; of few, the upper middle: a straggler among them must not be the middle.
  const double usual = members.size() == 2 ? *std::max_element(waits.begin(), waits.end())
                                           : quantile_of(sorted, members.size() < kManyMembers ? 0.67 : 0.5);
  double threshold = options_.least_wait;
  if (members.size() >= kManyMembers) {
    sorted = waits;
    threshold = std::max(threshold, kOutlying * center_of(sorted).spread);
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    const int process = members[i]->process;
    if (process < 0) continue;
    if (usual - waits[i] < threshold) continue;
    late_.push_back({process, index, usual - waits[i], threshold});
    own_.push_back(waits[i]);
  }
}

Verdict Stragglers::verdict_of(const Lateness& late, double share) const {
  const CommunicatorFacts& communicator = telemetry_.communicators[late.communicator];
  Verdict verdict;
  verdict.fault = FaultClass::straggler;
  verdict.confidence = std::min(0.98, 0.6 + 0.2 * share / late.threshold);
  verdict.suspects = {suspect_of(telemetry_, late.process, verdict.confidence)};
  verdict.communicators = {communicator.id};
  verdict.evidence = {{"share_of_time", share}};
  verdict.text = fmt::format("{} comes late: others of {} wait for it {:.0f} % of the time", text_of(verdict.suspects),
                             name_of(communicator), 100 * share);
  if (const double period = communicator.rhythm.period; period > 0) {
    verdict.evidence.push_back({"seconds_per_period", share * period});
    verdict.text += fmt::format(", {} of every {}", lasting(share * period), lasting(period));
  }
  return verdict;
}

void Stragglers::judge(std::vector<Verdict>& verdicts) {
  for (std::size_t i = 0; i < telemetry_.communicators.size(); ++i) compare(i);
  std::map<int, std::pair<double, const Lateness*>> worst;
  for (std::size_t i = 0; i < late_.size(); ++i) {
    if (unseen_[static_cast<std::size_t>(late_[i].process)]) continue;
    // Who waits elsewhere is late because of somebody else.
    const double excused = waited_[static_cast<std::size_t>(late_[i].process)] - own_[i];
    const double share = late_[i].share - excused;
    if (share < late_[i].threshold) continue;
    auto& known = worst[late_[i].process];
    if (known.second == nullptr || known.first < share) known = {share, &late_[i]};
  }
  for (const auto& [process, known] : worst) verdicts.push_back(verdict_of(*known.second, known.first));
}

bool is_slowness(FaultClass fault) {
  return fault == FaultClass::straggler || fault == FaultClass::slow_sender || fault == FaultClass::slow_receiver ||
         fault == FaultClass::slow_link;
}

}  // namespace

void find_stragglers(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts) {
  Stragglers(telemetry, options).judge(verdicts);
}

void excuse_starved(const Telemetry& telemetry, const DiagnosisOptions& options, std::vector<Verdict>& verdicts) {
  std::vector<double> shares;
  for (const ProcessFacts& process : telemetry.processes) shares.push_back(process.starved);
  const double least = std::max(options.least_starved, median_of(shares) + kStandsOut);
  std::map<int, Verdict> starved;
  std::erase_if(verdicts, [&](const Verdict& verdict) {
    if (!is_slowness(verdict.fault)) return false;
    for (const Suspect& suspect : verdict.suspects) {
      if (suspect.process < 0) continue;
      const double share = telemetry.processes[static_cast<std::size_t>(suspect.process)].starved;
      if (share < least) continue;
      auto [place, is_new] = starved.try_emplace(suspect.process, verdict);
      Verdict& found = place->second;
      if (is_new) {
        found.fault = FaultClass::starved;
        found.confidence = 0.95;
        found.suspects = {suspect_of(telemetry, suspect.process, 0.95)};
        found.evidence.push_back({"starved_share", share});
        found.text = fmt::format(
            "{} is slow for want of CPU time: its threads were ready and had no core for {:.0f} % "
            "of the time; the network is not to blame",
            text_of(found.suspects), 100 * share);
      }
      return true;
    }
    return false;
  });
  for (auto& [process, verdict] : starved) verdicts.push_back(std::move(verdict));
}

}  // namespace tutti::diagnosis
