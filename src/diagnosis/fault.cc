#include "diagnosis/fault.hpp"

#include <cstddef>
#include <iterator>

namespace tutti::diagnosis {
namespace {

constexpr std::string_view kNames[] = {
    "crashed",    "frozen",    "missing_at_start", "not_entered",   "transfer_stuck", "mismatched_call",
    "deadlocked", "slow_link", "slow_sender",      "slow_receiver", "slow_path",      "straggler",
    "starved",    "flapping",  "path_down",        "unobserved",    "repeated",       "corrupted"};
static_assert(std::size(kNames) == kFaultClasses);

}  // namespace

std::string_view name_of(FaultClass fault) { return kNames[static_cast<std::size_t>(fault)]; }

std::optional<FaultClass> fault_of(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return static_cast<FaultClass>(i);
  return std::nullopt;
}

}  // namespace tutti::diagnosis
