// What the driver says of the GPUs of this host at one moment: plain values. What a GPU or a version of the library
// does not offer is 0, or empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti::gpu {

struct NvLinkHealth {
  int link = 0;
  bool active = false;
  std::uint64_t replays = 0, recoveries = 0, flit_errors = 0;  // since the driver was loaded
};

struct GpuHealth {
  int index = 0;                  // as nvidia-smi numbers it
  std::string uuid, name;         // empty where it was lost before anybody looked
  bool lost = false;              // it does not answer: it has fallen off the bus, or needs a reset
  std::vector<int> pids;          // of processes that compute on it; of a lost one nobody is told
  std::uint64_t throttle = 0;     // reasons why it is slower than it could be, as NVML's bits; see throttle_names()
  int clock = 0, max_clock = 0;   // of the SMs, MHz
  int temperature = 0;            // degrees Celsius
  std::uint64_t uncorrected = 0;  // ECC errors since the driver was loaded
  std::uint64_t uncorrected_ever = 0;  // over the life of the GPU
  bool rows_pending = false;           // bad rows of memory are replaced at the next reset
  bool rows_failed = false;            // there was nothing left to replace one with
  std::vector<NvLinkHealth> links;
};

/// A critical error that the driver reported (https://docs.nvidia.com/deploy/xid-errors).
struct GpuXid {
  int gpu = 0;
  int code = 0;
};

struct GpuLook {
  bool has_nvml = false;
  std::vector<GpuHealth> gpus;
  std::vector<GpuXid> xids;  // since the look before
  std::string problem;       // why GPUs cannot be read; empty: they can, or there is no driver
};

/// Of the reasons below, the one that a GPU which is well and works hard has, too.
inline constexpr const char* kPowerCap = "software power cap";

/// The reasons for which hardware or driver slow a GPU down, in words, as in "hardware thermal slowdown". An idle GPU,
/// and clocks that somebody has set, are no faults and not among them.
std::vector<std::string> throttle_names(std::uint64_t reasons);

/// All errors that the GPU's NVLinks have counted.
std::uint64_t link_errors_of(const GpuHealth& gpu);
int active_links_of(const GpuHealth& gpu);

}  // namespace tutti::gpu
