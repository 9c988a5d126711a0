#include "selection/selection.hpp"

#include <fmt/core.h>

#include <charconv>
#include <optional>

namespace tutti {
namespace {

constexpr std::size_t kPullTile = 256 << 10;
constexpr std::size_t kPushTile = 1 << 20;

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::string_view kUnits = "KMG";
  if (unit.empty()) return value;
  const std::size_t power = unit.size() == 1 ? kUnits.find(unit[0]) : std::string_view::npos;
  if (power == std::string_view::npos || value > (~std::uint64_t{0} >> (10 * (power + 1)))) return std::nullopt;
  return value << (10 * (power + 1));
}

std::string show_size(std::uint64_t size) {
  for (int power = 3; power > 0; --power)
    if (size != 0 && size % (std::uint64_t{1} << (10 * power)) == 0)
      return fmt::format("{}{}", size >> (10 * power), "KMG"[power - 1]);
  return std::to_string(size);
}

std::optional<Collective> parse_collective(std::string_view text) {
  for (int index = 0; index < kCollectives; ++index)
    if (text == name_of(static_cast<Collective>(index))) return static_cast<Collective>(index);
  return std::nullopt;
}

tl::unexpected<Error> unreadable(std::string_view rule, std::string_view part, std::string_view expected) {
  return fail(ErrorCode::invalid_argument, fmt::format("selection rule '{}': '{}' is not {}", rule, part, expected));
}

Result<Rule> parse_rule(std::string_view text) {
  const auto fields = split(text, ':');
  if (fields.size() != 3) return unreadable(text, text, "of the form collective:range:program");
  Rule rule;
  const auto collective = parse_collective(fields[0]);
  if (!collective) return unreadable(text, fields[0], "a collective");
  rule.collective = *collective;
  if (fields[1] != "*") {
    const auto ends = split(fields[1], '-');
    const auto first = parse_size(ends[0]);
    const auto last = ends.size() == 2 && !ends[1].empty() ? parse_size(ends[1]) : std::optional(~std::uint64_t{0});
    if (!first || !last || ends.size() != 2 || *first > *last)
      return unreadable(text, fields[1], "a range of sizes such as 0-32K or 1M-");
    rule.first = *first;
    rule.last = *last;
  }
  const auto program = split(fields[2], '@');
  if (program[0].empty() || program.size() > 2) return unreadable(text, fields[2], "a program");
  const auto names = split(program[0], '|');
  if (names[0].empty() || names.size() > 2) return unreadable(text, program[0], "a program, or pulling|pushing");
  rule.choice.algorithm = names[0];
  if (names.size() == 2) rule.choice.when_mapped = names[1];
  if (program.size() == 2) {
    const auto tile = parse_size(program[1]);
    if (!tile) return unreadable(text, program[1], "a tile size");
    rule.choice.tile = *tile / 64 * 64;
  }
  return rule;
}

Choice direct(const Situation& s) {
  Choice choice{"direct_pull", "", kPullTile};
  if (s.collective == Collective::all_reduce || s.collective == Collective::all_gather)
    choice.when_mapped = "direct_push";
  return choice;
}

/// Up to where one hop each, with everything received by everybody, is best on one host.
std::size_t oneshot_limit(const Situation& s) {
  switch (s.collective) {
    case Collective::all_reduce:
      return s.ranks == 2 ? 16 << 10 : 4 << 10;
    case Collective::all_gather:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return static_cast<std::size_t>(s.ranks) * (4 << 10);
    case Collective::reduce_scatter:
      return static_cast<std::size_t>(s.ranks) * (4 << 10);
    default:
      return 8 << 10;
  }
}

Choice on_one_host(const Situation& s) {
  if (s.bytes <= oneshot_limit(s)) return {"oneshot", "", 0};
  if (s.pull) return direct(s);
  switch (s.collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::broadcast:
    case Collective::reduce:
      return {"ring", "", kPushTile};
    default:
      return {"oneshot", "", 0};
  }
}

Choice across_hosts(const Situation& s) {
  const bool levels = s.hosts < s.ranks && s.even_hosts && s.hosts > 1;
  const std::size_t small = 8 << 10;
  switch (s.collective) {
    case Collective::all_reduce:
      if (s.bytes <= small) return {s.ranks <= 4 ? "oneshot" : "recursive_doubling", "", 0};
      return {levels ? "two_level" : "ring", "", 1 << 20};
    case Collective::all_gather:
      if (s.bytes <= small) return {s.ranks <= 8 ? "oneshot" : "bruck", "", 0};
      return {levels ? "two_level" : "ring", "", 1 << 20};
    case Collective::reduce_scatter:
      if (s.bytes <= small) return {"oneshot", "", 0};
      return {levels ? "two_level" : "ring", "", 1 << 20};
    case Collective::broadcast:
    case Collective::reduce:
      if (s.bytes <= small) return {"binomial", "", 0};
      return {s.ranks <= 2 ? "oneshot" : "ring", "", 256 << 10};
    case Collective::all_to_all:
      if (s.bytes <= small && s.ranks > 8) return {"bruck", "", 0};
      return {"oneshot", "", 0};
    default:
      return {"oneshot", "", 0};
  }
}

}  // namespace

Result<std::vector<Rule>> parse_rules(std::string_view text) {
  std::vector<Rule> rules;
  for (const std::string_view part : split(text, ';')) {
    if (part.empty()) continue;
    Result<Rule> rule = parse_rule(part);
    if (!rule) return tl::unexpected(rule.error());
    rules.push_back(std::move(*rule));
  }
  return rules;
}

std::string to_string(const std::vector<Rule>& rules) {
  std::string text;
  for (const Rule& rule : rules) {
    if (!text.empty()) text += ';';
    text += fmt::format("{}:", name_of(rule.collective));
    const bool all = rule.first == 0 && rule.last == ~std::uint64_t{0};
    if (all)
      text += '*';
    else
      text += fmt::format("{}-{}", show_size(rule.first), rule.last == ~std::uint64_t{0} ? "" : show_size(rule.last));
    text += fmt::format(":{}", rule.choice.algorithm);
    if (!rule.choice.when_mapped.empty()) text += fmt::format("|{}", rule.choice.when_mapped);
    if (rule.choice.tile != 0) text += fmt::format("@{}", show_size(rule.choice.tile));
  }
  return text;
}

Choice select(const Situation& s, const std::vector<Rule>& rules) {
  if (s.own_counts) return {"oneshot", "", 0};
  for (const Rule& rule : rules)
    if (rule.collective == s.collective && rule.first <= s.bytes && s.bytes <= rule.last) return rule.choice;
  if (s.ranks == 1) return {"oneshot", "", 0};
  if (reduces(s.collective) && (s.rank_order || s.ordered)) {
    const bool large = s.bytes > oneshot_limit(s);
    return s.hosts == 1 && s.pull && large ? direct(s) : Choice{"oneshot", "", 0};
  }
  return s.hosts == 1 ? on_one_host(s) : across_hosts(s);
}

}  // namespace tutti
