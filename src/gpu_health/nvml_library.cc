#include "gpu_health/nvml_library.hpp"

#include <dlfcn.h>
#include <fmt/core.h>

#include <initializer_list>

namespace tutti::gpu {
namespace {

constexpr const char* kUsualFile = "libnvidia-ml.so.1";

/// Takes the first of these names that the library exports.
template <typename Function>
void find(void* library, std::initializer_list<const char*> names, Function*& function) {
  for (const char* const name : names)
    if (void* const found = ::dlsym(library, name); found != nullptr) {
      function = reinterpret_cast<Function*>(found);
      return;
    }
}

NvmlFunctions functions_of(void* library) {
  NvmlFunctions all;
  find(library, {"nvmlInit_v2"}, all.init);
  find(library, {"nvmlShutdown"}, all.shutdown);
  find(library, {"nvmlDeviceGetCount_v2"}, all.count);
  find(library, {"nvmlDeviceGetHandleByIndex_v2"}, all.device);
  find(library, {"nvmlErrorString"}, all.error_text);
  find(library, {"nvmlDeviceGetName"}, all.name);
  find(library, {"nvmlDeviceGetUUID"}, all.uuid);
  find(library, {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}, all.processes);
  find(library, {"nvmlDeviceGetComputeRunningProcesses"}, all.first_processes);
  find(library, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
       all.throttle_reasons);
  find(library, {"nvmlDeviceGetClockInfo"}, all.clock);
  find(library, {"nvmlDeviceGetMaxClockInfo"}, all.max_clock);
  find(library, {"nvmlDeviceGetTemperature"}, all.temperature);
  find(library, {"nvmlDeviceGetTotalEccErrors"}, all.ecc_errors);
  find(library, {"nvmlDeviceGetRemappedRows"}, all.remapped_rows);
  find(library, {"nvmlDeviceGetNvLinkState"}, all.link_state);
  find(library, {"nvmlDeviceGetNvLinkErrorCounter"}, all.link_errors);
  find(library, {"nvmlEventSetCreate"}, all.make_events);
  find(library, {"nvmlEventSetFree"}, all.free_events);
  find(library, {"nvmlDeviceRegisterEvents"}, all.register_events);
  // The first version fills in less of the same structure.
  find(library, {"nvmlEventSetWait_v2", "nvmlEventSetWait"}, all.wait_for_event);
  return all;
}

/// Whether the loader has not found this file; one that it cannot load, or that needs another, is there.
bool is_absent(const std::string& file, const std::string& error) {
  return error.starts_with(file + ": cannot open shared object file: No such file");
}

}  // namespace

Status NvmlLibrary::open(const std::string& file) {
  Status opened = load(file);
  if (!opened) close();
  return opened;
}

Status NvmlLibrary::load(const std::string& file) {
  const std::string name = file.empty() ? kUsualFile : file;
  library_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) {
    const char* const error = ::dlerror();
    const std::string why = error == nullptr ? name + " cannot be loaded" : error;
    if (file.empty() && is_absent(name, why)) return {};
    return fail(ErrorCode::system, why);
  }
  functions_ = functions_of(library_);
  if (functions_.init == nullptr || functions_.shutdown == nullptr || functions_.count == nullptr ||
      functions_.device == nullptr)
    return fail(ErrorCode::unsupported, name + " lacks functions of NVML that every version of today has");
  if (const abi::Return status = functions_.init(); status != abi::kSuccess)
    return fail(ErrorCode::system, fmt::format("{}: {}", name, text_of(status)));
  initialised_ = true;
  return {};
}

std::string NvmlLibrary::text_of(abi::Return error) const {
  const char* const text = functions_.error_text == nullptr ? nullptr : functions_.error_text(error);
  return text == nullptr ? fmt::format("NVML error {}", error) : fmt::format("NVML error {} ({})", error, text);
}

void NvmlLibrary::close() {
  if (initialised_) functions_.shutdown();
  if (library_ != nullptr) ::dlclose(library_);
  library_ = nullptr;
  initialised_ = false;
  functions_ = {};
}

}  // namespace tutti::gpu
