#include "simulation/channels.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>

namespace tutti::simulation {
namespace {

constexpr int kMostChannels = 16;
constexpr int kChannelsOfSwitch = 8;
constexpr int kTries = 200;            // sets of ways, of which the largest is kept
constexpr int kMostExtensions = 5000;  // of a way, before it is given up

using Way = std::vector<int>;  // of GPUs of a node, by their index there

constexpr int kThroughSwitch = -1;  // as a hop's link

struct NodeHop {
  int to = 0;
  int link = kThroughSwitch;  // the direct one
};

/// Ways through all GPUs of a node, which share the room on its links.
class WaySearch {
 public:
  WaySearch(Routes& routes, const std::vector<int>& ranks)
      : period_(routes.period()), hops_(static_cast<std::size_t>(period_)) {
    std::map<int, int> index_of;
    for (const int rank : ranks) index_of.emplace(rank, static_cast<int>(index_of.size()));
    double slowest = 0;
    for (int channel = 0; channel < period_; ++channel) {
      auto& hops = hops_[static_cast<std::size_t>(channel)];
      hops.resize(ranks.size());
      for (const int from : ranks)
        for (const int to : routes.reached(from)) {
          const auto index = index_of.find(to);
          if (index == index_of.end() || passes_nic(routes, from, to)) continue;
          const auto links = routes.links(from, to, channel);
          const bool direct = links.size() == 1;
          hops[static_cast<std::size_t>(index_of[from])].push_back({index->second, direct ? links[0] : kThroughSwitch});
          if (!direct) continue;
          const double capacity = routes.topology().link(links[0]).capacity.value();
          room_[links[0]] = capacity;
          slowest = slowest == 0 ? capacity : std::min(slowest, capacity);
        }
    }
    for (auto& [link, room] : room_) room = std::floor(room / slowest + 1e-9);
  }

  void begin_set(unsigned seed) {
    random_.seed(seed);
    left_ = room_;
  }

  /// A way from `first` to `last`, or where that is none, back to where it began. It takes room away from later ones.
  std::optional<Way> find(int channel, int first, std::optional<int> last) {
    channel_ = channel;
    last_ = last;
    extensions_ = 0;
    way_.assign(1, first);
    visited_.assign(hops_[0].size(), false);
    visited_[static_cast<std::size_t>(first)] = true;
    if (!extend()) return std::nullopt;
    for (std::size_t i = 0; i + 1 < way_.size(); ++i) use(way_[i], way_[i + 1]);
    if (!last) use(way_.back(), way_.front());
    return way_;
  }

  /// The same for a ring that is known; false where its links have no room.
  bool take(int channel, const Way& ring) {
    channel_ = channel;
    for (std::size_t i = 0; i < ring.size(); ++i)
      if (!joins(ring[i], ring[(i + 1) % ring.size()])) return false;
    for (std::size_t i = 0; i < ring.size(); ++i) use(ring[i], ring[(i + 1) % ring.size()]);
    return true;
  }

 private:
  const std::vector<NodeHop>& hops_from(int index) const {
    return hops_[static_cast<std::size_t>(channel_ % period_)][static_cast<std::size_t>(index)];
  }

  bool has_room(const NodeHop& hop) const { return hop.link == kThroughSwitch || left_.at(hop.link) >= 1; }

  const NodeHop* hop_to(int from, int to) const {
    const auto& hops = hops_from(from);
    const auto found = std::find_if(hops.begin(), hops.end(), [&](const NodeHop& hop) { return hop.to == to; });
    return found == hops.end() ? nullptr : &*found;
  }

  bool joins(int from, int to) const {
    const NodeHop* const hop = hop_to(from, to);
    return hop != nullptr && has_room(*hop);
  }

  void use(int from, int to) {
    if (const NodeHop* const hop = hop_to(from, to); hop->link != kThroughSwitch) left_[hop->link] -= 1;
  }

  bool is_open(const NodeHop& hop) const { return !visited_[static_cast<std::size_t>(hop.to)] && has_room(hop); }

