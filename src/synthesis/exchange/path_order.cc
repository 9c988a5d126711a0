#include "synthesis/exchange/path_order.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// A chunk that a queue may send.
struct QueuedChunk {
  bool yields = false;  // to others, whatever their way
  double to_go = 0;     // seconds per byte of the hops that are left
  double since = 0;
  int distance = 0;  // from source to target
  int path = 0;

  bool operator<(const QueuedChunk& other) const {  // whoever is last in this order goes first
    return std::tie(other.yields, to_go, other.since, other.distance, other.path) <
           std::tie(yields, other.to_go, since, distance, path);
  }
};

struct HopQueue {
  std::priority_queue<QueuedChunk> line;
  bool awaited = false;  // its next chance to send is among the events
};

enum class OrderingEventKind { chunk_arrives, chunk_comes_to_link, queue_may_send };

struct OrderingEvent {
  double time = 0;
  OrderingEventKind what = OrderingEventKind::chunk_arrives;
  std::size_t number = 0;  // in order of planning
  int subject = 0;         // path or queue

  bool operator>(const OrderingEvent& other) const {
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

class PathOrdering {
 public:
  PathOrdering(const PathProblem& search, const std::vector<Path>& paths, std::vector<int> queue_of_hop)
      : search_(search),
        hops_(*search.hops),
        paths_(paths),
        distance_(hops_),
        queue_of_hop_(std::move(queue_of_hop)),
        queues_(at(hops_.count())),
        progress_(paths.size()),
        free_(search.resources.capacity.size(), 0) {
    if (queue_of_hop_.empty()) {
      queue_of_hop_.resize(queues_.size());
      std::iota(queue_of_hop_.begin(), queue_of_hop_.end(), 0);
    }
    for (std::size_t path = 0; path < paths.size(); ++path)
      for (const int hop : paths[path]) progress_[path].to_go += time_of(hop);
  }

  std::vector<Transfer> play() {
    for (std::size_t path = 0; path < paths_.size(); ++path)
      if (!paths_[path].empty()) line_up(static_cast<int>(path), 0);
    start_queues();
    while (!events_.empty()) {
      const OrderingEvent event = events_.top();
      events_.pop();
      switch (event.what) {
        case OrderingEventKind::chunk_arrives:
          arrive(event.subject, event.time);
          break;
        case OrderingEventKind::chunk_comes_to_link:
          pass_link(event.subject, event.time);
          break;
        case OrderingEventKind::queue_may_send:
          send_next(event.subject, event.time);
      }
    }
    return std::move(transfers_);
  }

 private:
  struct PathProgress {
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
  int hop_of(int path) const { return paths_[at(path)][progress_[at(path)].hop]; }

  void plan(double time, OrderingEventKind what, int subject) { events_.push({time, what, planned_++, subject}); }

  /// Returns the queue.
  int line_up(int path, double now) {
    const int block = path / search_.chunks, queue = queue_of_hop_[at(hop_of(path))];
    const int source = search_.sources[at(block / hops_.ranks())];
    const int distance = distance_(source, block % hops_.ranks());
    queues_[at(queue)].line.push(
        {hops_.yields(source, hops_.hop(hop_of(path))), progress_[at(path)].to_go, now, distance, path});
    return queue;
  }

  void start_queues() {
    std::vector<std::pair<int, int>> order;  // distance, queue
    for (int queue = 0; queue < hops_.count(); ++queue)
      if (!queues_[at(queue)].line.empty())
        order.emplace_back(distance_(hops_.hop(queue).from, hops_.hop(queue).to), queue);
    std::sort(order.begin(), order.end());
    for (const auto& [distance, queue] : order) await(queue, 0);
  }

  void await(int queue, double time) {
    if (!std::exchange(queues_[at(queue)].awaited, true)) plan(time, OrderingEventKind::queue_may_send, queue);
  }

  void send_next(int queue, double now) {
    queues_[at(queue)].awaited = false;
    auto& line = queues_[at(queue)].line;
    if (line.empty()) return;
    const int path = line.top().path;
    line.pop();
    const Hop& hop = hops_.hop(hop_of(path));
    const int block = path / search_.chunks, source = search_.sources[at(block / hops_.ranks())];
    const int chunk = (source * hops_.ranks() + block % hops_.ranks()) * search_.chunks + path % search_.chunks;
    transfers_.push_back({chunk, hop.from, hop.to, hop.channel});
    progress_[at(path)].link = 0;
    progress_[at(path)].last_byte = now;
    await(queue, pass_link(path, now));
  }

  /// Returns when the last byte has left it.
  double pass_link(int path, double now) {
    PathProgress& progress = progress_[at(path)];
    const auto links = hops_.links(hop_of(path));
    const int link = links[progress.link];
    double& free = free_[at(search_.resources.of_link[at(link)])];
    const double begins = std::max(now, free);
    free = begins + time_at(link);
    progress.last_byte = std::max(progress.last_byte, free);
    if (++progress.link < links.size())
      plan(begins, OrderingEventKind::chunk_comes_to_link, path);
    else
      plan(progress.last_byte, OrderingEventKind::chunk_arrives, path);
    return free;
  }

  void arrive(int path, double now) {
    PathProgress& progress = progress_[at(path)];
    progress.to_go -= time_of(hop_of(path));
    if (++progress.hop == paths_[at(path)].size()) return;
    await(line_up(path, now), now);
  }

  const PathProblem& search_;
  const HopTable& hops_;
  const std::vector<Path>& paths_;
  Distances distance_;
  std::vector<int> queue_of_hop_;
  std::vector<HopQueue> queues_;
  std::vector<PathProgress> progress_;  // [path]
  std::vector<double> free_;            // [resource] from when on
  std::priority_queue<OrderingEvent, std::vector<OrderingEvent>, std::greater<>> events_;
  std::size_t planned_ = 0;
  std::vector<Transfer> transfers_;
};

}  // namespace

std::vector<Transfer> order_paths(const PathProblem& search, const std::vector<Path>& paths,
                                  std::vector<int> queue_of_hop) {
  return PathOrdering(search, paths, std::move(queue_of_hop)).play();
}

}  // namespace tutti
