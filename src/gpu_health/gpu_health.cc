#include "gpu_health/gpu_health.hpp"

#include <algorithm>

namespace tutti::gpu {
namespace {

struct ThrottleReason {
  std::uint64_t bit;
  const char* name;
};

// Hardware slowdown is set together with its cause, where that is known.
constexpr ThrottleReason kThermal = {0x40, "hardware thermal slowdown"};
constexpr ThrottleReason kBrake = {0x80, "hardware power brake"};
constexpr ThrottleReason kSlowdown = {0x08, "hardware slowdown"};
constexpr ThrottleReason kReasons[] = {
    kThermal, kBrake, kSlowdown, {0x20, "software thermal slowdown"}, {0x04, kPowerCap}};

}  // namespace

std::vector<std::string> throttle_names(std::uint64_t reasons) {
  if ((reasons & (kThermal.bit | kBrake.bit)) != 0) reasons &= ~kSlowdown.bit;
  std::vector<std::string> names;
  for (const ThrottleReason& each : kReasons)
    if ((reasons & each.bit) != 0) names.emplace_back(each.name);
  return names;
}

std::uint64_t link_errors_of(const GpuHealth& gpu) {
  std::uint64_t errors = 0;
  for (const NvLinkHealth& each : gpu.links) errors += each.replays + each.recoveries + each.flit_errors;
  return errors;
}

int active_links_of(const GpuHealth& gpu) {
  return static_cast<int>(
      std::count_if(gpu.links.begin(), gpu.links.end(), [](const NvLinkHealth& each) { return each.active; }));
}

}  // namespace tutti::gpu
