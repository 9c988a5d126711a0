#include "cli/synthesis/synth_sizes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/support/parse.hpp"

namespace tutti::cli {

Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text, double factor) {
  std::vector<std::uint64_t> sizes;
  while (true) {
    const std::string_view part = text.substr(0, text.find(','));
    const auto dots = part.find("..");
    const auto first = parse_bytes(part.substr(0, dots));
    if (!first) return tl::unexpected(first.error());
    const auto last = dots == std::string_view::npos ? first : parse_bytes(part.substr(dots + 2));
    if (!last) return tl::unexpected(last.error());
    if (*first == 0) return fail(ErrorCode::invalid_argument, fmt::format("'{}': a size must be above 0", part));
    if (*last < *first) return fail(ErrorCode::invalid_argument, fmt::format("'{}' goes downwards", part));
    for (double size = static_cast<double>(*first); size < static_cast<double>(*last) * 0.999; size *= factor)
      sizes.push_back(static_cast<std::uint64_t>(std::llround(size)));
    sizes.push_back(*last);
    if (part.size() == text.size()) break;
    text.remove_prefix(part.size() + 1);
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

}  // namespace tutti::cli
