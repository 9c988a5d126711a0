#include "synthesis/greedy/greedy_collect.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <set>

#include "synthesis/greedy/gather_paths.hpp"
#include "synthesis/greedy/timed_traffic.hpp"

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct ChunkOnWay {
  int chunk = 0;
  int way = 0;
};

/// Which chunk may take which way now.
class Guide {
 public:
  virtual ~Guide() = default;
  /// Whether any chunk ever takes the way.
  virtual bool uses(int way) const = 0;
  virtual bool gets_on(int way, int chunk) const = 0;
  virtual void started(const ChunkOnWay& move) = 0;
  /// Nothing moves as things are: be less particular. False: it cannot.
  virtual bool give_in() { return false; }
};

/// Along paths that are given.
class PathGuide : public Guide {
 public:
  PathGuide(const TimedNetwork& network, std::vector<std::vector<int>> paths)
      : paths_(std::move(paths)), done_(paths_.size()), is_used_(at(network.ways())) {
    for (const auto& path : paths_)
      for (const int way : path) is_used_[at(way)] = true;
  }

  bool uses(int way) const override { return is_used_[at(way)]; }
  bool gets_on(int way, int chunk) const override { return paths_[at(chunk)][done_[at(chunk)]] == way; }
  void started(const ChunkOnWay& move) override { ++done_[at(move.chunk)]; }

 private:
  std::vector<std::vector<int>> paths_;
  std::vector<std::size_t> done_;  // by chunk
  std::vector<bool> is_used_;
};

/// Over any way that leads nearer to the root, as the sketch allows; on a detour only where the best way is crowded,
/// and not to where chunks pile up.
class NearerGuide : public Guide {
 public:
  NearerGuide(const TimedNetwork& network, const Shape& shape, const SketchPlan* plan, Direction direction);

  /// Fails where the sketch leaves no way.
  Status check() const;
  bool uses(int way) const override;
  bool gets_on(int way, int chunk) const override;
  void started(const ChunkOnWay& move) override;
  bool give_in() override { return std::exchange(is_particular_, false); }

 private:
  /// By rank: how long a chunk takes to the root where nothing is in its way.
  using Distances = std::vector<Ticks>;

  bool may_take(const TimedWay& way, int home) const;
  Distances distances_of(int home) const;
  void find_onward_ways();
  const Distances& distances(int home) const { return distances_[plan_ != nullptr ? at(home) : 0]; }

  const TimedNetwork& network_;
  const Shape& shape_;
  const SketchPlan* plan_;
  Direction direction_;
  std::vector<std::vector<int>> inlets_of_;  // by rank
  std::vector<Distances> distances_;         // by the chunk's home where there is a sketch, else one for all
  std::vector<Ticks> pace_;                  // by rank: between two chunks that it passes on
  std::vector<int> best_inlet_;              // by rank: where its shortest way leads
  std::vector<int> expected_;                // by rank: chunks that wait there or are coming
  std::vector<int> crowd_;                   // by inlet: chunks of which it is the best
  bool is_particular_ = true;
};

NearerGuide::NearerGuide(const TimedNetwork& network, const Shape& shape, const SketchPlan* plan, Direction direction)
    : network_(network),
      shape_(shape),
      plan_(plan),
      direction_(direction),
      inlets_of_(at(shape.ranks)),
      expected_(at(shape.ranks)),
      crowd_(network.inlets().size()) {
  for (std::size_t inlet = 0; inlet < network.inlets().size(); ++inlet)
    inlets_of_[at(network.inlets()[inlet].to)].push_back(static_cast<int>(inlet));
  for (int home = 0; home < (plan != nullptr ? shape.ranks : 1); ++home) distances_.push_back(distances_of(home));
  find_onward_ways();
  for (int rank = 0; rank < shape.ranks; ++rank) {
    if (rank == shape.root) continue;
    expected_[at(rank)] = shape.chunks;
    if (best_inlet_[at(rank)] >= 0) crowd_[at(best_inlet_[at(rank)])] += shape.chunks;
  }
}

bool NearerGuide::may_take(const TimedWay& way, int home) const {
  if (plan_ == nullptr || network_.are_on_one_island(way)) return true;
  if (plan_->straight_between_nodes && (network_.island_of(home) != network_.island_of(way.from) ||
                                        network_.island_of(shape_.root) != network_.island_of(way.to)))
    return false;
  const int origin = direction_ == Direction::onward ? home : shape_.root;
  const int gate = direction_ == Direction::onward ? way.from : way.to;
  if (network_.island_of(gate) != network_.island_of(origin) || plan_->sender_of.empty()) return true;
  const int sender = plan_->sender_of[at(origin)];
  return sender < 0 || sender == gate;
}

