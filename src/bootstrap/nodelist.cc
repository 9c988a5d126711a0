#include "bootstrap/nodelist.hpp"

#include <fmt/core.h>

#include <charconv>
#include <optional>

namespace tutti {
namespace {

constexpr std::size_t kMaxNames = 65536;

std::optional<long> parse_number(std::string_view text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || text.front() == '-' || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

// Cuts at commas outside brackets. Empty where brackets do not close.
std::optional<std::vector<std::string_view>> split(std::string_view text) {
  std::vector<std::string_view> items;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (depth < 0 || depth > 1) return std::nullopt;
    if (i < text.size() && (text[i] != ',' || depth != 0)) continue;
    items.push_back(text.substr(start, i - start));
    start = i + 1;
  }
  if (depth != 0) return std::nullopt;
  return items;
}

// "1-3" or "07": the numbers, with the zeros they are written with.
bool expand_range(std::string_view range, std::vector<std::string>& numbers) {
  const auto dash = range.find('-');
  const std::string_view first_text = range.substr(0, dash);
  const auto first = parse_number(first_text);
  const auto last = dash == std::string_view::npos ? first : parse_number(range.substr(dash + 1));
  if (!first || !last || *last < *first || static_cast<std::size_t>(*last - *first) >= kMaxNames) return false;
  for (long number = *first; number <= *last; ++number)
    numbers.push_back(fmt::format("{:0{}}", number, first_text.size()));
  return numbers.size() <= kMaxNames;
}

// One item, brackets from left to right.
bool expand_item(std::string_view item, std::vector<std::string>& names) {
  std::vector<std::string> made = {""};
  while (!item.empty()) {
    const auto open = item.find('[');
    for (std::string& name : made) name += item.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = item.find(']', open);
    std::vector<std::string> numbers;
    const auto ranges = split(item.substr(open + 1, close - open - 1));
    if (!ranges) return false;
    for (const std::string_view range : *ranges)
      if (!expand_range(range, numbers)) return false;
    if (made.size() * numbers.size() > kMaxNames) return false;
    std::vector<std::string> longer;
    for (const std::string& name : made)
      for (const std::string& number : numbers) longer.push_back(name + number);
    made = std::move(longer);
    item.remove_prefix(close + 1);
  }
  for (std::string& name : made) names.push_back(std::move(name));
  return names.size() <= kMaxNames;
}

}  // namespace

Result<std::vector<std::string>> expand_nodelist(std::string_view text) {
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a list of nodes such as node[1-3,7]", text));
  };
  const auto items = split(text);
  if (!items) return bad();
  std::vector<std::string> names;
  for (const std::string_view item : *items)
    if (item.empty() || !expand_item(item, names)) return bad();
  return names;
}

Result<std::vector<int>> expand_tasks_per_node(std::string_view text) {
  const auto bad = [&] {
    return fail(ErrorCode::invalid_argument, fmt::format("'{}' is not a list of tasks such as 4(x2),1", text));
  };
  const auto items = split(text);
  if (!items) return bad();
  std::vector<int> tasks;
  for (const std::string_view item : *items) {
    const auto open = item.find("(x");
    const auto count = parse_number(item.substr(0, open));
    const bool repeated = open != std::string_view::npos && item.back() == ')';
    const auto times = repeated ? parse_number(item.substr(open + 2, item.size() - open - 3)) : std::optional<long>(1);
    if (!count || !times || (!repeated && open != std::string_view::npos)) return bad();
    if (*count > 1 << 20 || *times + tasks.size() > kMaxNames) return bad();
    tasks.insert(tasks.end(), static_cast<std::size_t>(*times), static_cast<int>(*count));
  }
  return tasks;
}

}  // namespace tutti
