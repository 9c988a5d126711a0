#include "diagnosis/gpu/gpu_findings.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "diagnosis/findings.hpp"
#include "diagnosis/gpu/gpu_wording.hpp"
#include "diagnosis/robust.hpp"
#include "diagnosis/wording.hpp"
#include "gpu_health/gpu_health.hpp"

namespace tutti::diagnosis {
namespace {

constexpr double kLeastThrottled = 0.2;  // share of the looks; a power cap comes and goes in a GPU that works hard
constexpr double kStandsOut = 0.1;       // the same, beyond that of most GPUs
constexpr double kSlower = 0.95;         // of most GPUs' clocks, as shares of what they could be
constexpr double kLateAndThrottled = 0.99;
constexpr double kSlowAndThrottled = 0.95;
constexpr double kBefore = 60;    // seconds: a GPU fails before its process is missed
constexpr std::size_t kTold = 3;  // GPUs of one verdict

double share_of_clock(const GpuFacts& gpu) {
  return gpu.clock <= 0 || gpu.max_clock <= 0 ? 1 : static_cast<double>(gpu.clock) / gpu.max_clock;
}

/// How fast the GPUs of a job run, one by one and as a rule.
class GpuComparison {
 public:
  explicit GpuComparison(const Telemetry& telemetry) : telemetry_(telemetry) {
    std::vector<double> clocks, throttled;
    for (const ProcessFacts& process : telemetry.processes)
      for (const GpuFacts& gpu : process.gpus) {
        clocks.push_back(share_of_clock(gpu));
        throttled.push_back(gpu.throttled);
      }
    if (clocks.size() < 2) return;  // nothing to compare with: it is measured by what it could be
    usual_clock_ = upper_median_of(clocks);
    usual_throttled_ = median_of(throttled);
  }

  /// The slowest GPU of this process that is slowed down and slower than most; null: none.
  const GpuFacts* slowed(int process) const {
    const GpuFacts* slowest = nullptr;
    if (process < 0) return slowest;
    for (const GpuFacts& gpu : telemetry_.processes[static_cast<std::size_t>(process)].gpus)
      if (is_slowed(gpu) && (slowest == nullptr || share_of_clock(gpu) < share_of_clock(*slowest))) slowest = &gpu;
    return slowest;
  }

 private:
  bool is_slowed(const GpuFacts& gpu) const {
    if (gpu.throttled < kLeastThrottled) return false;
    if (gpu.clock > 0 && gpu.max_clock > 0) return share_of_clock(gpu) < kSlower * usual_clock_;
    return gpu.throttled > usual_throttled_ + kStandsOut;
  }

