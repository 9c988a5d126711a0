// The machine a collective runs on: a directed multigraph of GPUs, NICs and switches.
//
// A link carries `capacity` bytes per second one way, each byte `latency` seconds after it was sent; links do not slow
// one another down. Whatever they share is therefore a link of its own:
//   a port               the link between a vertex and its switch or NIC: a GPU with 300 GB/s into an NVSwitch has one
//                        link of 300 GB/s there and one back, however many peers are behind it;
//   a shared PCIe path   a vertex (kind switch_) where the flows meet, and one link of the path's capacity behind it;
//   one way only         a NIC that several GPUs share must not become a path between them: it is two vertices, one
//                        that is only sent through and one that is only received through.
// So whatever a flow on this graph can do, the machine can do, and no bound or schedule needs another kind of resource.
//
// GPUs send, receive, store and forward, and are ranks, in the order they were added. NICs and switches only pass on;
// a switch may also copy what it passes on to several links (`multicasts`), or combine what comes in (`reduces`).
// A plain value: build it, then share it; reading is safe from any thread. Indices are dense, from 0, in order of
// adding. Adding checks nothing but the range of indices (a mistake of the caller's, asserted): `validate` does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/rational.hpp"
#include "tutti/error.hpp"

namespace tutti {

enum class VertexKind : std::uint8_t { gpu, nic, switch_ };  // `switch` is a word of the language

std::string_view name_of(VertexKind kind);

inline constexpr int kSharedNode = -1;  // as a vertex's node: of no single node, as the switches of a fabric

struct SwitchSkills {
  bool multicasts = false;
  bool reduces = false;

  bool operator==(const SwitchSkills&) const = default;
};

struct Vertex {
  VertexKind kind = VertexKind::gpu;
  std::string name;  // unique in the topology
  int node = kSharedNode;
  int rank = -1;  // of a GPU
  SwitchSkills skills;

  bool operator==(const Vertex&) const = default;
};

struct Link {
  int from = 0;
  int to = 0;
  Rational capacity;  // bytes per second
  Rational latency;   // seconds
  std::string name;   // what it is made of, for people: "nvlink", "pcie", "ib"

  bool operator==(const Link&) const = default;
};

class Topology {
 public:
  explicit Topology(std::string name = {}) : name_(std::move(name)) {}

  /// Each returns the index of what was added.
  int add_gpu(std::string name, int node);
  int add_nic(std::string name, int node);
  int add_switch(std::string name, int node, SwitchSkills skills = {});
  int add_link(Link link);
  /// The link and the same in the other direction.
  void add_duplex(const Link& link);
  void set_name(std::string name) { name_ = std::move(name); }

  const std::string& name() const { return name_; }
  const std::vector<Vertex>& vertices() const { return vertices_; }
  const std::vector<Link>& links() const { return links_; }
  const Vertex& vertex(int index) const { return vertices_[static_cast<std::size_t>(index)]; }
  const Link& link(int index) const { return links_[static_cast<std::size_t>(index)]; }
  /// Links that leave or enter a vertex, as indices.
  const std::vector<int>& out_links(int vertex) const { return out_links_[static_cast<std::size_t>(vertex)]; }
  const std::vector<int>& in_links(int vertex) const { return in_links_[static_cast<std::size_t>(vertex)]; }

  int vertex_count() const { return static_cast<int>(vertices_.size()); }
  int link_count() const { return static_cast<int>(links_.size()); }
  int ranks() const { return static_cast<int>(gpus_.size()); }
  /// One more than the largest node index.
  int nodes() const { return nodes_; }
  /// Vertices of the ranks, in rank order.
  const std::vector<int>& gpus() const { return gpus_; }
  int gpu(int rank) const { return gpus_[static_cast<std::size_t>(rank)]; }

  /// The same machine with every link turned round: what a reduction sees, where a copy sees this one.
  Topology reversed() const;
  /// "n0.gpu0 -> n0.gpu1 (nvlink)"
  std::string describe(const Link& link) const;

  bool operator==(const Topology&) const = default;

 private:
  int add_vertex(Vertex vertex);

  std::string name_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::vector<std::vector<int>> out_links_, in_links_;
  std::vector<int> gpus_;
  int nodes_ = 0;
};

/// Why collectives cannot run on a topology; the vertex or link to blame is -1 where no single one is.
struct Flaw {
  std::string why;  // names the vertex, the link or the GPUs
  int vertex = -1;
  int link = -1;
};

/// None where there is a GPU, names are unique, every link joins two vertices and has a bandwidth, and every GPU can
/// reach every other.
std::optional<Flaw> find_flaw(const Topology& topology);
/// The flaw, if any, as an error.
Status validate(const Topology& topology);

}  // namespace tutti
