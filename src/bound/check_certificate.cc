#include "bound/check_certificate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <stdexcept>

namespace tutti {
namespace {

struct Rejected : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Proven {
  Rational latency;
  Rational rate;
};

using Marks = std::vector<bool>;  // by vertex

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Marks the vertices of a list that must be ascending and in range.
Marks marks_of(const Topology& topology, const std::vector<int>& list) {
  Marks marks(at(topology.vertex_count()), false);
  int last = -1;
  for (const int vertex : list) {
    if (vertex <= last || vertex >= topology.vertex_count())
      throw Rejected(fmt::format("vertex {} is out of order or out of range; the topology has {} vertices", vertex,
                                 topology.vertex_count()));
    marks[at(vertex)] = true;
    last = vertex;
  }
  return marks;
}

/// Shortest distances by Dijkstra's algorithm from (or with `against`, to) any of `ends`; none where there is no path.
template <typename Distance, typename LengthOf>
std::vector<std::optional<Distance>> distances(const Topology& topology, const std::vector<int>& ends, bool against,
                                               LengthOf length_of) {
  std::vector<std::optional<Distance>> distance(at(topology.vertex_count()));
  using Entry = std::pair<Distance, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  for (const int end : ends) {
    distance[at(end)] = Distance();
    open.push({Distance(), end});
  }
  while (!open.empty()) {
    const auto [reached, vertex] = open.top();
    open.pop();
    if (*distance[at(vertex)] < reached) continue;
    for (const int link : against ? topology.in_links(vertex) : topology.out_links(vertex)) {
      const int next = against ? topology.link(link).from : topology.link(link).to;
      const Distance candidate = reached + length_of(link);
      if (distance[at(next)] && *distance[at(next)] <= candidate) continue;
      distance[at(next)] = candidate;
      open.push({candidate, next});
    }
  }
  return distance;
}

std::vector<std::optional<Rational>> latencies(const Topology& topology, const std::vector<int>& ends, bool against) {
  return distances<Rational>(topology, ends, against, [&](int link) { return topology.link(link).latency; });
}

/// Ranks on one side of a set: one, if the evidence names it, else all that are there.
std::vector<int> ranks_on_side(const Topology& topology, const Marks& inside, bool side, int named) {
  if (named != kAnyRank && (named >= topology.ranks() || inside[at(topology.gpu(named))] != side))
    throw Rejected(fmt::format("rank {} is not {} the cut", named, side ? "inside" : "outside"));
  std::vector<int> ranks;
  for (int rank = 0; rank < topology.ranks(); ++rank)
    if (inside[at(topology.gpu(rank))] == side && (named == kAnyRank || rank == named)) ranks.push_back(rank);
  if (ranks.empty()) throw Rejected(fmt::format("no GPU is {} the cut", side ? "inside" : "outside"));
  return ranks;
}

std::vector<int> vertices_of(const Topology& topology, const std::vector<int>& ranks) {
  std::vector<int> vertices;
  for (const int rank : ranks) vertices.push_back(topology.gpu(rank));
  return vertices;
}

bool holds(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// The share of the vector that must go from `senders` to `receivers`, over the links between them, at least once.
/// Copies made in switches and reductions done there change nothing: one copy of each block, or one partial result for
/// each, must still cross.
Rational share_across(const Certificate& claim, const std::vector<int>& senders, const std::vector<int>& receivers) {
  const auto out = static_cast<std::int64_t>(senders.size()), in = static_cast<std::int64_t>(receivers.size());
  switch (claim.collective) {
    case Collective::all_gather:  // every sender's block to some receiver
      return {out, claim.ranks};
    case Collective::reduce_scatter:  // a sender's contribution to every receiver's block
      return {in, claim.ranks};
    case Collective::all_to_all:  // a block for every pair
      return {out * in, claim.ranks};
    case Collective::all_reduce:  // a contribution to every element
      return 1;
    case Collective::broadcast:
      if (!holds(senders, claim.root)) throw Rejected(fmt::format("the root {} is not among the senders", claim.root));
      return 1;
    case Collective::reduce:
      if (!holds(receivers, claim.root))
        throw Rejected(fmt::format("the root {} is not among the receivers", claim.root));
      return 1;
    case Collective::gather:
      if (!holds(receivers, claim.root))
        throw Rejected(fmt::format("the root {} is not among the receivers", claim.root));
      return {out, claim.ranks};
    case Collective::scatter:
      if (!holds(senders, claim.root)) throw Rejected(fmt::format("the root {} is not among the senders", claim.root));
      return {in, claim.ranks};
    default:
      throw Rejected(fmt::format("there are no bounds for {}", name_of(claim.collective)));
  }
}

/// A byte that crosses link u -> w left its sender at least dist(sender, u) earlier and has dist(w, receiver) to go. So
/// in a time T the link serves for at most T less all that, and all links of the cut together carry what must cross.
Proven prove(const Topology& topology, const Certificate& claim, const Cut& cut) {
  const Marks inside = marks_of(topology, cut.inside);
  const auto senders = ranks_on_side(topology, inside, true, cut.from);
  const auto receivers = ranks_on_side(topology, inside, false, cut.to);
  const auto before = latencies(topology, vertices_of(topology, senders), false);
  const auto after = latencies(topology, vertices_of(topology, receivers), true);
  Rational capacity;
  std::optional<Rational> latency;
  for (const Link& link : topology.links()) {
    if (!inside[at(link.from)] || inside[at(link.to)]) continue;
    capacity += link.capacity;
    if (!before[at(link.from)] || !after[at(link.to)]) continue;  // nothing that matters goes here
    const Rational way = *before[at(link.from)] + link.latency + *after[at(link.to)];
    if (!latency || way < *latency) latency = way;
  }
  if (!latency) throw Rejected("no link leaves the set on a way to its outside");
  return {*latency, share_across(claim, senders, receivers) / capacity};
}

/// In T seconds a part sends (receives) at most T times the capacity out of (into) it; all parts together need 2p - 2
/// messages of the vector's size. A multicast makes several receives of one send, a reduction in a switch one receive
/// of several sends; so the side that they do not touch is counted.
Proven prove(const Topology& topology, const Certificate& claim, const Partition& partition) {
  if (claim.collective != Collective::all_reduce) throw Rejected("a partition proves something of all_reduce only");
  for (const Vertex& vertex : topology.vertices())
    if (partition.sent ? vertex.skills.multicasts : vertex.skills.reduces)
      throw Rejected(fmt::format("switch '{}' {}, so messages {} do not count", vertex.name,
                                 partition.sent ? "multicasts" : "reduces", partition.sent ? "sent" : "received"));
  const auto before = latencies(topology, topology.gpus(), false), after = latencies(topology, topology.gpus(), true);
  std::vector<int> seen(at(topology.ranks()), 0);
  Rational capacity;
  std::optional<Rational> latency;
  Marks inside(at(topology.vertex_count()), false);
  for (const auto& part : partition.parts) {
    marks_of(topology, part);  // throws where it is no list of vertices
    for (const int vertex : part) inside[at(vertex)] = true;
    bool any = false;
    for (const int vertex : part) {
      if (const int rank = topology.vertex(vertex).rank; rank >= 0) {
        ++seen[at(rank)];
        any = true;
      }
      for (const int index : partition.sent ? topology.out_links(vertex) : topology.in_links(vertex)) {
        const Link& link = topology.link(index);
        if (inside[at(partition.sent ? link.to : link.from)]) continue;
        capacity += link.capacity;
        if (!before[at(link.from)] || !after[at(link.to)]) continue;
        const Rational way = *before[at(link.from)] + link.latency + *after[at(link.to)];
        if (!latency || way < *latency) latency = way;
      }
    }
    if (!any) throw Rejected("a part holds no GPU");
    for (const int vertex : part) inside[at(vertex)] = false;
  }
  if (std::any_of(seen.begin(), seen.end(), [](int times) { return times != 1; }))
    throw Rejected("the parts do not hold every GPU once");
  if (partition.parts.size() < 2 || !latency) throw Rejected("a partition needs two parts or more, with links between");
  return {*latency, Rational(2 * (static_cast<std::int64_t>(partition.parts.size()) - 1)) / capacity};
}

/// The largest fraction of which all values are whole multiples.
Rational common_unit(const std::vector<Rational>& values) {
  std::int64_t above = 0;
  Rational below = 1;  // only the numerator is used
  for (const Rational& value : values) {
    if (value.is_zero()) continue;
    above = std::gcd(above, value.numerator());
    below = below * (value.denominator() / std::gcd(below.numerator(), value.denominator()));
  }
  return above == 0 ? Rational(1) : Rational(above, below.numerator());
}

Wide multiple_of(const Rational& value, const Rational& unit) { return static_cast<Wide>((value / unit).numerator()); }

/// The sum of the distances between all GPUs.
Wide total_distance(const Topology& topology, const std::vector<std::int64_t>& lengths) {
  Wide total = 0;
  for (const int source : topology.gpus()) {
    const auto reach = distances<std::int64_t>(topology, {source}, false, [&](int link) { return lengths[at(link)]; });
    for (const int target : topology.gpus()) {
      if (!reach[at(target)]) throw Rejected("a GPU cannot be reached");
      total += static_cast<Wide>(*reach[at(target)]);
    }
  }
  return total;
}

/// Every byte from s to t takes up at least dist(s, t) of the sum of load times length over all links; in T seconds
/// link u -> w serves for at most T less the latency of any way through it, and so gives capacity times length times
/// that. What needs more than 64 bits is rounded down, which leaves it a bound.
Proven prove(const Topology& topology, const Certificate& claim, const Lengths& lengths) {
  if (claim.collective != Collective::all_to_all) throw Rejected("lengths prove something of all_to_all only");
  if (lengths.of_links.size() != topology.links().size())
    throw Rejected(fmt::format("{} lengths for {} links", lengths.of_links.size(), topology.links().size()));
  for (const std::int64_t length : lengths.of_links)
    if (length < 0 || length > kLongest) throw Rejected(fmt::format("a link has length {}", length));
  const auto before = latencies(topology, topology.gpus(), false), after = latencies(topology, topology.gpus(), true);
  std::vector<Rational> capacities, ways;
  for (const Link& link : topology.links()) {
    const bool used = before[at(link.from)] && after[at(link.to)];
    capacities.push_back(link.capacity);
    ways.push_back(used ? *before[at(link.from)] + link.latency + *after[at(link.to)] : Rational());
  }
  const Rational capacity_unit = common_unit(capacities), time_unit = common_unit(ways);
  Wide supply = 0, delayed = 0;
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    const Wide weight = multiple_of(capacities[i], capacity_unit) * static_cast<Wide>(lengths.of_links[i]);
    supply += weight;
    delayed += weight * multiple_of(ways[i], time_unit);
  }
  if (supply == 0) throw Rejected("all lengths are zero");
  const Wide demand = total_distance(topology, lengths.of_links) * static_cast<Wide>(capacity_unit.denominator());
  const Wide offer = supply * static_cast<Wide>(capacity_unit.numerator()) * static_cast<Wide>(claim.ranks);
  return {Rational::rounded_down(delayed * static_cast<Wide>(time_unit.numerator()),
                                 supply * static_cast<Wide>(time_unit.denominator())),
          Rational::rounded_down(demand, offer)};
}

}  // namespace

Status check_certificate(const Topology& topology, const Certificate& certificate) {
  const auto reject = [&](const std::string& why) {
    return fail(ErrorCode::refused,
                fmt::format("certificate of {} rejected: {}", name_of(certificate.collective), why));
  };
  try {
    if (certificate.ranks != topology.ranks())
      throw Rejected(fmt::format("it is for {} ranks, the topology has {}", certificate.ranks, topology.ranks()));
    if (certificate.root < 0 || certificate.root >= topology.ranks())
      throw Rejected(fmt::format("root {} is no rank", certificate.root));
    const Proven proven =
        std::visit([&](const auto& evidence) { return prove(topology, certificate, evidence); }, certificate.evidence);
    if (certificate.rate != proven.rate)
      throw Rejected(fmt::format("it claims {} seconds per byte, the evidence proves {}", certificate.rate.to_string(),
                                 proven.rate.to_string()));
    if (certificate.latency != proven.latency)
      throw Rejected(fmt::format("it claims a latency of {} s, the evidence proves {}", certificate.latency.to_string(),
                                 proven.latency.to_string()));
    return {};
  } catch (const std::exception& error) {
    return reject(error.what());
  }
}

}  // namespace tutti