NearerGuide::Distances NearerGuide::distances_of(int home) const {
  Distances distances(at(shape_.ranks), kNever);
  using Entry = std::pair<Ticks, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting;
  distances[at(shape_.root)] = 0;
  waiting.emplace(0, shape_.root);
  while (!waiting.empty()) {
    const auto [distance, rank] = waiting.top();
    waiting.pop();
    if (distance > distances[at(rank)]) continue;
    for (const int inlet : inlets_of_[at(rank)])
      for (const WaySource& source : network_.inlets()[at(inlet)].sources) {
        const TimedWay& way = network_.way(source.way);
        if (distance + way.time >= distances[at(way.from)] || !may_take(way, home)) continue;
        distances[at(way.from)] = distance + way.time;
        waiting.emplace(distance + way.time, way.from);
      }
  }
  return distances;
}

/// How fast the outlets of a rank that lead nearer to the root are together, and which inlet is the best.
void NearerGuide::find_onward_ways() {
  std::vector<std::set<int>> outlets(at(shape_.ranks));
  best_inlet_.assign(at(shape_.ranks), -1);
  for (std::size_t inlet = 0; inlet < network_.inlets().size(); ++inlet)
    for (const WaySource& source : network_.inlets()[inlet].sources) {
      const TimedWay& way = network_.way(source.way);
      const Distances& distance = distances(way.from);
      if (distance[at(way.to)] >= distance[at(way.from)]) continue;
      outlets[at(way.from)].insert(source.outlet);
      if (distance[at(way.to)] + way.time == distance[at(way.from)])
        best_inlet_[at(way.from)] = static_cast<int>(inlet);
    }
  for (const std::set<int>& links : outlets) {
    double rate = 0;
    for (const int link : links) rate += 1 / static_cast<double>(network_.busy(link));
    pace_.push_back(rate > 0 ? static_cast<Ticks>(1 / rate) : 0);
  }
}

Status NearerGuide::check() const {
  for (int rank = 0; rank < shape_.ranks; ++rank)
    if (distances(rank)[at(rank)] == kNever)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("greedy: the sketch leaves no way between ranks {} and {}", rank, shape_.root));
  return {};
}

bool NearerGuide::uses(int way) const {
  const TimedWay& way_taken = network_.way(way);
  return std::any_of(distances_.begin(), distances_.end(), [&](const Distances& distance) {
    return distance[at(way_taken.to)] < distance[at(way_taken.from)];
  });
}

bool NearerGuide::gets_on(int index, int chunk) const {
  const TimedWay& way = network_.way(index);
  const int home = home_of(shape_, chunk);
  const Distances& distance = distances(home);
  if (distance[at(way.to)] >= distance[at(way.from)] || !may_take(way, home)) return false;
  if (way.to == shape_.root || !is_particular_) return true;
  const Ticks detour = distance[at(way.to)] + way.time - distance[at(way.from)];
  if (const int best = best_inlet_[at(way.from)]; detour > 0 && best >= 0) {
    const Ticks crowd = crowd_[at(best)] * network_.busy(network_.inlets()[at(best)].link);
    if (detour >= crowd) return false;
  }
  return expected_[at(way.to)] * pace_[at(way.to)] <= way.time;
}

void NearerGuide::started(const ChunkOnWay& move) {
  const TimedWay& way = network_.way(move.way);
  is_particular_ = true;
  --expected_[at(way.from)];
  ++expected_[at(way.to)];
  if (const int best = best_inlet_[at(way.from)]; best >= 0) --crowd_[at(best)];
  if (const int best = best_inlet_[at(way.to)]; best >= 0 && way.to != shape_.root) ++crowd_[at(best)];
}

struct Collected {
  std::vector<Transfer> transfers;
  Ticks ends = 0;
};

class Collect {
 public:
  Collect(TimedNetwork network, const Shape& shape, std::uint64_t seed, Guide& guide);

  Result<Collected> run(Deadline deadline);

 private:
  void serve(int index);
  int pick(int way) const;
  void start(int way, int place);
  void arrive(const ChunkOnWay& move);

  TimedNetwork network_;
  TimedTraffic traffic_;
  const Shape& shape_;
  Guide& guide_;
  std::vector<std::vector<WaySource>> sources_;  // by inlet: those that are used
  std::vector<std::size_t> next_source_;         // by inlet
  std::vector<std::vector<int>> stock_;          // by rank: chunks that wait there
  std::vector<ChunkOnWay> moves_;
  int left_ = 0;
  Collected collected_;
};

