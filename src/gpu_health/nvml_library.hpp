// NVML, opened while the program runs: nothing is linked, and a host without it is normal. Owns the library, which is
// closed with it. Functions that a version lacks are null; those without which nothing can be read are always there.
// One thread at a time.
#pragma once

#include <string>

#include "gpu_health/nvml_abi.hpp"
#include "tutti/error.hpp"

namespace tutti::gpu {

/// The functions of NVML that we call.
struct NvmlFunctions {
  using Get = abi::Return(abi::Device, unsigned*);
  using Get64 = abi::Return(abi::Device, unsigned long long*);
  using GetText = abi::Return(abi::Device, char*, unsigned);
  using GetOne = abi::Return(abi::Device, unsigned, unsigned*);  // of a clock, a sensor, a link

  // Always there.
  abi::Return (*init)() = nullptr;
  abi::Return (*shutdown)() = nullptr;
  abi::Return (*count)(unsigned*) = nullptr;
  abi::Return (*device)(unsigned, abi::Device*) = nullptr;

  const char* (*error_text)(abi::Return) = nullptr;
  GetText* name = nullptr;
  GetText* uuid = nullptr;
  abi::Return (*processes)(abi::Device, unsigned*, abi::ProcessInfo*) = nullptr;
  abi::Return (*first_processes)(abi::Device, unsigned*, abi::FirstProcessInfo*) = nullptr;
  Get64* throttle_reasons = nullptr;
  GetOne* clock = nullptr;
  GetOne* max_clock = nullptr;
  GetOne* temperature = nullptr;
  abi::Return (*ecc_errors)(abi::Device, unsigned, unsigned, unsigned long long*) = nullptr;
  abi::Return (*remapped_rows)(abi::Device, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  GetOne* link_state = nullptr;
  abi::Return (*link_errors)(abi::Device, unsigned, unsigned, unsigned long long*) = nullptr;
  abi::Return (*make_events)(abi::EventSet*) = nullptr;
  abi::Return (*free_events)(abi::EventSet) = nullptr;
  abi::Return (*register_events)(abi::Device, unsigned long long, abi::EventSet) = nullptr;
  abi::Return (*wait_for_event)(abi::EventSet, abi::EventData*, unsigned) = nullptr;
};

class NvmlLibrary {
 public:
  NvmlLibrary() = default;
  ~NvmlLibrary() { close(); }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  /// Opens and initialises it. `file`: empty: libnvidia-ml.so.1; where that is not on this host, success, and is_open()
  /// says no. An error if the library is there and does not work.
  Status open(const std::string& file);
  bool is_open() const { return library_ != nullptr; }
  const NvmlFunctions& functions() const { return functions_; }
  /// "NVML error 15 (GPU is lost)"
  std::string text_of(abi::Return error) const;

 private:
  Status load(const std::string& file);
  void close();

  void* library_ = nullptr;
  bool initialised_ = false;
  NvmlFunctions functions_;
};

}  // namespace tutti::gpu
