// Sizes as people give them to the synthesizer. Pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::cli {

/// "64K", "1K,1M", "1K..1G" (in steps of `factor`, the last size included), or these together; ascending.
Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text, double factor);

}  // namespace tutti::cli
