#include "synthesis/path_order.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// A chunk in line for its next hop.
struct Waiting {
  double to_go = 0;  // seconds per byte of the hops that are left
  double since = 0;
  int distance = 0;  // from source to target, counted in ranks
  int path = 0;

  bool operator<(const Waiting& other) const {  // whoever is last in this order is served first
    return std::tie(to_go, other.since, other.distance, other.path) < std::tie(other.to_go, since, distance, path);
  }
};

/// Something that happens: a chunk comes to the end of a hop, or a resource is free. Chunks come first.
struct Event {
  double time = 0;
  bool frees = false;
  int subject = 0;  // path or resource

  bool operator>(const Event& other) const {
    return std::tie(time, frees, subject) > std::tie(other.time, other.frees, other.subject);
  }
};

/// How far a target comes after a source: first by nodes, then by places in them. Sources side by side have their
/// targets at one distance side by side too, so that ranks that go by distance do not all send to the same target.
class Distances {
 public:
  explicit Distances(const HopTable& hops) : hops_(hops), places_(places_in_nodes(hops.topology())) {
    nodes_ = hops.topology().nodes() + 1;  // and what is of no node
    width_ = *std::max_element(places_.begin(), places_.end()) + 1;
  }

  int operator()(int source, int target) const {
    const int nodes = (hops_.node_of(target) - hops_.node_of(source) + nodes_) % nodes_;
    return nodes * width_ + (places_[at(target)] - places_[at(source)] + width_) % width_;
  }

 private:
  const HopTable& hops_;
  std::vector<int> places_;
  int nodes_, width_;
};

class Scheduler {
 public:
  Scheduler(const PathSearch& search, const std::vector<Path>& paths)
      : search_(search),
        hops_(*search.hops),
        paths_(paths),
        distance_(hops_),
        next_(paths.size(), 0),
        to_go_(paths.size(), 0),
        line_(search.resources.capacity.size()),
        free_(search.resources.capacity.size(), 0) {
    find_busiest();
    for (std::size_t path = 0; path < paths.size(); ++path)
      for (const int hop : paths[path]) to_go_[path] += time_of_[at(hop)];
  }

  std::vector<Transfer> run() {
    for (std::size_t path = 0; path < paths_.size(); ++path)
      if (!paths_[path].empty()) line_up(static_cast<int>(path), 0);
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      if (event.frees) {
        serve(event.subject, event.time);
      } else {
        line_up(event.subject, event.time);
      }
    }
    return std::move(transfers_);
  }

 private:
  int resource(int link) const { return search_.resources.of_link[at(link)]; }
  double time_at(int resource) const { return 1 / search_.resources.capacity[at(resource)]; }

  /// Of every hop: the resource that all paths together keep busy longest, and the time at its slowest.
  void find_busiest() {
    std::vector<double> busy(search_.resources.capacity.size(), 0);
    for (const Path& path : paths_)
      for (const int hop : path)
        for (const int link : hops_.links(hop)) busy[at(resource(link))] += time_at(resource(link));
    for (int hop = 0; hop < hops_.count(); ++hop) {
      int busiest = resource(hops_.links(hop).front());
      double time = 0;
      for (const int link : hops_.links(hop)) {
        time = std::max(time, time_at(resource(link)));
        // A little busier is rounding: ports on both sides of a switch are equally busy, and the first is the sender's.
        if (busy[at(resource(link))] > busy[at(busiest)] * (1 + 1e-9)) busiest = resource(link);
      }
      busiest_of_.push_back(busiest);
      time_of_.push_back(time);
    }
  }

  void line_up(int path, double now) {
    if (next_[at(path)] == paths_[at(path)].size()) return;
    const int block = path / search_.chunks;
    const int distance = distance_(search_.sources[at(block / hops_.ranks())], block % hops_.ranks());
    const int resource = busiest_of_[at(paths_[at(path)][next_[at(path)]])];
    line_[at(resource)].push({to_go_[at(path)], now, distance, path});
    events_.push({std::max(now, free_[at(resource)]), true, resource});
  }

  void serve(int resource, double now) {
    auto& line = line_[at(resource)];
    if (line.empty() || free_[at(resource)] > now) return;
    const int path = line.top().path;
    line.pop();
    const int index = paths_[at(path)][next_[at(path)]++];
    to_go_[at(path)] -= time_of_[at(index)];
    double begins = now, arrives = now;
    for (const int link : hops_.links(index)) {
      const std::size_t on = at(this->resource(link));
      begins = std::max(begins, free_[on]);
      free_[on] = begins + time_at(this->resource(link));
      arrives = std::max(arrives, free_[on]);
    }
    const Hop& hop = hops_.hop(index);
    const int block = path / search_.chunks;
    const int source = search_.sources[at(block / hops_.ranks())];
    const int chunk = (source * hops_.ranks() + block % hops_.ranks()) * search_.chunks + path % search_.chunks;
    transfers_.push_back({chunk, hop.from, hop.to, hop.channel});
    events_.push({arrives, false, path});
    if (!line.empty()) events_.push({free_[at(resource)], true, resource});
  }

  const PathSearch& search_;
  const HopTable& hops_;
  const std::vector<Path>& paths_;
  Distances distance_;
  std::vector<std::size_t> next_;  // [path] index of its next hop
  std::vector<double> to_go_;      // [path]
  std::vector<int> busiest_of_;    // [hop]
  std::vector<double> time_of_;    // [hop]
  std::vector<std::priority_queue<Waiting>> line_;
  std::vector<double> free_;  // [resource] from when on
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Transfer> transfers_;
};

}  // namespace

std::vector<Transfer> order_paths(const PathSearch& search, const std::vector<Path>& paths) {
  return Scheduler(search, paths).run();
}

}  // namespace tutti
