// Sets of small numbers (ranks, vertices) as text, the way the kernel writes them: "0-3,8".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti {

/// `numbers` ascending, none twice.
std::string show_numbers(const std::vector<int>& numbers);

/// Ascending numbers below `limit`; the error says what is wrong with the text.
Result<std::vector<int>> parse_numbers(std::string_view text, int limit);

}  // namespace tutti
