#include "gpu_health/nvml_reader.hpp"

#include <algorithm>

namespace tutti::gpu {
namespace {

constexpr unsigned kMostGpus = 256;
constexpr int kMostEvents = 64;  // taken at one look

template <typename Info>
std::vector<int> list_pids(abi::Return (*list)(abi::Device, unsigned*, Info*), abi::Device device) {
  std::vector<Info> infos(32);
  // Processes may start between two calls.
  for (int tries = 0; tries < 3; ++tries) {
    unsigned count = static_cast<unsigned>(infos.size());
    const abi::Return status = list(device, &count, infos.data());
    if (status == abi::kSuccess) {
      infos.resize(std::min<std::size_t>(count, infos.size()));
      break;
    }
    if (status != abi::kInsufficientSize) return {};
    infos.resize(std::size_t{count} + 32);
  }
  std::vector<int> pids;
  for (const Info& each : infos)
    if (each.pid != 0) pids.push_back(static_cast<int>(each.pid));
  std::sort(pids.begin(), pids.end());
  pids.erase(std::unique(pids.begin(), pids.end()), pids.end());
  return pids;
}

}  // namespace

NvmlReader::NvmlReader(const std::string& library) {
  if (library == "none") return;
  if (const Status opened = library_.open(library); !opened) {
    problem_ = opened.error().message + "; TUTTI_NVML=none looks at no GPU";
    return;
  }
  unsigned count = 0;
  if (library_.is_open() && call(library_.functions().count, &count) == abi::kSuccess)
    watch_events(std::min(count, kMostGpus));
}

NvmlReader::~NvmlReader() {
  if (events_ != nullptr) call(library_.functions().free_events, events_);
}

/// Calls a function that the library may lack, and notes if the GPU is gone.
template <typename... Parameters, typename... Arguments>
abi::Return NvmlReader::call(abi::Return (*function)(Parameters...), Arguments... arguments) {
  if (function == nullptr) return abi::kNotSupported;
  const abi::Return status = function(arguments...);
  if (status == abi::kGpuIsLost || status == abi::kResetRequired) lost_ = true;
  return status;
}

void NvmlReader::watch_events(unsigned count) {
  const NvmlFunctions& nvml = library_.functions();
  if (nvml.wait_for_event == nullptr || call(nvml.make_events, &events_) != abi::kSuccess) {
    events_ = nullptr;
    return;
  }
  for (unsigned i = 0; i < count; ++i) {
    abi::Device device = nullptr;
    if (call(nvml.device, i, &device) == abi::kSuccess) call(nvml.register_events, device, abi::kCriticalXid, events_);
  }
}

GpuLook NvmlReader::look() {
  GpuLook look;
  look.problem = problem_;
  look.has_nvml = library_.is_open();
  if (!look.has_nvml) return look;
  unsigned count = 0;
  if (const abi::Return status = call(library_.functions().count, &count); status != abi::kSuccess) {
    look.problem = "GPUs cannot be counted: " + library_.text_of(status);
    return look;
  }
  const std::size_t gpus = std::min(count, kMostGpus);
  // One that has fallen off the bus may be no longer counted, and is missed.
  devices_.resize(std::max(gpus, devices_.size()), nullptr);
  known_.resize(devices_.size());
  for (std::size_t i = 0; i < devices_.size(); ++i)
    if (std::optional<GpuHealth> gpu = look_at(static_cast<int>(i))) look.gpus.push_back(*std::move(gpu));
  look.xids = take_xids();
  return look;
}

std::optional<GpuHealth> NvmlReader::look_at(int index) {
  GpuHealth gpu;
  gpu.index = index;
  lost_ = false;
  const auto place = static_cast<std::size_t>(index);
  abi::Device device = nullptr;
  const abi::Return status = call(library_.functions().device, static_cast<unsigned>(index), &device);
  if (status == abi::kSuccess) {
    devices_[place] = device;
    read_device(device, gpu);
  } else if (devices_[place] != nullptr) {
    lost_ = true;  // it answered before
  }
  if (!lost_ && status != abi::kSuccess) return std::nullopt;
  GpuHealth& known = known_[place];
  if (lost_) {
    gpu = {};
    gpu.index = index;
    gpu.name = known.name;
    gpu.uuid = known.uuid;
    gpu.lost = true;
  }
  known = gpu;
  return gpu;
}

void NvmlReader::read_device(abi::Device device, GpuHealth& gpu) {
  const NvmlFunctions& nvml = library_.functions();
  char text[abi::kTextSize] = {};
  if (call(nvml.name, device, text, abi::kTextSize) == abi::kSuccess) gpu.name = text;
  if (call(nvml.uuid, device, text, abi::kTextSize) == abi::kSuccess) gpu.uuid = text;
  gpu.pids = pids_of(device);
  unsigned long long wide = 0;
  if (call(nvml.throttle_reasons, device, &wide) == abi::kSuccess) gpu.throttle = wide;
  unsigned value = 0;
  if (call(nvml.clock, device, abi::kSmClock, &value) == abi::kSuccess) gpu.clock = static_cast<int>(value);
  if (call(nvml.max_clock, device, abi::kSmClock, &value) == abi::kSuccess) gpu.max_clock = static_cast<int>(value);
  if (call(nvml.temperature, device, abi::kGpuTemperature, &value) == abi::kSuccess)
    gpu.temperature = static_cast<int>(value);
  if (call(nvml.ecc_errors, device, abi::kUncorrected, abi::kVolatile, &wide) == abi::kSuccess) gpu.uncorrected = wide;
  if (call(nvml.ecc_errors, device, abi::kUncorrected, abi::kAggregate, &wide) == abi::kSuccess)
    gpu.uncorrected_ever = wide;
  unsigned corrected_rows = 0, uncorrected_rows = 0, pending = 0, failed = 0;
  if (call(nvml.remapped_rows, device, &corrected_rows, &uncorrected_rows, &pending, &failed) == abi::kSuccess) {
    gpu.rows_pending = pending != 0;
    gpu.rows_failed = failed != 0;
  }
  gpu.links = links_of(device);
}

std::vector<int> NvmlReader::pids_of(abi::Device device) {
  const NvmlFunctions& nvml = library_.functions();
  if (nvml.processes != nullptr) return list_pids(nvml.processes, device);
  return nvml.first_processes == nullptr ? std::vector<int>{} : list_pids(nvml.first_processes, device);
}

std::vector<NvLinkHealth> NvmlReader::links_of(abi::Device device) {
  const NvmlFunctions& nvml = library_.functions();
  std::vector<NvLinkHealth> links;
  for (unsigned i = 0; i < abi::kLinks; ++i) {
    unsigned active = 0;
    if (call(nvml.link_state, device, i, &active) != abi::kSuccess) break;  // a GPU without it, or behind its last one
    NvLinkHealth& link = links.emplace_back();
    link.link = static_cast<int>(i);
    link.active = active != 0;
    const auto read = [&](unsigned counter, std::uint64_t& value) {
      unsigned long long count = 0;
      if (link.active && call(nvml.link_errors, device, i, counter, &count) == abi::kSuccess) value = count;
    };
    read(abi::kReplays, link.replays);
    read(abi::kRecoveries, link.recoveries);
    read(abi::kFlitErrors, link.flit_errors);
  }
  return links;
}

std::vector<GpuXid> NvmlReader::take_xids() {
  std::vector<GpuXid> xids;
  if (events_ == nullptr) return xids;
  for (int i = 0; i < kMostEvents; ++i) {
    abi::EventData event{};
    if (call(library_.functions().wait_for_event, events_, &event, 0U) != abi::kSuccess) break;
    const auto device = std::find(devices_.begin(), devices_.end(), event.device);
    if ((event.type & abi::kCriticalXid) == 0 || device == devices_.end()) continue;
    xids.push_back({static_cast<int>(device - devices_.begin()), static_cast<int>(event.data)});
  }
  return xids;
}

}  // namespace tutti::gpu
