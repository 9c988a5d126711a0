#include "topology/number_set.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace tutti {
namespace {

std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, char wanted) {
  if (text.empty() || text.front() != wanted) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string show_numbers(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += last == i ? fmt::format("{}", numbers[i]) : fmt::format("{}-{}", numbers[i], numbers[last]);
    i = last + 1;
  }
  return text;
}

Result<std::vector<int>> parse_numbers(std::string_view text, int limit) {
  const auto bad = [&](std::string_view why) {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' {}; expected ascending numbers below {}, e.g. 0-3,8",
                                                         text.substr(0, 60), why, limit));
  };
  std::vector<int> numbers;
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto first = take_number(rest);
    const auto last = first && take(rest, '-') ? take_number(rest) : first;
    if (!first || !last || *last < *first) return bad("is no list of numbers");
    if (*last >= limit) return bad(fmt::format("holds {}", *last));
    if (!numbers.empty() && *first <= numbers.back()) return bad(fmt::format("is not in order at {}", *first));
    for (int number = *first; number <= *last; ++number) numbers.push_back(number);
    if (!rest.empty() && (!take(rest, ',') || rest.empty())) return bad("is no list of numbers");
  }
  return numbers;
}

}  // namespace tutti
