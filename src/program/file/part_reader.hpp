// Reads what a native file says of one rank, or of all ranks at once: workers, steps and loops (pattern.hpp). Every
// number is shown to stay in range before it is used. Errors are thrown as InputError, with the place in the file.
// Internal to the reader of native files (format_json.hpp); keeps no state.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "documents/json_value.hpp"
#include "program/file/pattern.hpp"
#include "program/program.hpp"

namespace tutti {

inline constexpr int kMaxRanksOfFile = 65536;
inline constexpr std::int64_t kMaxChunksOfBuffer = 1 << 30;

/// Returns the value of an enumeration, whose `count` values have names, by its name.
template <typename Enum>
Enum read_name(const JsonValue& value, int count, std::string_view what) {
  std::vector<std::string_view> names;
  for (int i = 0; i < count; ++i) names.push_back(name_of(static_cast<Enum>(i)));
  const auto found = std::find(names.begin(), names.end(), value.text());
  if (found == names.end()) {
    value.fail(fmt::format("{} is no {}; expected one of {}", value.shown(), what, fmt::join(names, ", ")));
  }
  return static_cast<Enum>(found - names.begin());
}

/// Reads the part of the ranks from `first_rank` to `last_rank`. Evaluations that show numbers to stay in range are
/// taken from `proof_budget`. Sets `one_sided` if a step touches another rank's memory.
RankPattern read_part(const JsonValue& value, const Shape& shape, int first_rank, int last_rank,
                      std::int64_t& proof_budget, bool& one_sided);

}  // namespace tutti
