#include "diagnosis/gpu/gpu_observer.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "diagnosis/robust.hpp"

namespace tutti::diagnosis {
namespace {

constexpr double kThrottleWindow = 10;  // seconds over which slowdowns are averaged
constexpr double kErrorWindow = 60;     // seconds in which errors of links count
constexpr double kXidWindow = 600;      // seconds for which critical errors are remembered
constexpr std::size_t kXids = 16;       // of a GPU

bool is_alive(const ProcessFacts& process) {
  return process.state == ProcessState::running || process.state == ProcessState::stopped;
}

bool has(const std::vector<int>& numbers, int number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

}  // namespace

void GpuObserver::remember(const gpu::GpuLook& look, double now) {
  for (const gpu::GpuHealth& gpu : look.gpus) {
    GpuHistory& history = histories_[gpu.index];
    std::erase_if(history.xids, [&](const XidFacts& each) { return each.at < now - kXidWindow; });
    if (gpu.lost) continue;
    const std::vector<std::string> reasons = gpu::throttle_names(gpu.throttle);
    if (!reasons.empty()) history.throttle = fmt::format("{}", fmt::join(reasons, ", "));
    std::deque<GpuSample>& samples = history.samples;
    const std::uint64_t link_errors = gpu::link_errors_of(gpu);
    // Counters begin again when the GPU is reset, and are not read of links that are down.
    if (!samples.empty() && link_errors < samples.back().link_errors) samples.clear();
    samples.push_back({now, !reasons.empty(), gpu.clock, link_errors});
    while (samples.front().at < now - kErrorWindow) samples.pop_front();
  }
  for (const gpu::GpuXid& each : look.xids) {
    std::vector<XidFacts>& xids = histories_[each.gpu].xids;
    if (xids.size() < kXids) xids.push_back({each.code, now});  // the first is the cause, what comes later follows
  }
}

GpuFacts GpuObserver::facts_of(const gpu::GpuHealth& gpu, int most_links, double now) const {
  const GpuHistory& history = histories_.at(gpu.index);
  GpuFacts facts;
  facts.index = gpu.index;
  facts.name = gpu.name;
  facts.lost = gpu.lost;
  facts.xids = history.xids;
  if (gpu.lost || history.samples.empty()) return facts;
  std::vector<double> clocks;
  std::size_t throttled = 0;
  for (const GpuSample& each : history.samples) {
    if (each.at < now - kThrottleWindow) continue;
    clocks.push_back(each.clock);
    throttled += each.throttled ? 1 : 0;
  }
  facts.throttled = static_cast<double>(throttled) / static_cast<double>(clocks.size());
  if (throttled > 0) facts.throttle = history.throttle;
  facts.clock = static_cast<int>(median_of(clocks));
  facts.max_clock = gpu.max_clock;
  facts.temperature = gpu.temperature;
  facts.uncorrected = gpu.uncorrected;
  facts.rows_pending = gpu.rows_pending;
  facts.rows_failed = gpu.rows_failed;
  facts.link_errors = history.samples.back().link_errors - history.samples.front().link_errors;
  facts.links_down = most_links - gpu::active_links_of(gpu);
  return facts;
}

/// Notes who computes where. Of a GPU that is lost, and of a process that is dead, NVML does not tell any more: what it
/// told before stays.
void GpuObserver::place_processes(const gpu::GpuLook& look, const std::vector<Telemetry>& jobs) {
  std::map<int, std::vector<int>> seen;
  std::set<int> lost;
  for (const gpu::GpuHealth& gpu : look.gpus) {
    if (gpu.lost) lost.insert(gpu.index);
    for (const int pid : gpu.pids) seen[pid].push_back(gpu.index);
  }
  std::map<int, std::vector<int>> places;
  for (const Telemetry& job : jobs)
    for (const ProcessFacts& process : job.processes) {
      std::vector<int>& place = places[process.pid];
      const auto before = places_.find(process.pid);
      // Another process may have the pid of a dead one.
      if (is_alive(process) && seen.contains(process.pid)) place = seen[process.pid];
      if (before == places_.end()) continue;
      for (const int gpu : before->second)
        if ((place.empty() || lost.contains(gpu)) && !has(place, gpu)) place.push_back(gpu);
    }
  places_ = std::move(places);
}

/// Where a GPU was lost before anybody looked, and a single process of a job has none: it had that one.
void GpuObserver::place_lost(const gpu::GpuLook& look, const Telemetry& job) {
  std::vector<int> lost, without;
  for (const gpu::GpuHealth& gpu : look.gpus) {
    const bool is_placed =
        std::any_of(places_.begin(), places_.end(), [&](const auto& each) { return has(each.second, gpu.index); });
    if (gpu.lost && !is_placed) lost.push_back(gpu.index);
  }
  for (const ProcessFacts& process : job.processes)
    if (places_[process.pid].empty()) without.push_back(process.pid);
  if (lost.size() == 1 && without.size() == 1 && job.processes.size() > 1) places_[without.front()] = lost;
}

void GpuObserver::judge(const gpu::GpuLook& look, double now) {
  int most_links = 0;
  for (const gpu::GpuHealth& gpu : look.gpus) most_links = std::max(most_links, gpu::active_links_of(gpu));
  for (const gpu::GpuHealth& gpu : look.gpus) facts_[gpu.index] = facts_of(gpu, most_links, now);
}

void GpuObserver::observe(const gpu::GpuLook& look, double now, std::vector<Telemetry>& jobs) {
  // A driver that is stuck says nothing: what it said before is all there is.
  if (!look.gpus.empty()) {
    remember(look, now);
    place_processes(look, jobs);
    for (const Telemetry& job : jobs) place_lost(look, job);
    judge(look, now);
  }
  for (Telemetry& job : jobs)
    for (ProcessFacts& process : job.processes)
      if (const auto place = places_.find(process.pid); place != places_.end())
        for (const int gpu : place->second) process.gpus.push_back(facts_[gpu]);
}

}  // namespace tutti::diagnosis
