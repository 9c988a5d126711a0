#include "selection/selection.hpp"

#include <fmt/core.h>

#include <charconv>
#include <optional>

namespace tutti {
namespace {

// Tiles: what a rank puts into a pipe before it takes its turn, what it reduces of its peers' memory at a time.
constexpr std::size_t kPipeTile = 64 << 10;
constexpr std::size_t kLargePipeTile = 256 << 10;
constexpr std::size_t kMappedTile = 4 << 20;
// From so many ranks on, small messages go along trees. If everybody sends to everybody, each rank maps the memory of
// all others, and most ranks wait for their turn on a core: at 256 ranks on 2 cores a barrier took 20 s, and takes 20
// ms.
constexpr int kTreeRanks = 33;

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

std::string show_program(const std::string& name, std::size_t tile) {
  return tile == 0 ? name : fmt::format("{}@{}", name, show_size(tile));
}

std::optional<Collective> parse_collective(std::string_view text) {
  for (int index = 0; index < kCollectives; ++index)
    if (text == name_of(static_cast<Collective>(index))) return static_cast<Collective>(index);
  return std::nullopt;
}

tl::unexpected<Error> unreadable(std::string_view rule, std::string_view part, std::string_view expected) {
  return fail(ErrorCode::invalid_argument, fmt::format("selection rule '{}': '{}' is not {}", rule, part, expected));
}

Result<SelectionRule> parse_rule(std::string_view text) {
  const auto fields = split(text, ':');
  if (fields.size() != 3) return unreadable(text, text, "of the form collective:range:program");
  SelectionRule rule;
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
  const auto programs = split(fields[2], '|');
  if (programs.size() > 2) return unreadable(text, fields[2], "a program, or one and another for mapped memory");
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto parts = split(programs[i], '@');
    if (parts[0].empty() || parts.size() > 2) return unreadable(text, programs[i], "a program");
    const auto tile = parts.size() == 2 ? parse_size(parts[1]) : std::optional<std::uint64_t>(0);
    if (!tile) return unreadable(text, parts[1], "a tile size");
    (i == 0 ? rule.choice.algorithm : rule.choice.when_mapped) = parts[0];
    (i == 0 ? rule.choice.tile : rule.choice.mapped_tile) = *tile / 64 * 64;
  }
  return rule;
}

/// What runs in memory that all ranks can map; nothing where a choice per chunk, by its sender, does as well.
std::string_view mapped_program(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
      return "direct_push";
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return "direct_pull";
    default:
      return "";
  }
}

/// Up to where one hop each, with everything received by everybody, is best on one host.
std::size_t oneshot_limit(const CallContext& context) {
  const auto ranks = static_cast<std::size_t>(context.ranks);
  switch (context.collective) {
    case Collective::all_reduce:
      return context.ranks == 2 ? 8 << 10 : 4 << 10;
    case Collective::all_gather:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
    case Collective::reduce_scatter:
      return ranks * (4 << 10);
    default:
      return 8 << 10;
  }
}

Choice on_one_host(const CallContext& context) {
  if (context.ranks == 2 && (context.collective == Collective::broadcast || context.collective == Collective::reduce))
    return {.algorithm = "oneshot", .tile = one_way_tile(context.bytes)};
  const bool small = context.bytes <= oneshot_limit(context);
  const bool to_all = context.collective == Collective::all_reduce || context.collective == Collective::barrier;
  const bool any_order = !context.rank_order || context.collective == Collective::barrier;  // that reduces nothing
  if (small && to_all && context.ranks >= kTreeRanks && any_order) return {.algorithm = "binomial"};
  if (small) return {.algorithm = "oneshot"};
  const bool staged = context.ranks > 2 || (context.collective == Collective::all_reduce && context.bytes >= (1 << 20));
  Choice choice{.algorithm = staged ? "staged" : "oneshot"};
  if (!staged) choice.tile = context.bytes < (1 << 20) ? kPipeTile : kLargePipeTile;
  if (context.collective == Collective::gather || context.collective == Collective::scatter)
    choice = {.algorithm = "oneshot"};
  choice.when_mapped = mapped_program(context.collective);
  choice.mapped_tile = choice.when_mapped.empty() ? 0 : kMappedTile;
  return choice;
}

Choice across_hosts(const CallContext& context) {
  if (context.ranks == 2) return {.algorithm = "oneshot"};
  const bool levels = context.hosts < context.ranks && context.even_hosts && context.hosts > 1;
  const std::size_t small = 8 << 10;
  switch (context.collective) {
    case Collective::barrier:
    case Collective::all_reduce:
      if (context.bytes <= small) return {.algorithm = context.ranks <= 4 ? "oneshot" : "recursive_doubling"};
      return {.algorithm = levels ? "two_level" : "ring", .tile = 1 << 20};
    case Collective::all_gather:
      if (context.bytes <= small) return {.algorithm = context.ranks <= 8 ? "oneshot" : "bruck"};
      return {.algorithm = levels ? "two_level" : "ring", .tile = 1 << 20};
    case Collective::reduce_scatter:
      if (context.bytes <= small) return {.algorithm = "oneshot"};
      return {.algorithm = levels ? "two_level" : "ring", .tile = 1 << 20};
    case Collective::broadcast:
    case Collective::reduce:
      if (context.bytes <= small) return {.algorithm = "binomial"};
      return {.algorithm = "ring", .tile = 256 << 10};
    case Collective::all_to_all:
      if (context.bytes <= small && context.ranks > 8) return {.algorithm = "bruck"};
      return {.algorithm = "oneshot"};
    default:
      return {.algorithm = "oneshot"};
  }
}

}  // namespace

Result<std::vector<SelectionRule>> parse_rules(std::string_view text) {
  std::vector<SelectionRule> rules;
  for (const std::string_view part : split(text, ';')) {
    if (part.empty()) continue;
    Result<SelectionRule> rule = parse_rule(part);
    if (!rule) return tl::unexpected(rule.error());
    rules.push_back(std::move(*rule));
  }
  return rules;
}

std::string to_string(const std::vector<SelectionRule>& rules) {
  std::string text;
  for (const SelectionRule& rule : rules) {
    if (!text.empty()) text += ';';
    text += fmt::format("{}:", name_of(rule.collective));
    const bool all = rule.first == 0 && rule.last == ~std::uint64_t{0};
    if (all)
      text += '*';
    else
      text += fmt::format("{}-{}", show_size(rule.first), rule.last == ~std::uint64_t{0} ? "" : show_size(rule.last));
    text += ':' + show_program(rule.choice.algorithm, rule.choice.tile);
    if (!rule.choice.when_mapped.empty()) text += '|' + show_program(rule.choice.when_mapped, rule.choice.mapped_tile);
  }
  return text;
}

std::size_t one_way_tile(std::size_t bytes) {
  constexpr std::size_t kPage = 4 << 10;
  if (bytes <= kPage) return 0;
  if (bytes <= 2 * kPage) return kPage;
  return bytes < (1 << 20) ? kPipeTile : kLargePipeTile;
}

Choice select(const CallContext& context, const std::vector<SelectionRule>& rules) {
  if (context.own_counts) return {.algorithm = "oneshot"};
  for (const SelectionRule& rule : rules)
    if (rule.collective == context.collective && rule.first <= context.bytes && context.bytes <= rule.last)
      return rule.choice;
  if (context.ranks == 1) return {.algorithm = "oneshot"};
  if (reduces(context.collective) && (context.rank_order || context.ordered) && context.hosts > 1)
    return {.algorithm = "oneshot"};
  return context.hosts == 1 ? on_one_host(context) : across_hosts(context);
}

}  // namespace tutti
