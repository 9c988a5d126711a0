#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "documents/json_place.hpp"
#include "documents/json_value.hpp"
#include "topology/formats/format_taccl.hpp"

namespace tutti {
namespace {

using Connections = std::map<int, std::vector<int>>;

class SketchedTopologyBuilder {
 public:
  SketchedTopologyBuilder(const NodeProfile& profile, const Sketch& sketch, std::string_view text)
      : profile_(profile), sketch_(sketch), text_(text) {
    check_ranges();
    count_planes();
  }

  SketchedTopology build() {
    for (int node = 0; node < sketch_.nodes; ++node) add_node(node);
    if (sketch_.nodes > 1) connect_nodes();
    topology_.set_name(sketch_.nodes > 1 ? fmt::format("{} x {}", profile_.name, sketch_.nodes) : profile_.name);
    refuse_flaw();
    return {topology_, plan()};
  }

 private:
  [[noreturn]] void refuse(const std::string& place, const std::string& why) const {
    throw InputError(fmt::format("{}: {}", place_in(text_, place), why));
  }

  void check_local(int gpu, const std::string& place) const {
    if (gpu >= profile_.gpus) refuse(place, fmt::format("GPU {} is out of range; the node has {}", gpu, profile_.gpus));
  }

  void check_lists(const Connections& lists, const std::string& place) const {
    for (const auto& [key, gpus] : lists) {
      const std::string entry = fmt::format("{}.{}", place, key);
      check_local(key, entry);
      for (const int gpu : gpus) check_local(gpu, entry);
    }
  }

  void check_ranges() const {
    for (std::size_t i = 0; i < sketch_.switches.size(); ++i)
      for (const int gpu : sketch_.switches[i]) check_local(gpu, fmt::format("intranode_sketch.switches[{}]", i));
    if (!sketch_.internode) return;
    if (profile_.remote_bandwidth.is_zero())
      refuse("nnodes", fmt::format("{} nodes, but the topology file has no remote_beta", sketch_.nodes));
    check_lists(sketch_.internode->connections, "internode_sketch.internode_conn");
    check_lists(sketch_.internode->gpus_of_sender, "internode_sketch.gpus_to_sender_rev_map");
  }

  /// What falls apart within a node is the topology file's, or the switches' that the sketch puts there.
  void refuse_flaw() const {
    const auto flaw = find_flaw(topology_);
    if (!flaw) return;
    const bool elsewhere = flaw->vertex >= 0 && topology_.vertex(flaw->vertex).node > 0;
    if (elsewhere) refuse("internode_sketch", flaw->why);
    if (!sketch_.switches.empty()) refuse("intranode_sketch", flaw->why);
    throw InputError(flaw->why);
  }

  void count_planes() {
    for (const auto& gpus : sketch_.switches) ++planes_[gpus];
  }

  const Rational& bandwidth(int from, int to) const { return profile_.bandwidth[std::size_t(from)][std::size_t(to)]; }

  bool around_one_switch(int one, int other) const {
    return std::any_of(planes_.begin(), planes_.end(), [&](const auto& plane) {
      const std::vector<int>& gpus = plane.first;
      return std::binary_search(gpus.begin(), gpus.end(), one) && std::binary_search(gpus.begin(), gpus.end(), other);
    });
  }

  int vertex_of(int node, int local) const { return topology_.gpu(node * profile_.gpus + local); }

  void add_node(int node) {
    for (int local = 0; local < profile_.gpus; ++local) topology_.add_gpu(fmt::format("n{}.gpu{}", node, local), node);
    int number = 0;
    for (const auto& [gpus, planes] : planes_) add_switch(node, number++, gpus, planes);
    for (int from = 0; from < profile_.gpus; ++from)
      for (int to = 0; to < profile_.gpus; ++to)
        if (!bandwidth(from, to).is_zero() && !around_one_switch(from, to))
          topology_.add_link({vertex_of(node, from), vertex_of(node, to), bandwidth(from, to), profile_.alpha, "link"});
  }

  void add_switch(int node, int number, const std::vector<int>& gpus, int planes) {
    const int vertex = topology_.add_switch(fmt::format("n{}.switch{}", node, number), node);
    for (const int gpu : gpus) {
      Rational out, in;
      for (const int peer : gpus) {
        out = std::max(out, bandwidth(gpu, peer));
        in = std::max(in, bandwidth(peer, gpu));
      }
      if (out.is_zero() || in.is_zero())
        refuse("intranode_sketch.switches", fmt::format("GPU {} has no link to the others of its list", gpu));
      topology_.add_link({vertex_of(node, gpu), vertex, out * planes, profile_.alpha / 2, "port"});
      topology_.add_link({vertex, vertex_of(node, gpu), in * planes, profile_.alpha / 2, "port"});
    }
  }

