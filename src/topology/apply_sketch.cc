#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json_value.hpp"
#include "topology/format_taccl.hpp"

namespace tutti {
namespace {

using Connections = std::map<int, std::vector<int>>;

[[noreturn]] void refuse(const std::string& message) { throw InputError(message); }

class Builder {
 public:
  Builder(const NodeProfile& profile, const Sketch& sketch) : profile_(profile), sketch_(sketch) {
    check_ranges();
    count_planes();
  }

  SketchedTopology build() {
    for (int node = 0; node < sketch_.nodes; ++node) add_node(node);
    if (sketch_.nodes > 1) connect_nodes();
    topology_.set_name(sketch_.nodes > 1 ? fmt::format("{} x {}", profile_.name, sketch_.nodes) : profile_.name);
    return {topology_, plan()};
  }

 private:
  void check_local(int gpu, std::string_view where) const {
    if (gpu >= profile_.gpus)
      refuse(fmt::format("{}: GPU {} is out of range; the node has {}", where, gpu, profile_.gpus));
  }

  void check_ranges() const {
    for (const auto& gpus : sketch_.switches)
      for (const int gpu : gpus) check_local(gpu, "intranode_sketch.switches");
    if (!sketch_.internode) return;
    if (profile_.remote_bandwidth.is_zero())
      refuse(fmt::format("nnodes: {} nodes, but the topology file has no remote_beta", sketch_.nodes));
    const auto check_all = [&](const Connections& lists, std::string_view where) {
      for (const auto& [key, gpus] : lists) {
        check_local(key, where);
        for (const int gpu : gpus) check_local(gpu, where);
      }
    };
    check_all(sketch_.internode->connections, "internode_sketch.internode_conn");
    check_all(sketch_.internode->gpus_of_sender, "internode_sketch.gpus_to_sender_rev_map");
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
        refuse(fmt::format("intranode_sketch.switches: GPU {} has no link to the others of its list", gpu));
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
    const std::string where = fmt::format("symmetry_offsets[{}]: [{}, {}]", index, rule.offset, rule.group);
    if (topology_.ranks() % rule.group != 0)
      refuse(fmt::format("{}: {} ranks do not make groups of {}", where, topology_.ranks(), rule.group));
    Permutation ranks;
    for (int rank = 0; rank < topology_.ranks(); ++rank)
      ranks.push_back((rank % rule.group + rule.offset) % rule.group + rank / rule.group * rule.group);
    auto vertices = extend_to_symmetry(topology_, ranks);
    if (!vertices) refuse(fmt::format("{} is no symmetry of this topology: a link is mapped to where none is", where));
    return std::move(*vertices);
  }

  const NodeProfile& profile_;
  const Sketch& sketch_;
  std::map<std::vector<int>, int> planes_;  // by the GPUs around the switch
  Topology topology_;
  Rational share_;                                         // of a connection
  std::map<std::pair<int, int>, int> out_port_, in_port_;  // by node and local GPU
};

}  // namespace

Result<SketchedTopology> apply_sketch(const NodeProfile& profile, const Sketch& sketch) {
  try {
    SketchedTopology result = Builder(profile, sketch).build();
    if (Status status = validate(result.topology); !status) return tl::unexpected(status.error());
    return result;
  } catch (const std::exception& error) {
    return fail(ErrorCode::invalid_argument, error.what());
  }
}

}  // namespace tutti
