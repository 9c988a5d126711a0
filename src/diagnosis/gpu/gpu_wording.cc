#include "diagnosis/gpu/gpu_wording.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "diagnosis/wording.hpp"

namespace tutti::diagnosis {
namespace {

struct XidMeaning {
  int first, last;
  const char* text;
};

// https://docs.nvidia.com/deploy/xid-errors, those that end or stop a process.
constexpr XidMeaning kMeanings[] = {
    {13, 13, "an exception in a kernel, usually the application's fault"},
    {31, 31, "a page fault, usually the application's fault"},
    {43, 43, "the application's work was stopped"},
    {45, 45, "work was removed after an earlier error"},
    {48, 48, "a double-bit ECC error"},
    {61, 62, "its microcontroller stopped"},
    {63, 63, "bad memory is to be replaced"},
    {64, 64, "bad memory could not be replaced"},
    {74, 74, "an NVLink error"},
    {79, 79, "it has fallen off the bus"},
    {92, 92, "many single-bit ECC errors"},
    {94, 94, "a contained ECC error"},
    {95, 95, "an uncontained ECC error"},
    {119, 120, "its system processor does not answer"},
    {140, 140, "an ECC error that was not corrected"},
    {144, 150, "an NVLink error"},
};

/// "1,005"
std::string grouped(int number) {
  std::string digits = fmt::format("{}", number);
  for (int place = static_cast<int>(digits.size()) - 3; place > 0; place -= 3)
    digits.insert(static_cast<std::size_t>(place), 1, ',');
  return digits;
}

}  // namespace

std::string throttle_text(const GpuFacts& gpu) {
  if (gpu.clock <= 0 || gpu.max_clock <= 0)
    return fmt::format("is slowed down for {:.0f} % of the time, {}", 100 * gpu.throttled, gpu.throttle);
  return fmt::format("runs at {} of {} MHz, {}", grouped(gpu.clock), grouped(gpu.max_clock), gpu.throttle);
}

std::string xid_text(const XidFacts& xid, double now) {
  const auto meaning = std::find_if(std::begin(kMeanings), std::end(kMeanings), [&](const XidMeaning& each) {
    return xid.code >= each.first && xid.code <= each.last;
  });
  return fmt::format("reported XID {}{} {} ago", xid.code,
                     meaning == std::end(kMeanings) ? "" : fmt::format(" ({})", meaning->text), lasting(now - xid.at));
}

std::string memory_text(const GpuFacts& gpu) {
  if (gpu.rows_failed) return "has bad memory and nothing left to replace it with";
  if (gpu.uncorrected > 0)
    return fmt::format("has counted {} uncorrected ECC error{} since its driver was loaded", gpu.uncorrected,
                       gpu.uncorrected == 1 ? "" : "s");
  return gpu.rows_pending ? "has bad memory, which is replaced at its next reset" : "";
}

std::string link_text(const GpuFacts& gpu) {
  std::string text;
  if (gpu.links_down > 0)
    text = fmt::format("has {} NVLink{} fewer than others of its host", gpu.links_down, gpu.links_down == 1 ? "" : "s");
  if (gpu.link_errors > 0)
    text += fmt::format("{}has counted {} NVLink error{} within a minute", text.empty() ? "" : " and ", gpu.link_errors,
                        gpu.link_errors == 1 ? "" : "s");
  return text;
}

bool is_consequence(const XidFacts& xid) { return xid.code == 43 || xid.code == 45; }

}  // namespace tutti::diagnosis
