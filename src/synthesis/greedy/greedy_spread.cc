#include "synthesis/greedy/greedy_spread.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "synthesis/greedy/chunk_sets.hpp"
#include "synthesis/greedy/timed_traffic.hpp"

namespace tutti {

namespace {

using Word = ChunkSets::Word;

constexpr int kChoices = 128;    // chunks of which the rarest is taken
constexpr int kPatience = 8;     // sources, flights and chunks that are looked at for one that can be sooner
constexpr int kWorthwhile = 20;  // a chunk is sent sooner if that gains one such part of the time it takes

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Splitmix64.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t roll() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

struct ChunkFlight {
  int chunk = 0;
  int way = 0;
  Ticks arrives = 0;
  bool dropped = false;
};

/// What the ranks of each island, together, have or get, and when it first comes there.
class IslandChunks {
 public:
  IslandChunks(int islands, int chunks)
      : chunks_(chunks),
        brought_(islands, chunks),
        lacks_(at(islands), chunks),
        brought_at_(at(islands) * at(chunks)),
        last_(at(islands)) {}

  const Word* of(int island) const { return brought_.of(island); }
  bool lacks_any(int island) const { return lacks_[at(island)] > 0; }
  /// When the chunk is on the first rank of the island.
  Ticks brought_at(int island, int chunk) const { return brought_at_[at(island) * at(chunks_) + at(chunk)]; }
  /// When the last chunk of those that have been brought is there.
  Ticks last(int island) const { return last_[at(island)]; }

  /// A rank of the island gets the chunk then. Only the first time counts.
  void bring(int island, int chunk, Ticks arrives) {
    if (brought_.has(island, chunk)) return;
    brought_.add(island, chunk);
    --lacks_[at(island)];
    brought_at_[at(island) * at(chunks_) + at(chunk)] = arrives;
    last_[at(island)] = std::max(last_[at(island)], arrives);
  }

 private:
  int chunks_;
  ChunkSets brought_;
  std::vector<int> lacks_;         // [island] chunks that nobody brings
  std::vector<Ticks> brought_at_;  // [island, chunk]
  std::vector<Ticks> last_;        // [island]
};

class Spread {
 public:
  Spread(TimedNetwork& network, const Shape& shape, const GreedyOptions& options);

  Result<std::vector<Transfer>> run(Deadline deadline);

 private:
  void read_plan();
  bool leaves_through(int rank, int chunk) const;
  void arrive(const ChunkFlight& flight);
  void serve_touched();
  void serve(int index);
  bool serve_new(int index, const Inlet& inlet);
  void serve_sooner(int index, const Inlet& inlet);
  bool can_be_sooner(const TimedWay& way) const;
  bool overtake(int index);
  bool bring_again(int index);
  bool may_send(const TimedWay& way, int chunk) const;
  int pick_new(const TimedWay& way);
  template <typename Wanted>
  int pick(const TimedWay& way, const Word* there, const Word* only, const Wanted& wanted);
  void start(int index, int chunk);
  tl::unexpected<Error> stuck() const;
  std::vector<Transfer> transfers() const;

  bool is_between_islands(const TimedWay& way) const { return !network_.are_on_one_island(way); }
  /// What arrives after that is worth to be sent over the way instead.
  Ticks late_over(const TimedWay& way) const { return traffic_.now() + way.time + way.time / kWorthwhile; }

  TimedNetwork& network_;
  TimedTraffic traffic_;
  const Shape& shape_;
  const SketchPlan* plan_;
  int chunks_;
  Dice dice_;
  ChunkSets have_, coming_;  // by rank; what is coming includes what is there
  IslandChunks islands_;
  ChunkSets may_leave_;      // by rank: what it may send to other islands, where there is a sketch
  ChunkSets own_;            // by rank, where there is a sketch
  std::vector<int> copies_;  // by chunk: ranks that have or get it
  std::vector<int> lacks_;   // by rank: chunks that are not even coming
  std::int64_t left_;        // arrivals
  std::vector<ChunkFlight> flights_;
  std::vector<std::vector<int>> in_air_;                // by rank; may hold some that have landed
  std::vector<Ticks> expected_last_;                    // by rank: the latest arrival
  std::vector<bool> is_between_;                        // by inlet: whether only other islands send to it
  std::vector<std::size_t> next_source_, next_sooner_;  // by inlet
};

Spread::Spread(TimedNetwork& network, const Shape& shape, const GreedyOptions& options)
    : network_(network),
      traffic_(network),
      shape_(shape),
      plan_(options.plan),
      chunks_(chunks_of(shape)),
      dice_(options.seed),
      have_(shape.ranks, chunks_),
      coming_(shape.ranks, chunks_),
      islands_(network.islands(), chunks_),
      may_leave_(plan_ != nullptr ? shape.ranks : 0, chunks_),
      own_(plan_ != nullptr ? shape.ranks : 0, chunks_),
      copies_(at(chunks_), 1),
      lacks_(at(shape.ranks), chunks_),
      left_(static_cast<std::int64_t>(shape.ranks - 1) * chunks_),
      in_air_(at(shape.ranks)),
      expected_last_(at(shape.ranks)),
      next_source_(network.inlets().size()),
      next_sooner_(network.inlets().size()) {
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    const int home = home_of(shape, chunk);
    have_.add(home, chunk);
    coming_.add(home, chunk);
    islands_.bring(network.island_of(home), chunk, 0);
    --lacks_[at(home)];
  }
  for (const Inlet& inlet : network.inlets())
    is_between_.push_back(std::all_of(inlet.sources.begin(), inlet.sources.end(), [&](const WaySource& source) {
      return is_between_islands(network_.way(source.way));
    }));
  if (plan_ != nullptr) read_plan();
}

void Spread::read_plan() {
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    own_.add(home_of(shape_, chunk), chunk);
    for (int rank = 0; rank < shape_.ranks; ++rank)
      if (leaves_through(rank, chunk)) may_leave_.add(rank, chunk);
  }
}