  const Telemetry& telemetry_;
  double usual_clock_ = 1, usual_throttled_ = 0;
};

/// Whether something is wrong with it. A GPU that has more to do than others is under its power cap for longer, and
/// that is the consequence of its being late as well as a reason for it.
bool is_faulty(const GpuFacts& gpu) { return gpu.throttle != gpu::kPowerCap; }

void add_throttling(const GpuFacts& gpu, Verdict& verdict) {
  verdict.evidence.push_back({"gpu", static_cast<double>(gpu.index)});
  verdict.evidence.push_back({"gpu_throttled_share", gpu.throttled});
  if (gpu.clock > 0) verdict.evidence.push_back({"gpu_clock_mhz", static_cast<double>(gpu.clock)});
  if (gpu.max_clock > 0) verdict.evidence.push_back({"gpu_max_clock_mhz", static_cast<double>(gpu.max_clock)});
  if (gpu.temperature > 0) verdict.evidence.push_back({"gpu_celsius", static_cast<double>(gpu.temperature)});
}

/// Whether this is all that the process exchanges, not one path of several, which no GPU explains.
bool is_all_of(const Telemetry& telemetry, int process, int path) {
  return path < 0 || std::none_of(telemetry.delays.begin(), telemetry.delays.end(), [&](const DelayFacts& delay) {
           return (delay.source == process || delay.destination == process) && delay.path != path;
         });
}

/// The process that may be slow by itself, all of its transfers being slow; -1: a link or a port of it is.
int slow_end_of(const Telemetry& telemetry, const Verdict& verdict, const GpuComparison& gpus) {
  if (verdict.fault != FaultClass::slow_sender && verdict.fault != FaultClass::slow_receiver &&
      verdict.fault != FaultClass::slow_link)
    return -1;
  for (const Suspect& each : verdict.suspects) {
    const GpuFacts* const gpu = each.peer < 0 ? gpus.slowed(each.process) : nullptr;
    if (gpu != nullptr && is_faulty(*gpu) && is_all_of(telemetry, each.process, each.path)) return each.process;
  }
  return -1;
}

/// Turns slow transfers into a straggler.
void excuse(const Telemetry& telemetry, int process, const GpuFacts& gpu, Verdict& verdict) {
  verdict.fault = FaultClass::straggler;
  verdict.confidence = kSlowAndThrottled;
  verdict.suspects = {suspect_of(telemetry, process, kSlowAndThrottled)};
  verdict.text = fmt::format("{} is slow because its GPU {} {}; the network is not to blame", text_of(verdict.suspects),
                             gpu.index, throttle_text(gpu));
  add_throttling(gpu, verdict);
}

bool stands_still_or_died(FaultClass fault) {
  return fault == FaultClass::crashed || fault == FaultClass::frozen || fault == FaultClass::not_entered ||
         fault == FaultClass::transfer_stuck;
}

bool is_slow_transfer(FaultClass fault) {
  return fault == FaultClass::slow_link || fault == FaultClass::slow_sender || fault == FaultClass::slow_receiver ||
         fault == FaultClass::transfer_stuck;
}

/// Adds what GPUs say to one verdict.
class GpuEvidence {
 public:
  /// `by_rank`: the processes.
  GpuEvidence(const Telemetry& telemetry, const std::map<int, int>& by_rank, Verdict& verdict)
      : telemetry_(telemetry), by_rank_(by_rank), verdict_(verdict) {}

  void add() {
    const std::set<int> processes = processes_of();
    const bool exchanges = is_slow_transfer(verdict_.fault) && is_local(processes);
    for (const int process : processes)
      for (const GpuFacts& gpu : facts_of(process).gpus) {
        if (stands_still_or_died(verdict_.fault)) tell_failure(process, gpu);
        if (verdict_.fault == FaultClass::corrupted) tell_memory(process, gpu);
        if (exchanges) tell_links(process, gpu);
      }
  }

 private:
  const ProcessFacts& facts_of(int process) const { return telemetry_.processes[static_cast<std::size_t>(process)]; }

  /// Suspects, and of links both ends.
  std::set<int> processes_of() const {
    std::set<int> processes;
    for (const Suspect& each : verdict_.suspects) {
      if (each.process >= 0) processes.insert(each.process);
      if (each.peer < 0) continue;
      if (const auto peer = by_rank_.find(each.peer); peer != by_rank_.end()) processes.insert(peer->second);
    }
    return processes;
  }

  /// Whether all that is slow stays within a host: NVLinks lead to no other.
  bool is_local(const std::set<int>& processes) const {
    if (processes.size() > 1)
      return std::all_of(processes.begin(), processes.end(),
                         [&](int each) { return facts_of(each).host == facts_of(*processes.begin()).host; });
    bool local = false;
    for (const DelayFacts& delay : telemetry_.delays)
      if (processes.contains(delay.source) || processes.contains(delay.destination)) {
        if (!delay.local) return false;
        local = true;
      }
    return local;
  }

  void tell_failure(int process, const GpuFacts& gpu) {
    const XidFacts* const xid = cause_of(gpu);
    if (xid != nullptr) {
      tell(process, gpu, xid_text(*xid, telemetry_.now), {"xid", static_cast<double>(xid->code)});
    } else if (gpu.lost) {
      tell(process, gpu, "does not answer: it has fallen off the bus, or needs a reset", {"gpu_lost", 1});
    } else {
      tell_memory(process, gpu);
    }
  }

