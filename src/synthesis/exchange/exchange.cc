#include "synthesis/exchange/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "synthesis/exchange/hops.hpp"
#include "synthesis/exchange/path_order.hpp"
#include "synthesis/exchange/path_search.hpp"
#include "synthesis/trees/find_translations.hpp"

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kNear = 1.01;              // of what is enough
constexpr double kAsGood = 1.005;           // of the best: then fewer peers count
constexpr std::size_t kMostHops = 150'000;  // above, a fabric's hops are thinned out
constexpr int kMostChunksInAll = 1 << 20;   // above, blocks are split into fewer chunks
// Numbers of ranks:
constexpr int kMostRanks = 4096;     // above, the paths of all blocks take too much memory
constexpr int kMostStraight = 256;   // above, a worker for every peer is more than a rank may have
constexpr int kMostToTryBoth = 128;  // above, what was found for some and moved is left as it is

/// How blocks get from node to node: by one hop, straight, or to or from the rank that has the same place in its node.
enum class Between { straight, relayed_at_source, relayed_at_target };

std::string_view name_of(Between way) {
  switch (way) {
    case Between::straight:
      return "straight between nodes";
    case Between::relayed_at_source:
      return "relays in the source's node";
    default:
      return "relays in the target's node";
  }
}

/// A way to do it, and what it costs.
struct Candidate {
  std::string name;
  PathProblem problem;
  std::vector<Path> paths{};  // as FoundPaths': of all sources, or of some, to be moved to the others
  bool moves = false;
  double rate = 0;
  int peers = 0;  // of the rank that has most, to and from
};