bool Spread::leaves_through(int rank, int chunk) const {
  const int home = home_of(shape_, chunk);
  if (network_.island_of(home) != network_.island_of(rank)) return !plan_->straight_between_nodes;
  const int sender = plan_->sender_of.empty() ? -1 : plan_->sender_of[at(home)];
  return sender < 0 || sender == rank;
}

Result<std::vector<Transfer>> Spread::run(Deadline deadline) {
  traffic_.touch_all();
  while (left_ > 0) {
    serve_touched();
    if (traffic_.is_quiet()) return stuck();
    for (const int flight : traffic_.advance()) arrive(flights_[at(flight)]);
    if (deadline.passed()) return fail(ErrorCode::timed_out, "greedy: chunks are still missing");
  }
  return transfers();
}

void Spread::arrive(const ChunkFlight& flight) {
  if (flight.dropped) return;
  const int rank = network_.way(flight.way).to;
  have_.add(rank, flight.chunk);
  --left_;
  traffic_.offer(rank);
}

void Spread::serve_touched() {
  for (const int inlet : traffic_.take_touched()) serve(inlet);
}

void Spread::serve(int index) {
  const Inlet& inlet = network_.inlets()[at(index)];
  if (!network_.is_open(inlet, traffic_.now())) return;
  const bool lacks = lacks_[at(inlet.to)] > 0;
  const bool lacks_from_there = lacks && (!is_between_[at(index)] || islands_.lacks_any(network_.island_of(inlet.to)));
  if (lacks_from_there && serve_new(index, inlet)) return;
  if (lacks || !in_air_[at(inlet.to)].empty()) serve_sooner(index, inlet);
}

/// Starts a chunk that nobody is bringing; false where there is none.
bool Spread::serve_new(int index, const Inlet& inlet) {
  const std::size_t count = inlet.sources.size();
  std::size_t place = next_source_[at(index)];
  for (std::size_t tried = 0; tried < count; ++tried, place = place + 1 < count ? place + 1 : 0) {
    const WaySource& source = inlet.sources[place];
    if (!network_.is_open(source.outlet, traffic_.now())) continue;
    const TimedWay& way = network_.way(source.way);
    if (!network_.is_open(way, traffic_.now())) continue;
    const int chunk = pick_new(way);
    if (chunk < 0) continue;
    start(source.way, chunk);
    // To stay with a source keeps connections few, and symmetric machines in step.
    const bool moves_on = plan_ != nullptr && plan_->policy == ConnectionPolicy::most;
    next_source_[at(index)] = (place + (moves_on ? 1 : 0)) % count;
    return true;
  }
  return false;
}

/// Starts a chunk that is on its way to the rank or its island but would be there sooner this way.
void Spread::serve_sooner(int index, const Inlet& inlet) {
  if (!can_be_sooner(network_.way(inlet.sources.front().way))) return;
  const std::size_t count = inlet.sources.size();
  std::size_t& place = next_sooner_[at(index)];
  int patience = kPatience;
  for (std::size_t tried = 0; tried < count && patience > 0; ++tried, place = place + 1 < count ? place + 1 : 0) {
    const WaySource& source = inlet.sources[place];
    if (!network_.is_open(source.outlet, traffic_.now())) continue;
    const TimedWay& way = network_.way(source.way);
    if (!network_.is_open(way, traffic_.now())) continue;
    --patience;
    if (overtake(source.way) || bring_again(source.way)) return;
  }
}

/// Whether anything is on its way to the rank or its island that arrives later than over this way.
bool Spread::can_be_sooner(const TimedWay& way) const {
  const Ticks late = late_over(way);
  return expected_last_[at(way.to)] > late ||
         islands_.last(network_.island_of(way.to)) + network_.time_within(way.to) > late;
}

