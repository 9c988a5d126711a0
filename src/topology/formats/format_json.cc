#include "topology/formats/format_json.hpp"

#include <fmt/format.h>

#include <optional>
#include <unordered_map>

#include "documents/json_value.hpp"
#include "topology/quantity.hpp"

namespace tutti {
namespace {

constexpr std::string_view kFormat = "tutti topology 1";
constexpr std::size_t kMostText = std::size_t{64} << 20;
constexpr std::size_t kMostVertices = 1'000'000;
constexpr int kDepth = 8;

class TopologyReader {
 public:
  Topology read(const JsonValue& document) {
    document.expect_keys({"format", "name", "units", "vertices", "links"});
    if (const JsonValue format = document.at("format"); format.text() != kFormat)
      format.fail(fmt::format("{} is not '{}'", format.shown(), kFormat));
    if (document.has("name")) topology_.set_name(document.at("name").text());
    if (document.has("units")) read_units(document.at("units"));
    const auto vertices = document.at("vertices").elements();
    if (vertices.size() > kMostVertices) document.at("vertices").fail(fmt::format("more than {}", kMostVertices));
    for (const JsonValue& vertex : vertices) read_vertex(vertex);
    const auto links = document.at("links").elements();
    std::vector<std::size_t> entry_of;  // [link], of which a duplex entry makes two
    for (std::size_t entry = 0; entry < links.size(); ++entry) {
      read_link(links[entry]);
      entry_of.resize(topology_.links().size(), entry);
    }
    if (const auto flaw = find_flaw(topology_)) {
      if (flaw->vertex >= 0) vertices[std::size_t(flaw->vertex)].fail(flaw->why);
      if (flaw->link >= 0) links[entry_of[std::size_t(flaw->link)]].fail(flaw->why);
      document.fail(flaw->why);
    }
    return std::move(topology_);
  }

 private:
  void read_units(const JsonValue& units) {
    units.expect_keys({"bandwidth", "latency"});
    const auto take = [&](std::string_view key, auto parse, std::optional<Rational>& worth) {
      if (!units.has(key)) return;
      const auto parsed = parse(units.at(key).text());
      if (!parsed) units.at(key).fail(parsed.error().message);
      worth = *parsed;
    };
    take("bandwidth", bandwidth_unit, bandwidth_worth_);
    take("latency", latency_unit, latency_worth_);
  }

  void read_vertex(const JsonValue& vertex) {
    vertex.expect_keys({"gpu", "nic", "switch", "node", "multicasts", "reduces"});
    if (int(vertex.has("gpu")) + int(vertex.has("nic")) + int(vertex.has("switch")) != 1)
      vertex.fail("needs one of 'gpu', 'nic' or 'switch' with the vertex's name");
    const int node = vertex.has("node") ? int(vertex.at("node").integer(0, kMostVertices)) : kSharedNode;
    const auto skill = [&](std::string_view key) { return vertex.has(key) && vertex.at(key).flag(); };
    const SwitchSkills skills{skill("multicasts"), skill("reduces")};
    if (!vertex.has("switch") && skills != SwitchSkills{}) vertex.fail("only a switch multicasts or reduces");
    const JsonValue name = vertex.at(vertex.has("gpu") ? "gpu" : vertex.has("nic") ? "nic" : "switch");
    if (!index_.emplace(name.text(), topology_.vertex_count()).second)
      name.fail(fmt::format("{} names two vertices", name.shown()));
    if (vertex.has("gpu")) topology_.add_gpu(name.text(), node);
    if (vertex.has("nic")) topology_.add_nic(name.text(), node);
    if (vertex.has("switch")) topology_.add_switch(name.text(), node, skills);
  }