  void tell_memory(int process, const GpuFacts& gpu) {
    if (const std::string text = memory_text(gpu); !text.empty())
      tell(process, gpu, text, {"gpu_uncorrected_ecc", static_cast<double>(gpu.uncorrected)});
  }

  void tell_links(int process, const GpuFacts& gpu) {
    const std::string text = link_text(gpu);
    if (text.empty()) return;
    tell(process, gpu, text, {"nvlink_errors", static_cast<double>(gpu.link_errors)});
    if (gpu.links_down > 0) verdict_.evidence.push_back({"nvlinks_down", static_cast<double>(gpu.links_down)});
  }

  /// The first error that may have led to the fault, and follows from no other; null: none.
  const XidFacts* cause_of(const GpuFacts& gpu) const {
    const XidFacts* follows = nullptr;
    for (const XidFacts& each : gpu.xids) {
      if (verdict_.since > 0 && each.at < verdict_.since - kBefore) continue;
      if (!is_consequence(each)) return &each;
      if (follows == nullptr) follows = &each;
    }
    return follows;
  }

  void tell(int process, const GpuFacts& gpu, const std::string& what, Evidence evidence) {
    if (told_++ >= kTold) return;
    verdict_.evidence.push_back({"gpu", static_cast<double>(gpu.index)});
    verdict_.evidence.push_back(std::move(evidence));
    const bool is_the_one = verdict_.suspects.size() == 1 && verdict_.suspects.front().process == process;
    verdict_.text += is_the_one ? fmt::format("; its GPU {} {}", gpu.index, what)
                                : fmt::format("; GPU {} of rank {} {}", gpu.index, facts_of(process).rank, what);
  }

  const Telemetry& telemetry_;
  const std::map<int, int>& by_rank_;
  Verdict& verdict_;
  std::size_t told_ = 0;
};

bool has_gpus(const Telemetry& telemetry) {
  return std::any_of(telemetry.processes.begin(), telemetry.processes.end(),
                     [](const ProcessFacts& each) { return !each.gpus.empty(); });
}

}  // namespace

void excuse_throttled(const Telemetry& telemetry, std::vector<Verdict>& verdicts) {
  if (verdicts.empty() || !has_gpus(telemetry)) return;
  const GpuComparison gpus(telemetry);
  std::set<int> late;
  for (Verdict& verdict : verdicts) {
    if (verdict.fault != FaultClass::straggler || verdict.suspects.empty()) continue;
    Suspect& suspect = verdict.suspects.front();
    const GpuFacts* const gpu = gpus.slowed(suspect.process);
    if (gpu == nullptr) continue;
    late.insert(suspect.process);
    if (is_faulty(*gpu)) verdict.confidence = suspect.confidence = kLateAndThrottled;
    verdict.text += fmt::format("; its GPU {} {}", gpu->index, throttle_text(*gpu));
    add_throttling(*gpu, verdict);
  }
  for (Verdict& verdict : verdicts)
    if (const int process = slow_end_of(telemetry, verdict, gpus); process >= 0 && late.insert(process).second)
      excuse(telemetry, process, *gpus.slowed(process), verdict);
  // Those that are left are of a process that is told as a straggler.
  std::erase_if(verdicts, [&](const Verdict& each) { return slow_end_of(telemetry, each, gpus) >= 0; });
}

void add_gpu_evidence(const Telemetry& telemetry, std::vector<Verdict>& verdicts) {
  if (verdicts.empty() || !has_gpus(telemetry)) return;
  std::map<int, int> by_rank;
  for (std::size_t i = 0; i < telemetry.processes.size(); ++i)
    by_rank.emplace(telemetry.processes[i].rank, static_cast<int>(i));
  for (Verdict& verdict : verdicts) GpuEvidence(telemetry, by_rank, verdict).add();
}

}  // namespace tutti::diagnosis