/// Drops a flight to the rank that this way is sooner than.
bool Spread::overtake(int index) {
  const TimedWay& way = network_.way(index);
  std::vector<int>& flights = in_air_[at(way.to)];
  const auto has_landed = [&](int flight) {
    return flights_[at(flight)].dropped || flights_[at(flight)].arrives <= traffic_.now();
  };
  while (!flights.empty() && has_landed(flights.back())) flights.pop_back();
  const Ticks late = late_over(way);
  const std::size_t looks = std::min<std::size_t>(flights.size(), kPatience);
  for (std::size_t i = 1; i <= looks; ++i) {
    ChunkFlight& flight = flights_[at(flights[flights.size() - i])];
    if (flight.dropped || flight.arrives <= late || !may_send(way, flight.chunk)) continue;
    flight.dropped = true;
    ++lacks_[at(way.to)];
    start(index, flight.chunk);
    return true;
  }
  return false;
}

/// Brings a chunk to the island once more, where waiting until it is passed on inside takes longer, and costs the ranks
/// there more time than the links between islands.
bool Spread::bring_again(int index) {
  const TimedWay& way = network_.way(index);
  const Ticks within = network_.time_within(way.to);
  if (way.hold > within || !is_between_islands(way)) return false;
  const int island = network_.island_of(way.to);
  const Ticks late = late_over(way) - within;
  if (islands_.last(island) <= late) return false;
  int looks = kPatience;
  const int chunk = pick(way, coming_.of(way.to), nullptr,
                         [&](int candidate) { return --looks >= 0 && islands_.brought_at(island, candidate) > late; });
  if (chunk < 0) return false;
  start(index, chunk);
  return true;
}

bool Spread::may_send(const TimedWay& way, int chunk) const {
  return have_.has(way.from, chunk) &&
         (plan_ == nullptr || !is_between_islands(way) || may_leave_.has(way.from, chunk));
}

int Spread::pick_new(const TimedWay& way) {
  const auto any = [](int) { return true; };
  if (!is_between_islands(way)) return pick(way, coming_.of(way.to), nullptr, any);
  const Word* there = islands_.of(network_.island_of(way.to));
  if (plan_ != nullptr && plan_->own_chunks_first)
    if (const int chunk = pick(way, there, own_.of(way.from), any); chunk >= 0) return chunk;
  return pick(way, there, nullptr, any);
}

/// The rarest of some chunks that the sender may send, of `only` these, that are not `there`, and are `wanted`; -1:
/// there is none. The search begins at random.
template <typename Wanted>
int Spread::pick(const TimedWay& way, const Word* there, const Word* only, const Wanted& wanted) {
  const Word* here = have_.of(way.from);
  const Word* leave = plan_ != nullptr && is_between_islands(way) ? may_leave_.of(way.from) : nullptr;
  const std::size_t words = have_.words();
  const std::uint64_t roll = dice_.roll();
  const int shift = static_cast<int>(roll % ChunkSets::kWordBits);
  int best = -1;
  int looks = kChoices;
  std::size_t word = (roll >> 32) * words >> 32;
  for (std::size_t tried = 0; tried < words && looks > 0; ++tried, word = word + 1 < words ? word + 1 : 0) {
    Word found = here[word] & ~there[word];
    if (only != nullptr) found &= only[word];
    if (leave != nullptr) found &= leave[word];
    for (found = std::rotr(found, shift); found != 0; found &= found - 1, --looks) {
      const int bit = (std::countr_zero(found) + shift) % ChunkSets::kWordBits;
      const int chunk = static_cast<int>(word) * ChunkSets::kWordBits + bit;
      if ((best < 0 || copies_[at(chunk)] < copies_[at(best)]) && wanted(chunk)) best = chunk;
    }
  }
  return best;
}

void Spread::start(int index, int chunk) {
  const TimedWay& way = network_.way(index);
  const int flight = static_cast<int>(flights_.size());
  const Ticks arrives = traffic_.start(index, flight);
  flights_.push_back({chunk, index, arrives, false});
  in_air_[at(way.to)].push_back(flight);
  expected_last_[at(way.to)] = std::max(expected_last_[at(way.to)], arrives);
  if (!coming_.has(way.to, chunk)) ++copies_[at(chunk)];
  coming_.add(way.to, chunk);
  --lacks_[at(way.to)];
  islands_.bring(network_.island_of(way.to), chunk, arrives);
}

tl::unexpected<Error> Spread::stuck() const {
  for (int rank = 0; rank < shape_.ranks; ++rank)
    for (int chunk = 0; chunk < chunks_; ++chunk)
      if (!have_.has(rank, chunk))
        return fail(ErrorCode::invalid_argument, fmt::format("greedy: the sketch leaves no way from rank {} to rank {}",
                                                             home_of(shape_, chunk), rank));
  return fail(ErrorCode::internal, "greedy: nothing is missing, and yet not all is done");
}

std::vector<Transfer> Spread::transfers() const {
  std::vector<Transfer> result;
  for (const ChunkFlight& flight : flights_) {
    const TimedWay& way = network_.way(flight.way);
    if (!flight.dropped) result.push_back({flight.chunk, way.from, way.to, way.channel});
  }
  return result;
}

}  // namespace

Result<std::vector<Transfer>> spread(TimedNetwork& network, const Shape& shape, const GreedyOptions& options,
                                     Deadline deadline) {
  return Spread(network, shape, options).run(deadline);
}

}  // namespace tutti