  void read_link(const JsonValue& link) {
    link.expect_keys({"from", "to", "bandwidth", "latency", "name", "duplex"});
    const Link read{end_of(link.at("from")), end_of(link.at("to")),
                    quantity(link.at("bandwidth"), parse_bandwidth, bandwidth_worth_),
                    quantity(link.at("latency"), parse_latency, latency_worth_),
                    link.has("name") ? link.at("name").text() : ""};
    if (read.capacity.is_zero()) link.at("bandwidth").fail("is 0; where there is no link, leave it out");
    if (link.has("duplex") && link.at("duplex").flag())
      topology_.add_duplex(read);
    else
      topology_.add_link(read);
  }

  int end_of(const JsonValue& name) const {
    const auto found = index_.find(name.text());
    if (found == index_.end()) name.fail(fmt::format("{} names no vertex", name.shown()));
    return found->second;
  }

  static Rational quantity(const JsonValue& value, Result<Rational> (*parse)(std::string_view),
                           const std::optional<Rational>& worth) {
    if (value.is_number()) {
      if (!worth) value.fail(fmt::format("{} has no unit, and \"units\" gives none", value.shown()));
      try {
        return Rational::parse(value.decimal()) * *worth;
      } catch (const std::exception& error) {
        value.fail(error.what());
      }
    }
    const auto parsed = parse(value.text());
    if (!parsed) value.fail(parsed.error().message);
    return *parsed;
  }

  Topology topology_;
  std::unordered_map<std::string, int> index_;
  std::optional<Rational> bandwidth_worth_, latency_worth_;
};

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string vertex_line(const Vertex& vertex) {
  std::string line = fmt::format("{{\"{}\": {}", name_of(vertex.kind), quoted(vertex.name));
  if (vertex.node != kSharedNode) line += fmt::format(", \"node\": {}", vertex.node);
  if (vertex.skills.multicasts) line += ", \"multicasts\": true";
  if (vertex.skills.reduces) line += ", \"reduces\": true";
  return line + "}";
}

std::string link_line(const Topology& topology, const Link& link, bool duplex) {
  std::string line = fmt::format("{{\"from\": {}, \"to\": {}, \"bandwidth\": \"{}\", \"latency\": \"{}\"",
                                 quoted(topology.vertex(link.from).name), quoted(topology.vertex(link.to).name),
                                 show_bandwidth(link.capacity), show_latency(link.latency));
  if (!link.name.empty()) line += ", \"name\": " + quoted(link.name);
  if (duplex) line += ", \"duplex\": true";
  return line + "}";
}

/// A link with the next in order as its way back, as add_duplex makes them.
bool is_duplex(const Topology& topology, int index) {
  if (index + 1 >= topology.link_count()) return false;
  Link back = topology.link(index + 1);
  std::swap(back.from, back.to);
  return back == topology.link(index);
}

std::vector<std::string> link_lines(const Topology& topology) {
  std::vector<std::string> lines;
  for (int i = 0; i < topology.link_count(); ++i) {
    const bool duplex = is_duplex(topology, i);
    lines.push_back(link_line(topology, topology.link(i), duplex));
    if (duplex) ++i;
  }
  return lines;
}

std::string list_of(const std::vector<std::string>& lines) {
  std::string text = "[";
  for (const std::string& line : lines) text += fmt::format("{}\n    {}", text.size() == 1 ? "" : ",", line);
  return text + "\n  ]";
}

}  // namespace

Result<Topology> topology_from_json(std::string_view text) {
  if (text.size() > kMostText)
    return fail(ErrorCode::invalid_argument, fmt::format("{} bytes of text; at most {}", text.size(), kMostText));
  try {
    const JsonDocument document(text, kDepth);
    return TopologyReader().read(JsonValue(document));
  } catch (const InputError& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

std::string topology_to_json(const Topology& topology) {
  std::vector<std::string> vertices;
  for (const Vertex& vertex : topology.vertices()) vertices.push_back(vertex_line(vertex));
  return fmt::format("{{\n  \"format\": \"{}\",\n  \"name\": {},\n  \"vertices\": {},\n  \"links\": {}\n}}\n", kFormat,
                     quoted(topology.name()), list_of(vertices), list_of(link_lines(topology)));
}

}  // namespace tutti
