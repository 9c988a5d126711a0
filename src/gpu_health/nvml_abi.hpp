// What NVIDIA's management library (NVML) and its callers have agreed on: the part of the binary interface of
// libnvidia-ml.so.1 that we use. Names are ours; values, order and size of what is in the structures are NVIDIA's and
// never change under one function name: a layout that changed has a function with a new suffix.
#pragma once

#include <cstdint>

namespace tutti::gpu::abi {

using Return = int;  // an enumeration of C
inline constexpr Return kSuccess = 0;
inline constexpr Return kInvalidArgument = 2;
inline constexpr Return kNotSupported = 3;
inline constexpr Return kInsufficientSize = 7;
inline constexpr Return kTimeout = 10;
inline constexpr Return kGpuIsLost = 15;
inline constexpr Return kResetRequired = 16;

struct DeviceData;
using Device = DeviceData*;
struct EventSetData;
using EventSet = EventSetData*;

inline constexpr unsigned kTextSize = 96;  // of names and UUIDs, with the zero at the end
inline constexpr unsigned kLinks = 18;     // NVLinks of a GPU, at most

inline constexpr unsigned kSmClock = 1;         // of kinds of clocks
inline constexpr unsigned kGpuTemperature = 0;  // of sensors
inline constexpr unsigned kUncorrected = 1;     // of kinds of ECC errors
inline constexpr unsigned kVolatile = 0;        // ECC counters since the driver was loaded
inline constexpr unsigned kAggregate = 1;       // the same over the life of the GPU

inline constexpr unsigned kReplays = 0;  // of NVLink's error counters
inline constexpr unsigned kRecoveries = 1;
inline constexpr unsigned kFlitErrors = 2;

inline constexpr unsigned long long kCriticalXid = 8;  // of kinds of events, which are bits

/// Of nvmlDeviceGetComputeRunningProcesses_v2 and _v3.
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

/// Of nvmlDeviceGetComputeRunningProcesses.
struct FirstProcessInfo {
  unsigned pid;
  unsigned long long memory;
};
static_assert(sizeof(FirstProcessInfo) == 16);

/// Of nvmlEventSetWait_v2.
struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;  // the XID
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(EventData) == 32);

}  // namespace tutti::gpu::abi
