#include "gpu_health/gpu_watch.hpp"

#include <fmt/core.h>

#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "base/thread.hpp"
#include "gpu_health/nvml_reader.hpp"

namespace tutti::gpu {

struct GpuWatch::WatchState {
  std::mutex mutex;  // of all but the reader, which belongs to whoever has set `busy`
  bool busy = false;
  GpuLook look;
  std::vector<GpuXid> xids;  // not handed over yet, those of looks that came too late among them
  std::unique_ptr<NvmlReader> reader;
};

GpuWatch::GpuWatch(std::string library, double patience)
    : library_(std::move(library)), patience_(patience), shared_(std::make_shared<WatchState>()) {}

GpuLook GpuWatch::look() {
  const auto stuck = [&] {
    GpuLook look;
    look.has_nvml = true;
    look.problem = fmt::format("the driver of the GPUs has not answered for {:g} s", patience_);
    return look;
  };
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->busy) return stuck();
    shared_->busy = true;
  }
  const Status done = run_before(Deadline::in(patience_), "NVML", [shared = shared_, library = library_]() -> Status {
    if (shared->reader == nullptr) shared->reader = std::make_unique<NvmlReader>(library);
    GpuLook look = shared->reader->look();
    const std::lock_guard lock(shared->mutex);
    std::move(look.xids.begin(), look.xids.end(), std::back_inserter(shared->xids));
    look.xids.clear();
    shared->look = std::move(look);
    shared->busy = false;
    return {};
  });
  if (!done && done.error().code == ErrorCode::timed_out) return stuck();
  const std::lock_guard lock(shared_->mutex);
  GpuLook look;
  if (done) {
    look = shared_->look;
    look.xids = std::exchange(shared_->xids, {});
  } else {
    shared_->busy = false;  // no thread could be made
    look.problem = done.error().message;
  }
  return look;
}

}  // namespace tutti::gpu