  /// The next GPUs to try: those with the fewest ways on first, else they are left over in the end.
  std::vector<int> candidates() {
    std::vector<std::pair<std::ptrdiff_t, int>> found;
    for (const NodeHop& hop : hops_from(way_.back())) {
      if (!is_open(hop) || (last_ && hop.to == *last_ && way_.size() + 1 < visited_.size())) continue;
      const auto& onward = hops_from(hop.to);
      found.emplace_back(
          std::count_if(onward.begin(), onward.end(), [&](const NodeHop& next) { return is_open(next); }), hop.to);
    }
    std::shuffle(found.begin(), found.end(), random_);
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<int> order;
    for (const auto& [ways, to] : found) order.push_back(to);
    return order;
  }

  bool extend() {
    if (way_.size() == visited_.size()) return last_ ? way_.back() == *last_ : joins(way_.back(), way_.front());
    if (++extensions_ > kMostExtensions) return false;
    for (const int to : candidates()) {
      way_.push_back(to);
      visited_[static_cast<std::size_t>(to)] = true;
      if (extend()) return true;
      visited_[static_cast<std::size_t>(to)] = false;
      way_.pop_back();
    }
    return false;
  }

  int period_;
  std::vector<std::vector<std::vector<NodeHop>>> hops_;  // [channel mod period][GPU]
  std::map<int, double> room_, left_;                    // by direct link, in units of the slowest
  std::mt19937 random_;
  int channel_ = 0;
  std::optional<int> last_;
  int extensions_ = 0;
  Way way_;
  std::vector<bool> visited_;
};

bool has_direct_links(const Topology& topology) {
  return std::any_of(topology.links().begin(), topology.links().end(), [&](const Link& link) {
    return topology.vertex(link.from).kind == VertexKind::gpu && topology.vertex(link.to).kind == VertexKind::gpu;
  });
}

/// Rings of one node. Where a switch joins all, one order does for all of them.
std::vector<Way> rings_of_node(Routes& routes, const std::vector<int>& ranks) {
  if (ranks.size() == 1) return {};
  const bool direct = has_direct_links(routes.topology());
  WaySearch search(routes, ranks);
  std::vector<Way> best;
  for (int attempt = 0; attempt < kTries && best.size() < kMostChannels; ++attempt) {
    search.begin_set(static_cast<unsigned>(attempt));
    std::vector<Way> ways;
    while (ways.size() < static_cast<std::size_t>(direct ? kMostChannels : kChannelsOfSwitch)) {
      const auto way = search.find(static_cast<int>(ways.size()), 0, std::nullopt);
      if (!way) break;
      ways.push_back(*way);
      const Way back(way->rbegin(), way->rend());
      if (direct && search.take(static_cast<int>(ways.size()), back)) ways.push_back(back);
    }
    if (ways.size() > best.size()) best = std::move(ways);
    if (!direct) break;
  }
  return best;
}

/// GPUs of the first node by the NIC they reach the second node through.
std::vector<std::vector<int>> gateways(Routes& routes, const std::vector<std::vector<int>>& nodes) {
  const Topology& topology = routes.topology();
  std::map<int, std::vector<int>> by_nic;
  for (int index = 0; index < static_cast<int>(nodes[0].size()); ++index)
    for (const int to : nodes[1]) {
      const auto links = routes.links(nodes[0][static_cast<std::size_t>(index)], to);
      const auto nic = std::find_if(links.begin(), links.end(), [&](int link) {
        return topology.vertex(topology.link(link).to).kind == VertexKind::nic;
      });
      if (nic == links.end()) continue;
      by_nic[topology.link(*nic).to].push_back(index);
      break;
    }
  std::vector<std::vector<int>> groups;
  for (auto& [nic, gpus] : by_nic) groups.push_back(std::move(gpus));
  return groups;
}

/// Where a channel may come in and go out.
std::vector<std::pair<int, int>> doors(const std::vector<std::vector<int>>& groups, std::size_t channel) {
  const std::size_t number = channel % groups.size();
  const std::vector<int>& own = groups[number];
  std::vector<std::pair<int, int>> found;
  for (const int in : own)
    for (const int out : own)
      if (in != out) found.emplace_back(in, out);
  if (!found.empty()) return found;
  const std::size_t neighbour = (number ^ 1) < groups.size() ? number ^ 1 : (number + 1) % groups.size();
  return {{own[0], groups[neighbour][0]}};
}

std::vector<Way> ways_through_node(Routes& routes, const std::vector<std::vector<int>>& nodes) {
  const auto groups = gateways(routes, nodes);
  if (groups.empty()) return {};
  if (nodes[0].size() == 1) return {{0}, {0}};
  WaySearch search(routes, nodes[0]);
  search.begin_set(0);
  std::vector<Way> ways;
  const std::size_t wanted = std::clamp<std::size_t>(groups.size(), 2, kMostChannels);
  for (std::size_t channel = 0; channel < wanted; ++channel) {
    const auto find = [&] {
      for (const auto& [in, out] : doors(groups, channel))
        if (const auto way = search.find(static_cast<int>(channel), in, out)) {
          ways.push_back(*way);
          return true;
        }
      return false;
    };
    if (find()) continue;
    search.begin_set(static_cast<unsigned>(channel));  // links are used a second time
    find();
  }
  return ways;
}

bool is_closed(Routes& routes, const std::vector<int>& ring) {
  for (std::size_t i = 0; i < ring.size(); ++i)
    if (routes.count(ring[i], ring[(i + 1) % ring.size()]) == 0) return false;
  return true;
}

ReferenceChannel channel_of(const Way& way, const std::vector<std::vector<int>>& nodes, bool alternates) {
  ReferenceChannel channel;
  for (std::size_t node = 0; node < nodes.size(); ++node) {
    std::vector<int>& chain = channel.chain.emplace_back();
    for (const int index : way) chain.push_back(nodes[node][static_cast<std::size_t>(index)]);
    if (alternates && node % 2 == 1)
      channel.ring.insert(channel.ring.end(), chain.rbegin(), chain.rend());
    else
      channel.ring.insert(channel.ring.end(), chain.begin(), chain.end());
  }
  return channel;
}

}  // namespace

std::vector<std::vector<int>> ranks_of_nodes(const Topology& topology) {
  std::vector<std::vector<int>> nodes(static_cast<std::size_t>(topology.nodes()));
  for (int rank = 0; rank < topology.ranks(); ++rank)
    if (const int node = topology.vertex(topology.gpu(rank)).node; node != kSharedNode)
      nodes[static_cast<std::size_t>(node)].push_back(rank);
  return nodes;
}

bool passes_nic(Routes& routes, int from, int to) {
  const Topology& topology = routes.topology();
  const auto links = routes.links(from, to);
  return std::any_of(links.begin(), links.end(),
                     [&](int link) { return topology.vertex(topology.link(link).to).kind == VertexKind::nic; });
}

std::vector<ReferenceChannel> find_channels(Routes& routes) {
  const auto nodes = ranks_of_nodes(routes.topology());
  const auto alike = [&](const std::vector<int>& node) { return node.size() == nodes[0].size(); };
  if (nodes.empty() || !std::all_of(nodes.begin(), nodes.end(), alike)) return {};
  if (nodes.size() * nodes[0].size() != static_cast<std::size_t>(routes.topology().ranks())) return {};
  const auto ways = nodes.size() == 1 ? rings_of_node(routes, nodes[0]) : ways_through_node(routes, nodes);
  std::vector<ReferenceChannel> channels;
  for (const Way& way : ways)
    for (const bool alternates : {false, true})
      if (ReferenceChannel channel = channel_of(way, nodes, alternates); is_closed(routes, channel.ring)) {
        channels.push_back(std::move(channel));
        break;
      }
  return channels;
}

}  // namespace tutti::simulation
