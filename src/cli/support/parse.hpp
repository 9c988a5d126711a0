// Values people write on a command line. Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/error.hpp"

namespace tutti::cli {

/// "8", "64K", "1.5M", "2G" (powers of 1024), as bytes.
Result<std::size_t> parse_bytes(std::string_view text);

/// "8 B", "64 KB", "1.5 MB": three significant digits, powers of 1024.
std::string show_bytes(std::size_t bytes);

/// A list of numbers as the kernel writes it, "0-3,8", as its members.
Result<std::vector<int>> parse_number_list(std::string_view text);

}  // namespace tutti::cli
