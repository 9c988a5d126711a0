#include "topology/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <unordered_set>
#include <utility>

#include "topology/number_set.hpp"

namespace tutti {

std::string_view name_of(VertexKind kind) {
  switch (kind) {
    case VertexKind::gpu:
      return "gpu";
    case VertexKind::nic:
      return "nic";
    case VertexKind::switch_:
      return "switch";
  }
  return "?";
}

int Topology::add_vertex(Vertex vertex) {
  const int index = vertex_count();
  nodes_ = std::max(nodes_, vertex.node + 1);
  vertices_.push_back(std::move(vertex));
  out_links_.emplace_back();
  in_links_.emplace_back();
  return index;
}

int Topology::add_gpu(std::string name, int node) {
  const int index = add_vertex({VertexKind::gpu, std::move(name), node, ranks(), {}});
  gpus_.push_back(index);
  return index;
}

int Topology::add_nic(std::string name, int node) {
  return add_vertex({VertexKind::nic, std::move(name), node, -1, {}});
}

int Topology::add_switch(std::string name, int node, SwitchSkills skills) {
  return add_vertex({VertexKind::switch_, std::move(name), node, -1, skills});
}

int Topology::add_link(Link link) {
  assert(link.from >= 0 && link.from < vertex_count() && link.to >= 0 && link.to < vertex_count());
  const int index = link_count();
  out_links_[static_cast<std::size_t>(link.from)].push_back(index);
  in_links_[static_cast<std::size_t>(link.to)].push_back(index);
  links_.push_back(std::move(link));
  return index;
}

void Topology::add_duplex(const Link& link) {
  add_link(link);
  Link back = link;
  std::swap(back.from, back.to);
  add_link(std::move(back));
}

Topology Topology::reversed() const {
  Topology turned = *this;
  for (Link& link : turned.links_) std::swap(link.from, link.to);
  std::swap(turned.out_links_, turned.in_links_);
  for (Vertex& vertex : turned.vertices_) std::swap(vertex.skills.multicasts, vertex.skills.reduces);
  return turned;
}

std::string Topology::describe(const Link& link) const {
  const std::string ends = fmt::format("{} -> {}", vertex(link.from).name, vertex(link.to).name);
  return link.name.empty() ? ends : fmt::format("{} ({})", ends, link.name);
}

namespace {

using MaybeFlaw = std::optional<Flaw>;

MaybeFlaw flaw_of_vertices(const Topology& topology) {
  if (topology.ranks() == 0) return Flaw{"the topology has no GPU"};
  std::unordered_set<std::string_view> names;
  for (int index = 0; index < topology.vertex_count(); ++index) {
    const std::string& name = topology.vertex(index).name;
    if (name.empty()) return Flaw{"a vertex has no name", index};
    if (!names.insert(name).second) return Flaw{fmt::format("two vertices are called '{}'", name), index};
  }
  return {};
}

MaybeFlaw flaw_of_links(const Topology& topology) {
  for (int index = 0; index < topology.link_count(); ++index) {
    const Link& link = topology.link(index);
    const auto wrong = [&](std::string_view why) {
      return Flaw{fmt::format("link {}: {}", topology.describe(link), why), -1, index};
    };
    if (link.from == link.to) return wrong("leads to where it starts");
    if (link.capacity.is_zero()) return wrong("its bandwidth is 0; where there is no link, leave it out");
  }
  return {};
}

/// Ranks that cannot be reached from rank 0 along links, or against them.
std::vector<int> cut_off(const Topology& topology, bool against) {
  std::vector<bool> seen(static_cast<std::size_t>(topology.vertex_count()), false);
  std::vector<int> open{topology.gpu(0)};
  seen[static_cast<std::size_t>(open.front())] = true;
  while (!open.empty()) {
    const int vertex = open.back();
    open.pop_back();
    for (const int index : against ? topology.in_links(vertex) : topology.out_links(vertex)) {
      const int next = against ? topology.link(index).from : topology.link(index).to;
      if (seen[static_cast<std::size_t>(next)]) continue;
      seen[static_cast<std::size_t>(next)] = true;
      open.push_back(next);
    }
  }
  std::vector<int> missing;
  for (int rank = 0; rank < topology.ranks(); ++rank)
    if (!seen[static_cast<std::size_t>(topology.gpu(rank))]) missing.push_back(rank);
  return missing;
}

MaybeFlaw flaw_of_reach(const Topology& topology) {
  for (const bool against : {false, true}) {
    const std::vector<int> missing = cut_off(topology, against);
    if (missing.empty()) continue;
    const int first = topology.gpu(missing.front());
    const std::string who = fmt::format("{} {} ('{}'{})", missing.size() == 1 ? "GPU" : "GPUs", show_numbers(missing),
                                        topology.vertex(first).name, missing.size() == 1 ? "" : " ...");
    return Flaw{fmt::format("disconnected: no path of links leads {} GPU 0 ('{}') {} {}", against ? "to" : "from",
                            topology.vertex(topology.gpu(0)).name, against ? "from" : "to", who),
                first};
  }
  return {};
}

}  // namespace

std::optional<Flaw> find_flaw(const Topology& topology) {
  for (const auto look : {flaw_of_vertices, flaw_of_links, flaw_of_reach})
    if (MaybeFlaw flaw = look(topology)) return flaw;
  return {};
}

Status validate(const Topology& topology) {
  if (const MaybeFlaw flaw = find_flaw(topology)) return fail(ErrorCode::invalid_argument, flaw->why);
  return {};
}

}  // namespace tutti
