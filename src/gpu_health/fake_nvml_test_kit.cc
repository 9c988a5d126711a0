// A library with NVML's interface whose GPUs are described by the file that FAKE_NVML_STATE names. It is read again at
// each call, so that a test can change what a process sees. Lines, of which those on a GPU follow the one that begins
// it:
//
//   init 9                 nvmlInit fails with this error
//   sleep 5                each look takes so many seconds
//   gpu                    the next GPU, as good as new
//   name TEXT | uuid TEXT | pids 1 2 | throttle 0x40 | clock 1005 | max_clock 1980 | temperature 91
//   ecc 2 3                uncorrected errors: since the driver was loaded, ever
//   rows 1 0               whether replacements of rows are pending, have failed
//   links 4                so many NVLinks, all active
//   link 1 0 3 2 1         of one: whether it is active, replays, recoveries, flit errors
//   lost                   it does not answer
//   without NAME           this function says that it is not supported
//   xid 0 79               GPU and code; told to whoever has registered before the line was there
//
// With FAKE_NVML_IS_OLD it lacks what NVML of ten years ago did.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "gpu_health/nvml_abi.hpp"

namespace abi = tutti::gpu::abi;

namespace {

struct FakeLink {
  unsigned active = 1;
  unsigned long long errors[3] = {};
};

struct FakeGpu {
  std::string name = "Fake GPU", uuid;
  std::vector<unsigned> pids;
  unsigned long long throttle = 0, ecc[2] = {};
  unsigned clock = 1980, max_clock = 1980, temperature = 40, rows[2] = {};
  std::vector<FakeLink> links;
  bool lost = false;
};

struct FakeState {
  int init = 0;
  double sleep = 0;
  std::vector<FakeGpu> gpus;
  std::set<std::string> unsupported;
  std::vector<std::pair<unsigned, unsigned>> xids;
};

[[maybe_unused]] std::size_t told_xids = 0;

void read_of_gpu(const std::string& key, std::istringstream& words, FakeGpu& gpu) {
  const auto number = [&] {
    std::string word;
    words >> word;
    return std::strtoull(word.c_str(), nullptr, 0);
  };
  const auto small = [&] { return static_cast<unsigned>(number()); };
  if (key == "name") std::getline(words >> std::ws, gpu.name);
  if (key == "uuid") words >> gpu.uuid;
  if (key == "throttle") gpu.throttle = number();
  if (key == "clock") gpu.clock = small();
  if (key == "max_clock") gpu.max_clock = small();
  if (key == "temperature") gpu.temperature = small();
  if (key == "links") gpu.links.resize(number());
  if (key == "lost") gpu.lost = true;
  if (key == "pids")
    for (unsigned pid = 0; words >> pid;) gpu.pids.push_back(pid);
  if (key == "ecc")
    for (unsigned long long& each : gpu.ecc) each = number();
  if (key == "rows")
    for (unsigned& each : gpu.rows) each = small();
  if (key == "link") {
    FakeLink& link = gpu.links.at(number());
    link.active = small();
    for (unsigned long long& each : link.errors) each = number();
  }
}

FakeState read_state() {
  FakeState state;
  const char* const path = std::getenv("FAKE_NVML_STATE");
  std::ifstream file(path == nullptr ? "" : path);
  for (std::string line, key; std::getline(file, line);) {
    std::istringstream words(line);
    if (!(words >> key)) continue;
    std::string name;
    if (key == "init") {
      words >> state.init;
    } else if (key == "sleep") {
      words >> state.sleep;
    } else if (key == "gpu") {
      state.gpus.emplace_back();
    } else if (key == "without") {
      if (words >> name) state.unsupported.insert(name);
    } else if (key == "xid") {
      auto& [gpu, code] = state.xids.emplace_back();
      words >> gpu >> code;
    } else if (!state.gpus.empty()) {
      read_of_gpu(key, words, state.gpus.back());
    }
  }
  return state;
}

abi::Device device_of(std::size_t index) { return reinterpret_cast<abi::Device>(index + 1); }

/// Answers a question about a GPU, unless it is lost or cannot say.
template <typename Answer>
abi::Return answer(const char* function, abi::Device device, Answer with) {
  const FakeState state = read_state();
  const std::size_t index = reinterpret_cast<std::size_t>(device) - 1;
  if (index >= state.gpus.size()) return abi::kInvalidArgument;
  if (state.gpus[index].lost) return abi::kGpuIsLost;
  if (state.unsupported.contains(function)) return abi::kNotSupported;
  return with(state.gpus[index]);
}

[[maybe_unused]] abi::Return copy_text(const std::string& text, char* into, unsigned size) {
  if (text.size() >= size) return abi::kInsufficientSize;
  std::memcpy(into, text.c_str(), text.size() + 1);
  return abi::kSuccess;
}

template <typename Info>
abi::Return list_processes(const char* function, abi::Device device, unsigned* count, Info* infos) {
  return answer(function, device, [&](const FakeGpu& gpu) {
    const unsigned room = *count;
    *count = static_cast<unsigned>(gpu.pids.size());
    if (gpu.pids.size() > room) return abi::kInsufficientSize;
    for (std::size_t i = 0; i < gpu.pids.size(); ++i) {
      infos[i] = {};
      infos[i].pid = gpu.pids[i];
    }
    return abi::kSuccess;
  });
}

}  // namespace