Collect::Collect(TimedNetwork network, const Shape& shape, std::uint64_t seed, Guide& guide)
    : network_(std::move(network)), traffic_(network_), shape_(shape), guide_(guide), stock_(at(shape.ranks)) {
  for (const Inlet& inlet : network_.inlets()) {
    sources_.emplace_back();
    for (const WaySource& source : inlet.sources)
      if (guide.uses(source.way)) sources_.back().push_back(source);
    next_source_.push_back(sources_.back().empty() ? 0 : seed % sources_.back().size());
  }
  for (int chunk = 0; chunk < chunks_of(shape); ++chunk) {
    const int home = home_of(shape, chunk);
    if (home == shape.root) continue;
    stock_[at(home)].push_back(chunk);
    ++left_;
  }
}

Result<Collected> Collect::run(Deadline deadline) {
  traffic_.touch_all();
  while (left_ > 0) {
    for (const int inlet : traffic_.take_touched()) serve(inlet);
    if (traffic_.is_quiet()) {
      if (!guide_.give_in()) return fail(ErrorCode::internal, "greedy: no chunk gets on");
      traffic_.touch_all();
      continue;
    }
    for (const int move : traffic_.advance()) arrive(moves_[at(move)]);
    if (deadline.passed()) return fail(ErrorCode::timed_out, "greedy: chunks are still missing");
  }
  collected_.ends = traffic_.now();
  return collected_;
}

void Collect::arrive(const ChunkOnWay& move) {
  const int rank = network_.way(move.way).to;
  if (rank == shape_.root) {
    --left_;
    return;
  }
  stock_[at(rank)].push_back(move.chunk);
  traffic_.offer(rank);
}

void Collect::serve(int index) {
  const std::vector<WaySource>& sources = sources_[at(index)];
  if (sources.empty() || !network_.is_open(network_.inlets()[at(index)], traffic_.now())) return;
  std::size_t place = next_source_[at(index)];
  for (std::size_t tried = 0; tried < sources.size(); ++tried, place = place + 1 < sources.size() ? place + 1 : 0) {
    const WaySource& source = sources[place];
    if (!network_.is_open(source.outlet, traffic_.now())) continue;
    if (stock_[at(network_.way(source.way).from)].empty()) continue;
    if (!network_.is_open(network_.way(source.way), traffic_.now())) continue;
    const int chosen = pick(source.way);
    if (chosen < 0) continue;
    start(source.way, chosen);
    next_source_[at(index)] = place + 1 < sources.size() ? place + 1 : 0;
    return;
  }
}

/// A chunk's place in the sender's stock; -1: none gets on this way.
int Collect::pick(int way) const {
  const std::vector<int>& stock = stock_[at(network_.way(way).from)];
  const auto found = std::find_if(stock.begin(), stock.end(), [&](int chunk) { return guide_.gets_on(way, chunk); });
  return found == stock.end() ? -1 : static_cast<int>(found - stock.begin());
}

void Collect::start(int index, int place) {
  const TimedWay& way = network_.way(index);
  std::vector<int>& stock = stock_[at(way.from)];
  const ChunkOnWay move{stock[at(place)], index};
  stock.erase(stock.begin() + place);
  traffic_.start(index, static_cast<int>(moves_.size()));
  moves_.push_back(move);
  guide_.started(move);
  collected_.transfers.push_back({move.chunk, way.from, way.to, way.channel});
}

}  // namespace

Result<std::vector<Transfer>> collect(const TimedNetwork& network, const Topology& topology, const Shape& shape,
                                      const GreedyOptions& options, Direction direction, Deadline deadline) {
  NearerGuide nearer(network, shape, options.plan, direction);
  if (const Status status = nearer.check(); !status) return tl::unexpected(status.error());
  Result<Collected> best = Collect(network, shape, options.seed, nearer).run(deadline);
  if (!best) return tl::unexpected(best.error());
  if (options.plan != nullptr) return best->transfers;
  if (auto paths = gather_paths(network, topology, shape.root, shape.chunks); !paths.empty()) {
    PathGuide along_paths(network, std::move(paths));
    Result<Collected> other = Collect(network, shape, options.seed, along_paths).run(deadline);
    if (other && other->ends < best->ends) best = std::move(other);
  }
  return best->transfers;
}

}  // namespace tutti
