// What GPUs of this host say of themselves, as telemetry of the processes that compute on them. It looks again and
// again, and remembers of earlier looks what one alone does not tell: for how long a GPU was slowed down, which errors
// it reported, and which GPUs a process had that is dead by now. One thread.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "gpu_health/gpu_health.hpp"

namespace tutti::diagnosis {

class GpuObserver {
 public:
  /// Adds what is known of the GPUs to the processes of `jobs`, which run on this host. Looks come in the order of
  /// their time; `now`: on the clock of the telemetry.
  void observe(const gpu::GpuLook& look, double now, std::vector<Telemetry>& jobs);

 private:
  struct GpuSample {
    double at = 0;
    bool throttled = false;
    int clock = 0;
    std::uint64_t link_errors = 0;
  };
  struct GpuHistory {
    std::deque<GpuSample> samples;  // of the last minute
    std::string throttle;           // the last reason
    std::vector<XidFacts> xids;
  };

  void remember(const gpu::GpuLook& look, double now);
  void judge(const gpu::GpuLook& look, double now);
  GpuFacts facts_of(const gpu::GpuHealth& gpu, int most_links, double now) const;
  void place_processes(const gpu::GpuLook& look, const std::vector<Telemetry>& jobs);
  void place_lost(const gpu::GpuLook& look, const Telemetry& job);

  std::map<int, GpuHistory> histories_;     // by GPU
  std::map<int, GpuFacts> facts_;           // by GPU, of the last look that was answered
  std::map<int, std::vector<int>> places_;  // GPUs of each process, by pid
};

}  // namespace tutti::diagnosis
