#include "synthesis/greedy/timed_network.hpp"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

namespace tutti {

namespace {

constexpr std::size_t kBroad = 64;  // inlets behind a link from which on they are not listed
constexpr double kMostTicks = 1e18;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Ranks that `start` reaches over the edges, itself among them.
std::vector<bool> reached_over(const std::vector<std::vector<int>>& edges, int start) {
  std::vector<bool> reached(edges.size());
  std::vector<int> waiting = {start};
  reached[at(start)] = true;
  while (!waiting.empty()) {
    const int rank = waiting.back();
    waiting.pop_back();
    for (const int next : edges[at(rank)]) {
      if (reached[at(next)]) continue;
      reached[at(next)] = true;
      waiting.push_back(next);
    }
  }
  return reached;
}

/// Lengths of the shortest ways from `start`; very large where there is none.
std::vector<double> distances_over(const std::vector<std::vector<std::pair<int, double>>>& edges, int start) {
  std::vector<double> distances(edges.size(), 1e300);
  using Entry = std::pair<double, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting;
  waiting.emplace(distances[at(start)] = 0, start);
  while (!waiting.empty()) {
    const auto [distance, rank] = waiting.top();
    waiting.pop();
    if (distance > distances[at(rank)]) continue;
    for (const auto& [next, length] : edges[at(rank)]) {
      if (distance + length >= distances[at(next)]) continue;
      distances[at(next)] = distance + length;
      waiting.emplace(distances[at(next)], next);
    }
  }
  return distances;
}

}  // namespace

/// What is known of a way before there are ticks.
struct TimedNetwork::WayDraft {
  int from, to, channel;
  int first_hop, hops;
  double latency, hold;
  bool within_node;

  double seconds() const { return latency + hold; }
};

TimedNetwork::TimedNetwork(Routes& routes, double bytes, double transfers, double loop_gain) {
  const Topology& topology = routes.topology();
  std::vector<WayDraft> drafts = draft_ways(routes, bytes);
  find_islands(drafts, topology);
  drop_loops(drafts, loop_gain);
  set_clock(topology, drafts, bytes, transfers);
  add_ways(drafts);
  sort_inlets();
  find_fans();
}

std::vector<TimedNetwork::WayDraft> TimedNetwork::draft_ways(Routes& routes, double bytes) {
  const Topology& topology = routes.topology();
  std::vector<WayDraft> drafts;
  const auto draft = [&](int from, int to, int channel) {
    WayDraft way{from, to, channel, static_cast<int>(hops_.size()), 0, 0, 0, true};
    for (const int link : routes.links(from, to, channel)) {
      hops_.push_back(link);
      ++way.hops;
      way.latency += topology.link(link).latency.value();
      way.hold = std::max(way.hold, bytes / topology.link(link).capacity.value());
      way.within_node &= topology.vertex(topology.link(link).to).node == topology.vertex(topology.gpu(from)).node;
    }
    drafts.push_back(way);
  };
  for (int from = 0; from < topology.ranks(); ++from)
    for (const int to : routes.reached(from))
      for (int channel = 0; channel < routes.count(from, to); ++channel) draft(from, to, channel);
  return drafts;
}

void TimedNetwork::find_islands(const std::vector<WayDraft>& drafts, const Topology& topology) {
  std::vector<std::vector<int>> onward(at(topology.ranks())), back(at(topology.ranks()));
  for (const WayDraft& way : drafts) {
    if (!way.within_node) continue;
    onward[at(way.from)].push_back(way.to);
    back[at(way.to)].push_back(way.from);
  }
  island_.assign(at(topology.ranks()), -1);
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    if (island_[at(rank)] >= 0) continue;
    const std::vector<bool> reaches = reached_over(onward, rank), reached = reached_over(back, rank);
    for (int other = rank; other < topology.ranks(); ++other)
      if (reaches[at(other)] && reached[at(other)]) island_[at(other)] = islands_;
    ++islands_;
  }
}

void TimedNetwork::set_clock(const Topology& topology, const std::vector<WayDraft>& drafts, double bytes,
                             double transfers) {
  double longest = 0;
  for (const WayDraft& way : drafts) longest = std::max(longest, way.seconds());
  const double tick = std::max(longest, 1e-9) * (transfers + 1) / kMostTicks;
  const auto ticks = [&](double seconds) { return static_cast<Ticks>(std::llround(seconds / tick)); };
  for (const Link& link : topology.links()) {
    busy_.push_back(std::max<Ticks>(1, ticks(bytes / link.capacity.value())));
    latency_.push_back(ticks(link.latency.value()));
  }
  ready_.assign(busy_.size(), 0);
}

/// Drops what leaves the node and comes back to the same island, unless it is faster than the ways inside
/// at least by that gain.
void TimedNetwork::drop_loops(std::vector<WayDraft>& drafts, double gain) const {
  const auto is_inside = [&](const WayDraft& way) {
    return way.within_node && island_[at(way.from)] == island_[at(way.to)];
  };
  constexpr double kNone = 1e300;
  std::vector<double> fastest_inside(island_.size(), kNone);
  std::vector<std::vector<std::pair<int, double>>> inside(island_.size());
  for (const WayDraft& way : drafts) {
    if (!is_inside(way)) continue;
    fastest_inside[at(way.to)] = std::min(fastest_inside[at(way.to)], way.hold);
    inside[at(way.from)].emplace_back(way.to, way.seconds());
  }
  int source = -1;
  std::vector<double> distances;
  std::erase_if(drafts, [&](const WayDraft& way) {
    if (is_inside(way) || island_[at(way.from)] != island_[at(way.to)]) return false;
    if (way.hold < fastest_inside[at(way.to)]) return false;
    if (way.from != source) distances = distances_over(inside, source = way.from);
    return distances[at(way.to)] < gain * way.seconds();
  });
}

