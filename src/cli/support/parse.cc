#include "cli/support/parse.hpp"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <cstdlib>

namespace tutti::cli {
namespace {

constexpr std::string_view kUnits = "KMGT";

int to_number(std::string_view text) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

}  // namespace

Result<std::size_t> parse_bytes(std::string_view text) {
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a size; expected e.g. 8, 64K, 1.5M, 2G", text));
  };
  const std::string copy(text);
  char* end = nullptr;
  const double number = std::strtod(copy.c_str(), &end);
  if (end == copy.c_str() || !std::isfinite(number) || number < 0) return bad();
  double unit = 1.0;
  if (*end != '\0') {
    const std::size_t index = kUnits.find(static_cast<char>(std::toupper(*end)));
    if (index == std::string_view::npos) return bad();
    unit = std::ldexp(1.0, 10 * static_cast<int>(index + 1));
    ++end;
    if (*end == 'B' || *end == 'b') ++end;
  }
  if (*end != '\0' || number * unit >= 0x1p63) return bad();
  return static_cast<std::size_t>(number * unit);
}

std::string show_bytes(std::size_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (value /= 1024; value >= 1024 && unit + 1 < kUnits.size(); value /= 1024) ++unit;
  const int decimals = value == std::floor(value) || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}B", value, decimals, kUnits[unit]);
}

Result<std::vector<int>> parse_number_list(std::string_view text) {
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a list of numbers; expected e.g. 0-3,8", text));
  };
  std::vector<int> numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t dash = part.find('-');
    const int first = to_number(part.substr(0, dash));
    const int last = dash == std::string_view::npos ? first : to_number(part.substr(dash + 1));
    if (first < 0 || last < first || last - first > 1'000'000) return bad();
    for (int number = first; number <= last; ++number) numbers.push_back(number);
  }
  return numbers;
}

}  // namespace tutti::cli
