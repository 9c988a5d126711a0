#include "synthesis/exchange/path_order.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// A chunk that a lane may take.
struct Waiting {
  bool yields = false;  // to others, whatever their way
  double to_go = 0;     // seconds per byte of the hops that are left
  double since = 0;
  int distance = 0;  // from source to target
  int path = 0;

  bool operator<(const Waiting& other) const {  // whoever is last in this order goes first
    return std::tie(other.yields, to_go, other.since, other.distance, other.path) <
           std::tie(yields, other.to_go, since, distance, path);
  }
};

struct Lane {
  std::priority_queue<Waiting> line;
  bool awaited = false;  // its next chance to send is among the events
};

enum class Happening { chunk_arrives, chunk_comes_to_link, lane_is_free };

struct Event {
  double time = 0;
  Happening what = Happening::chunk_arrives;
  std::size_t number = 0;  // in order of planning
  int subject = 0;         // path or lane

  bool operator>(const Event& other) const {
    return std::tie(time, what, number) > std::tie(other.time, other.what, other.number);
  }
};

/// How far a rank comes after another: first by nodes, then by places in them. Ranks side by side have others at one
/// distance side by side too, so that when all go by distance no two send to the same one.
class Distances {
 public:
  explicit Distances(const HopTable& hops) : hops_(hops), places_(places_in_nodes(hops.topology())) {
    node_count_ = hops.topology().nodes() + 1;  // and what is of no node
    place_count_ = *std::max_element(places_.begin(), places_.end()) + 1;
  }

  int operator()(int from, int to) const {
    const int nodes = (hops_.node_of(to) - hops_.node_of(from) + node_count_) % node_count_;
    return nodes * place_count_ + (places_[at(to)] - places_[at(from)] + place_count_) % place_count_;
  }

 private:
  const HopTable& hops_;
  std::vector<int> places_;
  int node_count_, place_count_;
};

class Player {
 public:
  Player(const PathSearch& search, const std::vector<Path>& paths, std::vector<int> lane_of_hop)
      : search_(search),
        hops_(*search.hops),
        paths_(paths),
        distance_(hops_),
        lane_of_hop_(std::move(lane_of_hop)),
        lanes_(at(hops_.count())),
        flights_(paths.size()),
        free_(search.resources.capacity.size(), 0) {
    if (lane_of_hop_.empty()) {
      lane_of_hop_.resize(lanes_.size());
      std::iota(lane_of_hop_.begin(), lane_of_hop_.end(), 0);
    }
    for (std::size_t path = 0; path < paths.size(); ++path)
      for (const int hop : paths[path]) flights_[path].to_go += time_of(hop);
  }

  std::vector<Transfer> play() {
    for (std::size_t path = 0; path < paths_.size(); ++path)
      if (!paths_[path].empty()) line_up(static_cast<int>(path), 0);
    start_lanes();
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      switch (event.what) {
        case Happening::chunk_arrives:
          arrive(event.subject, event.time);
          break;
        case Happening::chunk_comes_to_link:
          pass_link(event.subject, event.time);
          break;
        case Happening::lane_is_free:
          send_next(event.subject, event.time);
      }
    }
    return std::move(transfers_);
  }

 private:
  struct Flight {
    std::size_t hop = 0;   // index in its path
    std::size_t link = 0;  // index in its hop
    double last_byte = 0;  // when it has left the links so far
    double to_go = 0;
  };

  double time_at(int link) const { return 1 / search_.resources.capacity[at(search_.resources.of_link[at(link)])]; }
  double time_of(int hop) const {
    double slowest = 0;
    for (const int link : hops_.links(hop)) slowest = std::max(slowest, time_at(link));
    return slowest;
  }
  int hop_of(int path) const { return paths_[at(path)][flights_[at(path)].hop]; }

  void plan(double time, Happening what, int subject) { events_.push({time, what, planned_++, subject}); }

  /// Returns the lane.
  int line_up(int path, double now) {
    const int block = path / search_.chunks, lane = lane_of_hop_[at(hop_of(path))];
    const int source = search_.sources[at(block / hops_.ranks())];
    const int distance = distance_(source, block % hops_.ranks());
    lanes_[at(lane)].line.push(
        {hops_.yields(source, hops_.hop(hop_of(path))), flights_[at(path)].to_go, now, distance, path});
    return lane;
  }

  void start_lanes() {
    std::vector<std::pair<int, int>> order;  // distance, lane
    for (int lane = 0; lane < hops_.count(); ++lane)
      if (!lanes_[at(lane)].line.empty()) order.emplace_back(distance_(hops_.hop(lane).from, hops_.hop(lane).to), lane);
    std::sort(order.begin(), order.end());
    for (const auto& [distance, lane] : order) await(lane, 0);
  }

  void await(int lane, double time) {
    if (!std::exchange(lanes_[at(lane)].awaited, true)) plan(time, Happening::lane_is_free, lane);
  }

  void send_next(int lane, double now) {
    lanes_[at(lane)].awaited = false;
    auto& line = lanes_[at(lane)].line;
    if (line.empty()) return;
    const int path = line.top().path;
    line.pop();
    const Hop& hop = hops_.hop(hop_of(path));
    const int block = path / search_.chunks, source = search_.sources[at(block / hops_.ranks())];
    const int chunk = (source * hops_.ranks() + block % hops_.ranks()) * search_.chunks + path % search_.chunks;
    transfers_.push_back({chunk, hop.from, hop.to, hop.channel});
    flights_[at(path)].link = 0;
    flights_[at(path)].last_byte = now;
    await(lane, pass_link(path, now));
  }

  /// Returns when the last byte has left it.
  double pass_link(int path, double now) {
    Flight& flight = flights_[at(path)];
    const auto links = hops_.links(hop_of(path));
    const int link = links[flight.link];
    double& free = free_[at(search_.resources.of_link[at(link)])];
    const double begins = std::max(now, free);
    free = begins + time_at(link);
    flight.last_byte = std::max(flight.last_byte, free);
    if (++flight.link < links.size())
      plan(begins, Happening::chunk_comes_to_link, path);
    else
      plan(flight.last_byte, Happening::chunk_arrives, path);
    return free;
  }

  void arrive(int path, double now) {
    Flight& flight = flights_[at(path)];
    flight.to_go -= time_of(hop_of(path));
    if (++flight.hop == paths_[at(path)].size()) return;
    await(line_up(path, now), now);
  }

  const PathSearch& search_;
  const HopTable& hops_;
  const std::vector<Path>& paths_;
  Distances distance_;
  std::vector<int> lane_of_hop_;
  std::vector<Lane> lanes_;
  std::vector<Flight> flights_;  // [path]
  std::vector<double> free_;     // [resource] from when on
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::size_t planned_ = 0;
  std::vector<Transfer> transfers_;
};

}  // namespace

std::vector<Transfer> order_paths(const PathSearch& search, const std::vector<Path>& paths,
                                  std::vector<int> lane_of_hop) {
  return Player(search, paths, std::move(lane_of_hop)).play();
}

}  // namespace tutti