void TimedNetwork::add_ways(const std::vector<WayDraft>& drafts) {
  time_within_.assign(island_.size(), 0);
  outlets_.resize(island_.size());
  for (const WayDraft& draft : drafts) {
    TimedWay way{draft.from, draft.to, draft.channel, 0, 0, 0, draft.first_hop, draft.hops};
    for (int hop = 0; hop < draft.hops; ++hop) {
      const std::size_t link = at(hops_[at(draft.first_hop + hop)]);
      way.time += latency_[link];
      way.hold = std::max(way.hold, busy_[link]);
    }
    way.time += way.hold;
    if (are_on_one_island(way)) {
      Ticks& best = time_within_[at(way.to)];
      best = best == 0 ? way.time : std::min(best, way.time);
    }
    const int outlet = hops_[at(way.first_hop)];
    std::vector<int>& outlets = outlets_[at(way.from)];
    if (std::find(outlets.begin(), outlets.end(), outlet) == outlets.end()) outlets.push_back(outlet);
    ways_.push_back(way);
  }
}

void TimedNetwork::sort_inlets() {
  std::vector<std::vector<WaySource>> by_link(busy_.size());
  for (std::size_t index = 0; index < ways_.size(); ++index) {
    const TimedWay& way = ways_[index];
    const int last = hops_[at(way.first_hop + way.hops - 1)];
    by_link[at(last)].push_back({hops_[at(way.first_hop)], static_cast<int>(index)});
  }
  std::vector<std::tuple<Ticks, int /*to*/, int /*link*/>> places;
  for (std::size_t link = 0; link < by_link.size(); ++link) {
    std::vector<WaySource>& sources = by_link[link];
    if (sources.empty()) continue;
    const auto key = [&](const WaySource& source) {
      const TimedWay& way = ways_[at(source.way)];
      return std::tuple(way.time, (way.from - way.to + ranks()) % ranks(), way.channel);
    };
    std::sort(sources.begin(), sources.end(), [&](const WaySource& a, const WaySource& b) { return key(a) < key(b); });
    const TimedWay& fastest = ways_[at(sources.front().way)];
    places.emplace_back(fastest.time, fastest.to, static_cast<int>(link));
  }
  std::sort(places.begin(), places.end());
  for (const auto& [time, to, link] : places) {
    for (const WaySource& source : by_link[at(link)]) ways_[at(source.way)].inlet = static_cast<int>(inlets_.size());
    inlets_.push_back({to, link, 0, std::move(by_link[at(link)])});
    for (const WaySource& source : inlets_.back().sources) {
      const TimedWay& way = ways_[at(source.way)];
      inlets_.back().latest_offset = std::max(inlets_.back().latest_offset, way.time - way.hold - latency_[at(link)]);
    }
  }
}

void TimedNetwork::find_fans() {
  fans_.resize(busy_.size());
  least_offset_.assign(busy_.size(), kNever);
  std::vector<bool> is_broad(inlets_.size());
  for (const TimedWay& way : ways_) {
    Ticks offset = 0;
    for (int hop = 0; hop < way.hops; ++hop) {
      const std::size_t link = at(hops_[at(way.first_hop + hop)]);
      least_offset_[link] = std::min(least_offset_[link], offset);
      offset += latency_[link];
      Fan& fan = fans_[link];
      if (!fan.is_broad && std::find(fan.inlets.begin(), fan.inlets.end(), way.inlet) == fan.inlets.end())
        fan.inlets.push_back(way.inlet);
      if (!fan.is_broad && fan.inlets.size() > kBroad) {
        fan.is_broad = true;
        for (const int inlet : fan.inlets) is_broad[at(inlet)] = true;
        fan.inlets = {};
      }
      if (fan.is_broad) is_broad[at(way.inlet)] = true;
    }
  }
  for (std::size_t inlet = 0; inlet < is_broad.size(); ++inlet)
    if (is_broad[inlet]) broad_inlets_.push_back(static_cast<int>(inlet));
}

bool TimedNetwork::is_open(const TimedWay& way, Ticks now) const {
  for (int hop = 0; hop < way.hops; ++hop) {
    const std::size_t link = at(hops_[at(way.first_hop + hop)]);
    if (ready_[link] > now) return false;
    now += latency_[link];
  }
  return true;
}

void TimedNetwork::take(const TimedWay& way, Ticks now, std::vector<Ticks>& free_again) {
  for (int hop = 0; hop < way.hops; ++hop) {
    const std::size_t link = at(hops_[at(way.first_hop + hop)]);
    ready_[link] = now + busy_[link];
    const Ticks next_start = ready_[link] - least_offset_[link];
    if (std::find(free_again.begin(), free_again.end(), next_start) == free_again.end())
      free_again.push_back(next_start);
    now += latency_[link];
  }
}

void TimedNetwork::collect_open_links(const TimedWay& way, Ticks now, std::vector<int>& links) const {
  for (int hop = 0; hop < way.hops; ++hop) {
    const int link = hops_[at(way.first_hop + hop)];
    if (ready_[at(link)] <= now + least_offset_[at(link)]) links.push_back(link);
  }
}

}  // namespace tutti