extern "C" {

abi::Return nvmlInit_v2() { return read_state().init; }
abi::Return nvmlShutdown() { return abi::kSuccess; }

abi::Return nvmlDeviceGetCount_v2(unsigned* count) {
  const FakeState state = read_state();
  // What a driver does that is stuck.
  if (state.sleep > 0) std::this_thread::sleep_for(std::chrono::duration<double>(state.sleep));
  *count = static_cast<unsigned>(state.gpus.size());
  return abi::kSuccess;
}

abi::Return nvmlDeviceGetHandleByIndex_v2(unsigned index, abi::Device* device) {
  *device = device_of(index);
  return answer("nvmlDeviceGetHandleByIndex_v2", *device, [](const FakeGpu&) { return abi::kSuccess; });
}

abi::Return nvmlDeviceGetComputeRunningProcesses(abi::Device device, unsigned* count, abi::FirstProcessInfo* infos) {
  return list_processes("nvmlDeviceGetComputeRunningProcesses", device, count, infos);
}

#ifndef FAKE_NVML_IS_OLD

const char* nvmlErrorString(abi::Return error) { return error == abi::kGpuIsLost ? "GPU is lost" : "an error"; }

abi::Return nvmlDeviceGetName(abi::Device device, char* text, unsigned size) {
  return answer("nvmlDeviceGetName", device, [&](const FakeGpu& gpu) { return copy_text(gpu.name, text, size); });
}

abi::Return nvmlDeviceGetUUID(abi::Device device, char* text, unsigned size) {
  return answer("nvmlDeviceGetUUID", device, [&](const FakeGpu& gpu) { return copy_text(gpu.uuid, text, size); });
}

abi::Return nvmlDeviceGetComputeRunningProcesses_v3(abi::Device device, unsigned* count, abi::ProcessInfo* infos) {
  return list_processes("nvmlDeviceGetComputeRunningProcesses_v3", device, count, infos);
}

abi::Return nvmlDeviceGetCurrentClocksThrottleReasons(abi::Device device, unsigned long long* reasons) {
  return answer("nvmlDeviceGetCurrentClocksThrottleReasons", device, [&](const FakeGpu& gpu) {
    *reasons = gpu.throttle;
    return abi::kSuccess;
  });
}

abi::Return nvmlDeviceGetClockInfo(abi::Device device, unsigned kind, unsigned* clock) {
  return answer("nvmlDeviceGetClockInfo", device, [&](const FakeGpu& gpu) {
    *clock = gpu.clock;
    return kind == abi::kSmClock ? abi::kSuccess : abi::kInvalidArgument;
  });
}

abi::Return nvmlDeviceGetMaxClockInfo(abi::Device device, unsigned kind, unsigned* clock) {
  return answer("nvmlDeviceGetMaxClockInfo", device, [&](const FakeGpu& gpu) {
    *clock = gpu.max_clock;
    return kind == abi::kSmClock ? abi::kSuccess : abi::kInvalidArgument;
  });
}

abi::Return nvmlDeviceGetTemperature(abi::Device device, unsigned sensor, unsigned* degrees) {
  return answer("nvmlDeviceGetTemperature", device, [&](const FakeGpu& gpu) {
    *degrees = gpu.temperature;
    return sensor == abi::kGpuTemperature ? abi::kSuccess : abi::kInvalidArgument;
  });
}

abi::Return nvmlDeviceGetTotalEccErrors(abi::Device device, unsigned kind, unsigned counter,
                                        unsigned long long* count) {
  return answer("nvmlDeviceGetTotalEccErrors", device, [&](const FakeGpu& gpu) {
    if (kind != abi::kUncorrected || counter > abi::kAggregate) return abi::kInvalidArgument;
    *count = gpu.ecc[counter];
    return abi::kSuccess;
  });
}

abi::Return nvmlDeviceGetRemappedRows(abi::Device device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                                      unsigned* failed) {
  return answer("nvmlDeviceGetRemappedRows", device, [&](const FakeGpu& gpu) {
    *corrected = *uncorrected = 0;
    *pending = gpu.rows[0];
    *failed = gpu.rows[1];
    return abi::kSuccess;
  });
}

abi::Return nvmlDeviceGetNvLinkState(abi::Device device, unsigned link, unsigned* active) {
  return answer("nvmlDeviceGetNvLinkState", device, [&](const FakeGpu& gpu) {
    if (link >= gpu.links.size()) return abi::kNotSupported;
    *active = gpu.links[link].active;
    return abi::kSuccess;
  });
}

abi::Return nvmlDeviceGetNvLinkErrorCounter(abi::Device device, unsigned link, unsigned counter,
                                            unsigned long long* count) {
  return answer("nvmlDeviceGetNvLinkErrorCounter", device, [&](const FakeGpu& gpu) {
    if (link >= gpu.links.size() || counter > abi::kFlitErrors) return abi::kInvalidArgument;
    *count = gpu.links[link].errors[counter];
    return abi::kSuccess;
  });
}

abi::Return nvmlEventSetCreate(abi::EventSet* set) {
  *set = reinterpret_cast<abi::EventSet>(&told_xids);
  told_xids = read_state().xids.size();
  return abi::kSuccess;
}

abi::Return nvmlEventSetFree(abi::EventSet) { return abi::kSuccess; }

abi::Return nvmlDeviceRegisterEvents(abi::Device device, unsigned long long, abi::EventSet) {
  return answer("nvmlDeviceRegisterEvents", device, [](const FakeGpu&) { return abi::kSuccess; });
}

abi::Return nvmlEventSetWait_v2(abi::EventSet, abi::EventData* event, unsigned) {
  const FakeState state = read_state();
  if (told_xids >= state.xids.size()) return abi::kTimeout;
  const auto& [gpu, code] = state.xids[told_xids++];
  *event = {device_of(gpu), abi::kCriticalXid, code, ~0U, ~0U};
  return abi::kSuccess;
}

#endif

}  // extern "C"