  Connections connections() const {
    using Pattern = InternodeSketch::Pattern;
    if (sketch_.internode->pattern == Pattern::listed) return sketch_.internode->connections;
    Connections all;
    for (int sender = 0; sender < profile_.gpus; ++sender)
      for (int receiver = 0; receiver < profile_.gpus; ++receiver)
        if (sketch_.internode->pattern == Pattern::fully_connected || sender == receiver)
          all[sender].push_back(receiver);
    return all;
  }

  void connect_nodes() {
    const Connections pairs = connections();
    int count = 0;
    for (const auto& [sender, receivers] : pairs) count += static_cast<int>(receivers.size());
    share_ = profile_.remote_bandwidth * profile_.nics / count;
    if (sketch_.nodes > 2) add_ports(pairs);
    for (int from = 0; from < sketch_.nodes; ++from)
      for (int to = 0; to < sketch_.nodes; ++to)
        if (from != to) connect(pairs, from, to);
  }

  /// Both ends of what a GPU sends to and receives from other nodes, so that all of them share its bandwidth.
  void add_ports(const Connections& pairs) {
    std::map<int, int> senders_of;
    for (const auto& [sender, receivers] : pairs)
      for (const int receiver : receivers) ++senders_of[receiver];
    for (int node = 0; node < sketch_.nodes; ++node) {
      for (const auto& [sender, receivers] : pairs) {
        const int port = topology_.add_nic(fmt::format("n{}.out{}", node, sender), node);
        topology_.add_link({vertex_of(node, sender), port, share_ * std::int64_t(receivers.size()), 0, "nic"});
        out_port_[{node, sender}] = port;
      }
      for (const auto& [receiver, senders] : senders_of) {
        const int port = topology_.add_nic(fmt::format("n{}.in{}", node, receiver), node);
        topology_.add_link({port, vertex_of(node, receiver), share_ * senders, 0, "nic"});
        in_port_[{node, receiver}] = port;
      }
    }
  }

  void connect(const Connections& pairs, int from, int to) {
    for (const auto& [sender, receivers] : pairs)
      for (const int receiver : receivers) {
        const bool ports = sketch_.nodes > 2;
        topology_.add_link({ports ? out_port_.at({from, sender}) : vertex_of(from, sender),
                            ports ? in_port_.at({to, receiver}) : vertex_of(to, receiver), share_,
                            profile_.remote_alpha, "ib"});
      }
  }

  SketchPlan plan() const {
    SketchPlan plan;
    plan.policy = sketch_.policy;
    plan.balance = sketch_.balance;
    plan.chunks = sketch_.chunks;
    plan.sender_of.assign(std::size_t(topology_.ranks()), -1);
    if (sketch_.internode) {
      plan.own_chunks_first = sketch_.internode->own_chunks_first;
      for (int node = 0; node < sketch_.nodes; ++node) {
        const std::size_t first = std::size_t(node) * std::size_t(profile_.gpus);
        for (const auto& [sender, gpus] : sketch_.internode->gpus_of_sender)
          for (const int gpu : gpus) plan.sender_of.at(first + std::size_t(gpu)) = node * profile_.gpus + sender;
      }
    }
    for (std::size_t i = 0; i < sketch_.symmetry_offsets.size(); ++i)
      plan.symmetries.push_back(symmetry(sketch_.symmetry_offsets[i], i));
    return plan;
  }

  Permutation symmetry(const SymmetryOffset& rule, std::size_t index) const {
    const std::string place = fmt::format("symmetry_offsets[{}]", index);
    const std::string shown = fmt::format("[{}, {}]", rule.offset, rule.group);
    if (topology_.ranks() % rule.group != 0)
      refuse(place, fmt::format("{}: {} ranks do not make groups of {}", shown, topology_.ranks(), rule.group));
    Permutation ranks;
    for (int rank = 0; rank < topology_.ranks(); ++rank)
      ranks.push_back((rank % rule.group + rule.offset) % rule.group + rank / rule.group * rule.group);
    auto vertices = extend_to_symmetry(topology_, ranks);
    if (!vertices)
      refuse(place, fmt::format("{} is no symmetry of this topology: a link is mapped to where none is", shown));
    return std::move(*vertices);
  }

  const NodeProfile& profile_;
  const Sketch& sketch_;
  std::string_view text_;                   // of the sketch
  std::map<std::vector<int>, int> planes_;  // by the GPUs around the switch
  Topology topology_;
  Rational share_;                                         // of a connection
  std::map<std::pair<int, int>, int> out_port_, in_port_;  // by node and local GPU
};

}  // namespace

Result<SketchedTopology> apply_sketch(const NodeProfile& profile, const Sketch& sketch, std::string_view text) {
  try {
    return SketchedTopologyBuilder(profile, sketch, text).build();
  } catch (const std::exception& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

}  // namespace tutti
