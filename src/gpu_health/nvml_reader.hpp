// Reads the health of all GPUs of this host from NVML. A look takes milliseconds, and waits for nothing but the driver,
// which may be stuck: where that matters, use GpuWatch. One thread at a time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu_health/gpu_health.hpp"
#include "gpu_health/nvml_library.hpp"

namespace tutti::gpu {

class NvmlReader {
 public:
  /// `library`: a file; empty: that of the driver, if there is one; "none": no GPU is looked at. Critical errors are
  /// reported from now on: NVML does not tell of earlier ones.
  explicit NvmlReader(const std::string& library);
  ~NvmlReader();
  NvmlReader(const NvmlReader&) = delete;
  NvmlReader& operator=(const NvmlReader&) = delete;

  GpuLook look();

 private:
  /// Nothing of a GPU that this process may not see.
  std::optional<GpuHealth> look_at(int index);
  void read_device(abi::Device device, GpuHealth& gpu);
  std::vector<int> pids_of(abi::Device device);
  std::vector<NvLinkHealth> links_of(abi::Device device);
  void watch_events(unsigned count);
  std::vector<GpuXid> take_xids();

  template <typename... Parameters, typename... Arguments>
  abi::Return call(abi::Return (*function)(Parameters...), Arguments... arguments);

  NvmlLibrary library_;
  std::string problem_;
  abi::EventSet events_ = nullptr;
  std::vector<abi::Device> devices_;  // by index; null where it never answered
  std::vector<GpuHealth> known_;      // by index: whose names are known from before they were lost
  bool lost_ = false;                 // a call since this was cleared found the GPU gone
};

}  // namespace tutti::gpu
