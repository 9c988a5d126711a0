#include "topology/builtin/builtin.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "documents/json_value.hpp"
#include "topology/builtin/builtin_parts.hpp"
#include "topology/quantity.hpp"

namespace tutti {
namespace {

const BuiltinParameter kNodes{"nodes", "1", "number of servers"};
const BuiltinParameter kLinkBandwidth{"bandwidth", "25 GB/s", "of each link, one way"};
const BuiltinParameter kLinkLatency{"latency", "0.7 us", "of each link"};

const std::vector<Builtin>& all() {
  static const std::vector<Builtin> kAll = {
      {"ndv2", "8 V100 in a cube mesh of NVLinks, one NIC for all", {kNodes}, make_ndv2},
      {"dgx2", "16 V100 around an NVSwitch, a NIC for every two", {kNodes}, make_dgx2},
      {"dgx-a100", "8 A100 around an NVSwitch, a NIC each", {kNodes}, make_dgx_a100},
      {"dgx-h100",
       "8 H100 around an NVSwitch that multicasts and reduces, a NIC each",
       {kNodes,
        {"fabric", "rail", "rail: the i-th NICs of all servers share a switch; leaf-spine: servers share leaves"},
        {"oversubscription", "1", "leaf-spine: bandwidth into a leaf over bandwidth up to the spine"},
        {"nodes_per_leaf", "4", "leaf-spine: servers behind one leaf"}},
       make_dgx_h100},
      {"mi250", "16 MI250 dies in a mesh of xGMI links, a NIC each", {kNodes}, make_mi250},
      {"torus2d", "a grid whose ends meet", {{"size", "4x4", "AxB"}, kLinkBandwidth, kLinkLatency}, make_torus2d},
      {"torus3d", "a cube whose ends meet", {{"size", "4x4x4", "AxBxC"}, kLinkBandwidth, kLinkLatency}, make_torus3d},
      {"mesh", "a grid with ends", {{"size", "4x4", "A, AxB or AxBxC"}, kLinkBandwidth, kLinkLatency}, make_mesh},
      {"hypercube",
       "GPUs whose numbers differ in one bit are linked",
       {{"size", "8", "GPUs, a power of two"}, kLinkBandwidth, kLinkLatency},
       make_hypercube},
      {"ring", "each GPU linked with the next", {{"size", "8", "GPUs"}, kLinkBandwidth, kLinkLatency}, make_ring},
  };
  return kAll;
}

const Builtin* find(std::string_view name) {
  for (const Builtin& builtin : all())
    if (builtin.name == name) return &builtin;
  return nullptr;
}

/// The words of a spec: "ndv2 --nodes 2" and "ndv2:nodes=2" both give {ndv2, nodes, 2}.
std::vector<std::string> words_of(std::string_view spec) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < spec.size();) {
    const std::size_t end = std::min(spec.find_first_of(" \t:,=", at), spec.size());
    std::string_view word = spec.substr(at, end - at);
    at = end + 1;
    if (word.substr(0, 2) == "--") word.remove_prefix(2);
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

bool is_number(std::string_view word) { return word.find_first_not_of("0123456789.") == std::string_view::npos; }
bool is_size(std::string_view word) { return word.find_first_not_of("0123456789x") == std::string_view::npos; }

std::string names(std::span<const BuiltinParameter> parameters) {
  std::vector<std::string_view> list;
  for (const BuiltinParameter& parameter : parameters) list.push_back(parameter.name);
  return fmt::format("{}", fmt::join(list, ", "));
}

BuiltinValues values_of(const Builtin& builtin, const std::vector<std::string>& words) {
  std::map<std::string, std::string, std::less<>> values;
  for (const BuiltinParameter& parameter : builtin.parameters) values.emplace(parameter.name, parameter.standard);
  for (std::size_t i = 1; i < words.size(); ++i) {
    // A size alone, as in "torus2d 8x10".
    if (i == 1 && is_size(words[i]) && values.count("size") != 0) {
      values["size"] = words[i];
      continue;
    }
    const auto known = values.find(words[i]);
    if (known == values.end())
      throw InputError(
          fmt::format("'{}' has no parameter '{}'; it has {}", builtin.name, words[i], names(builtin.parameters)));
    if (i + 1 == words.size()) throw InputError(fmt::format("'{}': '{}' has no value", builtin.name, words[i]));
    known->second = words[++i];
    // "25 GB/s" is two words.
    if (i + 1 < words.size() && is_number(words[i]) && words[i + 1].back() == 's' && values.count(words[i + 1]) == 0)
      known->second += " " + words[++i];
  }
  return BuiltinValues(std::move(values));
}

std::optional<int> whole(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

void BuiltinValues::refuse(std::string_view name, std::string_view expected) const {
  throw InputError(fmt::format("{}: '{}' is out of place; expected {}", name, text(name), expected));
}

int BuiltinValues::integer(std::string_view name, int least, int most) const {
  const auto number = whole(text(name));
  if (!number || *number < least || *number > most)
    refuse(name, fmt::format("a whole number from {} to {}", least, most));
  return *number;
}

std::vector<int> BuiltinValues::sizes(std::string_view name, int least, int most) const {
  std::vector<int> sizes;
  std::string_view rest = text(name);
  const std::string expected = fmt::format(
      "{} whole numbers from 2 on, e.g. {}",
      least == most ? fmt::format("{}", most) : fmt::format("{} to {}", least, most), most == 3 ? "4x4x2" : "4x8");
  std::int64_t product = 1;
  while (true) {
    const std::size_t end = std::min(rest.find('x'), rest.size());
    const auto number = whole(rest.substr(0, end));
    if (!number || *number < 2 || *number > kMostRanks) refuse(name, expected);
    sizes.push_back(*number);
    product *= *number;
    if (product > kMostRanks) refuse(name, fmt::format("at most {} GPUs", kMostRanks));
    if (end == rest.size()) break;
    rest.remove_prefix(end + 1);
  }
  if (static_cast<int>(sizes.size()) < least || static_cast<int>(sizes.size()) > most) refuse(name, expected);
  return sizes;
}

Rational BuiltinValues::bandwidth(std::string_view name) const {
  const auto parsed = parse_bandwidth(text(name));
  if (!parsed) throw InputError(fmt::format("{}: {}", name, parsed.error().message));
  return *parsed;
}

Rational BuiltinValues::latency(std::string_view name) const {
  const auto parsed = parse_latency(text(name));
  if (!parsed) throw InputError(fmt::format("{}: {}", name, parsed.error().message));
  return *parsed;
}

Rational BuiltinValues::ratio(std::string_view name) const {
  try {
    const Rational ratio = Rational::parse(text(name));
    if (ratio >= 1) return ratio;
  } catch (const std::exception&) {  // refused below, as any other text
  }
  refuse(name, "a number of 1 or more, e.g. 2 or 4/3");
}

std::string in_node(int node, std::string_view what) { return fmt::format("n{}.{}", node, what); }
std::string in_node(int node, std::string_view what, int number) { return fmt::format("n{}.{}{}", node, what, number); }

std::span<const Builtin> builtin_topologies() { return all(); }

bool names_builtin(std::string_view spec) {
  const auto words = words_of(spec);
  return !words.empty() && find(words.front()) != nullptr;
}

Result<Topology> make_builtin(std::string_view spec) {
  const auto words = words_of(spec);
  const Builtin* builtin = words.empty() ? nullptr : find(words.front());
  if (builtin == nullptr) {
    std::vector<std::string_view> known;
    for (const Builtin& candidate : all()) known.push_back(candidate.name);
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' names no built-in topology; there are {}", spec, fmt::join(known, ", ")));
  }
  try {
    Topology topology = builtin->make(values_of(*builtin, words));
    topology.set_name(std::string(spec));
    if (Status status = validate(topology); !status) return tl::unexpected(status.error());
    return topology;
  } catch (const std::exception& error) {
    return fail(ErrorCode::invalid_argument, fmt::format("topology '{}': {}", spec, error.what()));
  }
}

}  // namespace tutti