class Maker {
 public:
  Maker(Routes& routes, const ExchangeOptions& options, double seconds)
      : routes_(routes),
        options_(options),
        hops_(routes, options.plan),
        ranks_(hops_.ranks()),
        places_(places_in_nodes(hops_.topology())),
        end_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::size_t node = at(hops_.node_of(rank) + 1);
      if (members_.size() <= node) members_.resize(node + 1);
      members_[node].push_back(rank);
    }
  }

  Result<Exchange> make() {
    try_straight_routes();
    if (hops_.topology().nodes() > 1) try_inner_paths(1);
    if (hops_.topology().nodes() > 1 && !good_enough()) try_inner_paths(most_chunks());
    if (!good_enough())
      if (auto searched = search(); !searched) return tl::unexpected(searched.error());
    if (ranks_ > kMostRanksWrittenOut && !best_->moves) translate_representatives();
    return finish();
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The rank at the place of `from` in the node of `to`.
  int counterpart(int from, int to) const {
    const auto& members = members_[at(hops_.node_of(to) + 1)];
    return members[at(places_[at(from)]) % members.size()];
  }

  bool good_enough() const { return best_ && best_->rate <= options_.enough * kNear; }

  int most_chunks() const { return std::clamp(kMostChunksInAll / (ranks_ * ranks_), 1, options_.most_chunks); }

  void try_straight_routes() {
    if (ranks_ > kMostStraight) return;
    std::vector<Path> paths(at(ranks_) * at(ranks_));
    for (int from = 0; from < ranks_; ++from)
      for (int to = 0; to < ranks_; ++to)
        if (from != to && !extend(paths[at(from * ranks_ + to)], from, from, to)) return;
    keep({.name = "straight routes", .problem = problem(1), .paths = std::move(paths)});
  }

  /// By searched paths inside nodes; between nodes by a single hop, straight or to or from the counterpart. Every port
  /// of a fabric may have to be full all the time, which takes sources and targets in step: no search finds that.
  void try_inner_paths(int chunks) {
    HopTable inside(routes_, options_.plan);
    inside.add_inside_nodes();
    PathProblem search = problem(chunks);
    search.hops = &inside;
    search.inside_nodes = true;
    search.enough = options_.enough / hops_.topology().nodes();  // relays carry as much for every other node
    FoundPaths inner = find_paths(search, seconds_left() / 4);
    if (inner.unreached_from >= 0) return;
    for (Path& path : inner.paths)
      for (int& index : path) {
        const auto [from, to, channel] = inside.hop(index);
        index = hops_.between(from, to).first + channel;
      }
    for (const Between way : {Between::relayed_at_target, Between::relayed_at_source, Between::straight})
      if (way != Between::straight || ranks_ <= kMostStraight) try_relays(way, chunks, inner.paths);
  }

  /// Nothing where a hop between nodes is missing or not allowed.
  void try_relays(Between way, int chunks, const std::vector<Path>& inner) {
    std::vector<Path> paths = inner;
    for (int from = 0; from < ranks_; ++from)
      for (int to = 0; to < ranks_; ++to) {
        if (hops_.node_of(from) == hops_.node_of(to)) continue;
        const int out = way == Between::relayed_at_source ? counterpart(to, from) : from;
        const int in = way == Between::relayed_at_target ? counterpart(from, to) : to;
        for (int piece = 0; piece < chunks; ++piece) {
          const auto inside = [&](int a, int b) -> const Path& { return inner[at((a * ranks_ + b) * chunks + piece)]; };
          Path& path = paths[at((from * ranks_ + to) * chunks + piece)];
          path = inside(from, out);
          if (!extend(path, from, out, in)) return;
          path.insert(path.end(), inside(in, to).begin(), inside(in, to).end());
        }
      }
    keep({.name = std::string(name_of(way)), .problem = problem(chunks), .paths = std::move(paths)});
  }

  /// Where there are several routes side by side, sources take turns.
  bool extend(Path& path, int source, int from, int to) {
    const HopRange hops = hops_.between(from, to);
    if (hops.count == 0 || !hops_.allows(source, hops_.hop(hops.first))) return false;
    path.push_back(hops.first + source % hops.count);
    return true;
  }

  Status search() {
    hops_.add_all(kMostHops);
    const bool moved = options_.plan == nullptr && search_for_few();
    return good_enough() || (moved && ranks_ > kMostToTryBoth) ? Status{} : search_for_all();
  }

  /// Whether translations move sources to others; then the orbits of links.
  std::optional<std::vector<int>> find_orbits() {
    FoundTranslations found = find_translations(hops_.topology());
    if (found.group.order() == 1) return std::nullopt;
    translations_ = std::move(found.group);
    return std::move(found.orbit_of_link);
  }

  /// Makes of the best so far what the representatives do and all others do moved, where that is as good.
  void translate_representatives() {
    const auto orbits = options_.plan == nullptr ? find_orbits() : std::nullopt;
    if (!orbits) return;
    const int chunks = best_->problem.chunks;
    Candidate candidate{.name = best_->name, .problem = problem_of_few(*orbits, chunks), .moves = true};
    for (const int representative : candidate.problem.sources) {
      const auto first = best_->paths.begin() + static_cast<std::ptrdiff_t>(representative) * ranks_ * chunks;
      candidate.paths.insert(candidate.paths.end(), first, first + static_cast<std::ptrdiff_t>(ranks_) * chunks);
    }
    weigh(candidate);
    if (candidate.rate <= best_->rate * kAsGood) best_ = std::move(candidate);
  }

  /// Where translations move sources to others: one of each orbit. False where there are none, or where links side by
  /// side would be used unevenly.
  bool search_for_few() {
    const auto orbits = find_orbits();
    if (!orbits) return false;
    Candidate candidate{
        .name = "searched paths, moved", .problem = problem_of_few(*orbits, most_chunks()), .moves = true};
    FoundPaths paths = find_paths(candidate.problem, seconds_left() / 2);
    candidate.paths = std::move(paths.paths);
    return keep(std::move(candidate)) <= paths.rate * kAsGood;
  }

  Status search_for_all() {
    Candidate candidate{.name = "searched paths", .problem = problem(most_chunks())};
    FoundPaths found = find_paths(candidate.problem, seconds_left());
    if (found.unreached_from >= 0)
      return fail(ErrorCode::unsupported, fmt::format("the sketch leaves no way from rank {} to rank {}",
                                                      found.unreached_from, found.unreached_to));
    candidate.paths = std::move(found.paths);
    keep(std::move(candidate));
    return {};
  }

  double seconds_left() const { return std::chrono::duration<double>(end_ - Clock::now()).count(); }

  PathProblem problem(int chunks) const {
    PathProblem problem{&hops_, Resources::of_links(hops_.topology()), {}, chunks, options_.enough};
    for (int rank = 0; rank < ranks_; ++rank) problem.sources.push_back(rank);
    return problem;
  }

  PathProblem problem_of_few(const std::vector<int>& orbit_of_link, int chunks) const {
    const Topology& topology = hops_.topology();
    PathProblem problem{&hops_, {}, {}, chunks, options_.enough};
    std::map<int, int> resource_of_orbit;
    for (int link = 0; link < topology.link_count(); ++link) {
      const auto fresh = static_cast<int>(resource_of_orbit.size());
      const int resource = resource_of_orbit.emplace(orbit_of_link[at(link)], fresh).first->second;
      problem.resources.of_link.push_back(resource);
      problem.resources.capacity.resize(resource_of_orbit.size(), 0);
      problem.resources.capacity[at(resource)] += topology.link(link).capacity.value() / translations_->order();
    }
    for (int rank = 0; rank < ranks_; ++rank)
      if (translations_->representative_of(rank) == rank) problem.sources.push_back(rank);
    return problem;
  }

  /// Keeps it where it is the best so far. Returns its rate.
  double keep(Candidate candidate) {
    weigh(candidate);
    const double rate = candidate.rate;
    const bool as_good = best_ && rate <= best_->rate * kAsGood && candidate.peers < best_->peers;
    if (!best_ || rate * kAsGood < best_->rate || as_good) best_ = std::move(candidate);
    return rate;
  }

  void weigh(Candidate& candidate) {
    const std::vector<double> uses = uses_of_hops(candidate);
    const Topology& topology = hops_.topology();
    std::vector<double> load(at(topology.link_count()), 0);
    std::vector<int> peers(at(ranks_), 0);
    for (int hop = 0; hop < hops_.count(); ++hop) {
      if (uses[at(hop)] == 0) continue;
      for (const int link : hops_.links(hop)) load[at(link)] += uses[at(hop)];
      ++peers[at(hops_.hop(hop).from)];
      ++peers[at(hops_.hop(hop).to)];
    }
    for (int link = 0; link < topology.link_count(); ++link)
      candidate.rate = std::max(candidate.rate, load[at(link)] / topology.link(link).capacity.value());
    candidate.rate /= ranks_ * candidate.problem.chunks;
    candidate.peers = *std::max_element(peers.begin(), peers.end());
  }

  /// How many chunks take each hop.
  std::vector<double> uses_of_hops(const Candidate& candidate) {
    std::vector<double> uses(at(hops_.count()), 0);
    for (const Path& path : candidate.paths)
      for (const int hop : path) uses[at(hop)] += 1;
    if (!candidate.moves) return uses;
    std::vector<double> moved(at(hops_.count()), 0);
    const std::vector<int> shifts = translations_->all();
    for (std::size_t hop = 0; hop < uses.size(); ++hop)
      for (const int shift : shifts) {
        if (uses[hop] == 0) continue;
        const int image = image_of(static_cast<int>(hop), shift);
        moved.resize(at(hops_.count()), 0);  // it may be new
        moved[at(image)] += uses[hop];
      }
    return moved;
  }

  int image_of(int hop, int shift) {
    const auto [from, to, channel] = hops_.hop(hop);
    return hops_.between(translations_->translated(from, shift), translations_->translated(to, shift)).first + channel;
  }

  Exchange finish() {
    const int chunks = best_->problem.chunks;
    std::vector<Transfer> transfers =
        order_paths(best_->problem, best_->paths, best_->moves ? queues_moved_to_one() : std::vector<int>{});
    return {{best_->name,
             {Collective::all_to_all, ranks_, 0, chunks},
             std::move(transfers),
             best_->moves ? *translations_ : Translations()},
            best_->rate};
  }

  /// [hop] = the hop that is moved to it, of a rank whose paths were searched.
  std::vector<int> queues_moved_to_one() {
    std::vector<int> queues;
    for (int hop = 0; hop < hops_.count(); ++hop)
      queues.push_back(image_of(hop, translations_->opposite(translations_->offset_of(hops_.hop(hop).from))));
    return queues;
  }

  Routes& routes_;
  const ExchangeOptions& options_;
  HopTable hops_;
  int ranks_;
  std::vector<int> places_;                // [rank] in its node
  std::vector<std::vector<int>> members_;  // [node + 1] ranks
  Clock::time_point end_;
  std::optional<Translations> translations_;
  std::optional<Candidate> best_;
};

}  // namespace

Result<Exchange> make_exchange(Routes& routes, const ExchangeOptions& options, double seconds) {
  if (const int ranks = routes.topology().ranks(); ranks > kMostRanks)
    return fail(ErrorCode::unsupported,
                fmt::format("{} ranks are more than the {} an exchange is made for", ranks, kMostRanks));
  return Maker(routes, options, seconds).make();
}

}  // namespace tutti
