// Looks at the GPUs within a time limit: a driver that is stuck blocks whoever asks it, and that is when a diagnosis is
// wanted most. Calls of NVML are made on a thread of its own, one at a time; a call that does not come back is waited
// for once, and then only asked after. One thread.
#pragma once

#include <memory>
#include <string>

#include "gpu_health/gpu_health.hpp"

namespace tutti::gpu {

class GpuWatch {
 public:
  /// `library`: as NvmlReader says. `patience`: seconds that a look may take. Nothing is opened before the first look.
  explicit GpuWatch(std::string library, double patience = 2);

  /// While the driver is stuck: no GPUs, and the problem.
  GpuLook look();

 private:
  struct WatchState;

  std::string library_;
  double patience_;
  std::shared_ptr<WatchState> shared_;  // with the thread, which may outlive this
};

}  // namespace tutti::gpu
