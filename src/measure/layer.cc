#include "measure/layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "measure/fit.hpp"

namespace tutti {
namespace {

constexpr double kFillsPort = 0.9;   // of a port's rate: a pair that reaches it is held up by nothing else
constexpr double kOfItsKind = 0.75;  // of what both ends reach over a shared path: a pair below has a link of its own
constexpr double kLatencyAlike = 1.5;
constexpr std::size_t kLeastSwitch = 3;  // two endpoints are joined by a link

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Layer {
 public:
  Layer(Topology& topology, const LayerNetwork& network)
      : topology_(topology), network_(network), count_(static_cast<int>(network.endpoints.size())) {
    joined_.assign(at(count_ * count_), false);
    outs_.assign(at(count_), -1);
    ins_.assign(at(count_), -1);
  }

  void add() {
    for (const SharedPath& path : network_.paths) add_path(path);
    add_switches();
    for (int from = 0; from < count_; ++from)
      for (int to = 0; to < count_; ++to)
        if (meet(from, to) && !joined(from, to))
          link(out_of(from), into(to), network_.rate(from, to), network_.latency(from, to), "pair");
  }

 private:
  std::vector<bool>::reference joined(int from, int to) { return joined_[at(from * count_ + to)]; }
  const LayerEnd& endpoint(int index) const { return network_.endpoints[at(index)]; }
  bool meet(int a, int b) const {
    return a != b && !(network_.joins_nodes_only && endpoint(a).node == endpoint(b).node);
  }

  void link(int from, int to, double rate, double latency, const std::string& name) {
    topology_.add_link({from, to, rounded_rate(rate), rounded_latency(latency), name});
  }

  int add_vertex(VertexKind kind, const std::string& name, int node) {
    return kind == VertexKind::nic ? topology_.add_nic(name, node) : topology_.add_switch(name, node);
  }

  /// Where an endpoint's peers part: behind its port, where they share one.
  int out_of(int index) {
    const LayerEnd& end = endpoint(index);
    if (end.out <= 0) return end.source;
    int& vertex = outs_[at(index)];
    if (vertex < 0) {
      vertex = add_vertex(network_.port_kind, fmt::format("{}.out", end.name), end.node);
      link(end.source, vertex, end.out, 0, "port");
    }
    return vertex;
  }
  int into(int index) {
    const LayerEnd& end = endpoint(index);
    if (end.in <= 0) return end.sink;
    int& vertex = ins_[at(index)];
    if (vertex < 0) {
      vertex = add_vertex(network_.port_kind, fmt::format("{}.in", end.name), end.node);
      link(vertex, end.sink, end.in, 0, "port");
    }
    return vertex;
  }

  int shared_node() const {
    const int node = network_.endpoints.front().node;
    const bool same = std::all_of(network_.endpoints.begin(), network_.endpoints.end(),
                                  [&](const LayerEnd& end) { return end.node == node; });
    return same ? node : kSharedNode;
  }

  // Pairs much slower than their ends' others keep a link of their own, which is then not part of the shared one: the
  // graph cannot say both.
  void add_path(const SharedPath& path) {
    std::map<int, double> sends, receives;
    std::vector<double> latencies;
    for (const int from : path.from)
      for (const int to : path.to) {
        if (!meet(from, to)) continue;
        sends[from] = std::max(sends[from], network_.rate(from, to));
        receives[to] = std::max(receives[to], network_.rate(from, to));
        latencies.push_back(network_.latency(from, to));
      }
    const std::string name = fmt::format("{}.path{}", network_.name, paths_++);
    const int first = topology_.add_switch(name + ".in", shared_node());
    const int last = topology_.add_switch(name + ".out", shared_node());
    link(first, last, path.rate, median(latencies), "trunk");
    for (const int from : path.from) link(out_of(from), first, sends[from], 0, "trunk");
    for (const int to : path.to) link(last, into(to), receives[to], 0, "trunk");
    for (const int from : path.from)
      for (const int to : path.to)
        if (meet(from, to))
          joined(from, to) = network_.rate(from, to) >= kOfItsKind * std::min(sends[from], receives[to]);
  }

  /// Held up by nothing but the ports, both ways, and as near as the others.
  bool fits(int a, int b, double latency) {
    const auto fills = [&](int from, int to) {
      const double out = endpoint(from).out, in = endpoint(to).in;
      const double port = out > 0 && in > 0 ? std::min(out, in) : std::max(out, in);
      const double delay = network_.latency(from, to);
      return port > 0 && !joined(from, to) && network_.rate(from, to) >= kFillsPort * port &&
             delay <= latency * kLatencyAlike && latency <= delay * kLatencyAlike;
    };
    return !meet(a, b) || (fills(a, b) && fills(b, a));
  }

  /// Of the first two that meet, the newcomer among them.
  double first_latency(const std::vector<int>& members, int newcomer) const {
    for (const int member : members)
      for (const int other : members)
        if (meet(member, other)) return network_.latency(member, other);
    return network_.latency(members.front(), newcomer);
  }

  void add_switches() {
    std::vector<std::vector<int>> groups;
    for (int index = 0; index < count_; ++index) {
      const auto group = std::find_if(groups.begin(), groups.end(), [&](const std::vector<int>& members) {
        const double latency = first_latency(members, index);
        return std::all_of(members.begin(), members.end(), [&](int member) { return fits(member, index, latency); });
      });
      if (group == groups.end())
        groups.push_back({index});
      else
        group->push_back(index);
    }
    int number = 0;
    for (const auto& members : groups)
      if (members.size() >= kLeastSwitch) add_switch(members, number++);
  }

  void add_switch(const std::vector<int>& members, int number) {
    std::vector<double> latencies;
    for (const int from : members)
      for (const int to : members)
        if (meet(from, to)) latencies.push_back(network_.latency(from, to));
    const double half = median(latencies) / 2;
    const bool whole = static_cast<int>(members.size()) == count_;
    const int vertex = topology_.add_switch(
        whole ? fmt::format("{}.switch", network_.name) : fmt::format("{}.switch{}", network_.name, number),
        shared_node());
    for (const int member : members) {
      const LayerEnd& end = endpoint(member);
      const double most_out = most(member, members, true), most_in = most(member, members, false);
      // Where an endpoint has no other peers its port leads to the switch and nowhere else.
      link(whole ? end.source : out_of(member), vertex, whole && end.out > 0 ? end.out : most_out, half, "port");
      link(vertex, whole ? end.sink : into(member), whole && end.in > 0 ? end.in : most_in, half, "port");
      for (const int other : members) joined(member, other) = true;
    }
  }

  /// What a member can ever send into a switch, or take out of it.
  double most(int member, const std::vector<int>& members, bool sends) const {
    double sum = 0;
    for (const int other : members)
      if (meet(member, other)) sum += sends ? network_.rate(member, other) : network_.rate(other, member);
    const double port = sends ? endpoint(member).out : endpoint(member).in;
    return port > 0 ? std::min(port, sum) : sum;
  }

  Topology& topology_;
  const LayerNetwork& network_;
  int count_;
  int paths_ = 0;
  std::vector<bool> joined_;     // [from * count + to]: by a switch or a shared path
  std::vector<int> outs_, ins_;  // by endpoint; -1: not there
};

}  // namespace

Rational rounded_rate(double bytes_per_second) {
  const double scale = std::pow(10, std::max(0.0, std::floor(std::log10(bytes_per_second)) - 3));
  return std::max<std::int64_t>(1, std::llround(bytes_per_second / scale) * std::llround(scale));
}

Rational rounded_latency(double seconds) {
  if (seconds <= 0) return 0;
  const double picoseconds = seconds * 1e12;
  const double scale = std::pow(10, std::max(0.0, std::floor(std::log10(picoseconds)) - 3));
  return {std::llround(picoseconds / scale) * std::llround(scale), 1'000'000'000'000};
}

void add_network(Topology& topology, const LayerNetwork& network) {
  if (network.endpoints.size() > 1) Layer(topology, network).add();
}

}  // namespace tutti
