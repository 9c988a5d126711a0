#include "synthesis/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "synthesis/hops.hpp"
#include "synthesis/path_order.hpp"
#include "synthesis/path_search.hpp"
#include "topology/link_classes.hpp"
#include "topology/translations.hpp"

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kNear = 1.01;              // of what is enough
constexpr double kAsGood = 1.005;           // of the best: then fewer peers count
constexpr std::size_t kMostHops = 150'000;  // above, a fabric's hops are thinned out
constexpr int kMostChunksInAll = 1 << 20;   // above, blocks are split into fewer chunks

/// A way to do it, and what it costs.
struct Candidate {
  std::string name;
  PathSearch problem;
  std::vector<Path> paths{};  // as FoundPaths': of all sources, or of rank 0, to be moved to all others
  bool moves = false;
  double rate = 0;
  int peers = 0;  // of the rank that has most, to and from
};

class Maker {
 public:
  Maker(Routes& routes, const ExchangeOptions& options, double seconds)
      : options_(options),
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
    try_template("straight routes", [](int, int) { return kNobody; });
    if (hops_.topology().nodes() > 1) {
      try_template("relays in the target's node", [&](int from, int to) { return counterpart(from, to); });
      try_template("relays in the source's node", [&](int from, int to) { return counterpart(to, from); });
    }
    if (!good_enough())
      if (auto searched = search(); !searched) return tl::unexpected(searched.error());
    return finish();
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// The rank at the place of `from` in the node of `to`; nobody where the two are in one node.
  int counterpart(int from, int to) const {
    if (hops_.node_of(from) == hops_.node_of(to)) return kNobody;
    const auto& members = members_[at(hops_.node_of(to) + 1)];
    return members[at(places_[at(from)]) % members.size()];
  }

  bool good_enough() const {
    for (const Candidate& candidate : candidates_)
      if (candidate.rate <= options_.enough * kNear) return true;
    return false;
  }

  /// Every block in one piece, by way of one rank or straight; nothing where there is no such way.
  void try_template(std::string name, const std::function<int(int from, int to)>& by_way_of) {
    std::vector<Path> paths(at(ranks_) * at(ranks_));
    for (int from = 0; from < ranks_; ++from)
      for (int to = 0; to < ranks_; ++to) {
        if (from == to) continue;
        Path& path = paths[at(from) * at(ranks_) + at(to)];
        const int relay = by_way_of(from, to);
        const bool straight = relay == kNobody || relay == from || relay == to;
        if (!straight && !extend(path, from, from, relay)) return;
        if (!extend(path, from, straight ? from : relay, to)) return;
      }
    keep({.name = std::move(name), .problem = problem(1), .paths = std::move(paths)});
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
    const int chunks = std::clamp(kMostChunksInAll / (ranks_ * ranks_), 1, options_.most_chunks);
    if (hops_.topology().nodes() > 1) search_inside_nodes(chunks);
    if (!good_enough() && options_.plan == nullptr) search_for_one(chunks);
    return good_enough() ? Status{} : search_for_all(chunks);
  }

  /// Straight between nodes, where every port of a fabric may have to be full all the time, which takes sources and
  /// targets in step; by searched paths inside.
  void search_inside_nodes(int chunks) {
    Candidate candidate{.name = "straight between nodes", .problem = problem(chunks)};
    std::vector<Path>& given = candidate.problem.given;
    given.resize(at(ranks_) * at(ranks_) * at(chunks));
    for (int from = 0; from < ranks_; ++from)
      for (int to = 0; to < ranks_; ++to)
        for (int piece = 0; hops_.node_of(from) != hops_.node_of(to) && piece < chunks; ++piece)
          if (!extend(given[at((from * ranks_ + to) * chunks + piece)], from, from, to)) return;
    FoundPaths found = find_paths(candidate.problem, seconds_left() / 2);
    if (found.unreached_from >= 0) return;
    candidate.paths = std::move(found.paths);
    keep(std::move(candidate));
  }

  /// Where the paths of one source may be moved to all others. Links side by side may then be used unevenly.
  void search_for_one(int chunks) {
    translations_ = find_translations(hops_.topology());
    if (!translations_) return;
    Candidate candidate{.name = "searched paths, moved", .problem = problem_of_one(chunks), .moves = true};
    candidate.paths = find_paths(candidate.problem, seconds_left() / 2).paths;
    keep(std::move(candidate));
  }

  Status search_for_all(int chunks) {
    Candidate candidate{.name = "searched paths", .problem = problem(chunks)};
    FoundPaths found = find_paths(candidate.problem, seconds_left());
    if (found.unreached_from >= 0)
      return fail(ErrorCode::unsupported, fmt::format("the sketch leaves no way from rank {} to rank {}",
                                                      found.unreached_from, found.unreached_to));
    candidate.paths = std::move(found.paths);
    keep(std::move(candidate));
    return {};
  }

  double seconds_left() const { return std::chrono::duration<double>(end_ - Clock::now()).count(); }

  PathSearch problem(int chunks) const {
    PathSearch problem{&hops_, Resources::of_links(hops_.topology()), {}, chunks, options_.enough, {}};
    for (int rank = 0; rank < ranks_; ++rank) problem.sources.push_back(rank);
    return problem;
  }

  PathSearch problem_of_one(int chunks) const {
    const Topology& topology = hops_.topology();
    PathSearch problem{
        &hops_, {classes_of_links(topology, translations_->generators), {}}, {0}, chunks, options_.enough, {}};
    std::vector<double>& capacity = problem.resources.capacity;
    for (int link = 0; link < topology.link_count(); ++link) {
      const std::size_t own = at(problem.resources.of_link[at(link)]);
      if (own >= capacity.size()) capacity.resize(own + 1, 0);
      capacity[own] += topology.link(link).capacity.value() / ranks_;
    }
    return problem;
  }

  void keep(Candidate candidate) {
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
    candidates_.push_back(std::move(candidate));
  }

  /// How many chunks take each hop.
  std::vector<double> uses_of_hops(const Candidate& candidate) {
    std::vector<double> uses(at(hops_.count()), 0);
    for (const Path& path : candidate.paths)
      for (const int hop : path) uses[at(hop)] += 1;
    if (!candidate.moves) return uses;
    std::vector<double> moved(at(hops_.count()), 0);
    for (int hop = 0; hop < hops_.count(); ++hop)
      for (int shift = 0; uses[at(hop)] > 0 && shift < ranks_; ++shift) {
        const auto [from, to, channel] = hops_.hop(hop);
        const HopRange image = hops_.between(translations_->moved(from, shift), translations_->moved(to, shift));
        moved[at(image.first + channel)] += uses[at(hop)];
      }
    return moved;
  }

  Exchange finish() const {
    double best = candidates_.front().rate;
    for (const Candidate& candidate : candidates_) best = std::min(best, candidate.rate);
    const auto rank = [&](const Candidate& candidate) {
      return std::tuple(candidate.rate > best * kAsGood, candidate.peers, candidate.rate);
    };
    const Candidate& chosen =
        *std::min_element(candidates_.begin(), candidates_.end(),
                          [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
    std::vector<Transfer> transfers = order_paths(chosen.problem, chosen.paths);
    if (chosen.moves) transfers = moved_to_all(transfers, chosen.problem.chunks);
    return {{chosen.name, {Collective::all_to_all, ranks_, 0, chosen.problem.chunks}, std::move(transfers)},
            chosen.rate};
  }

  std::vector<Transfer> moved_to_all(const std::vector<Transfer>& transfers, int chunks) const {
    std::vector<int> moved;  // [shift * ranks + rank]
    for (int shift = 0; shift < ranks_; ++shift)
      for (int rank = 0; rank < ranks_; ++rank) moved.push_back(translations_->moved(rank, shift));
    std::vector<Transfer> all;
    all.reserve(transfers.size() * at(ranks_));
    for (const auto& [chunk, from, to, channel] : transfers)
      for (int shift = 0; shift < ranks_; ++shift) {
        const int* image = moved.data() + at(shift) * at(ranks_);
        const int block = shift * ranks_ + image[chunk / chunks];  // rank 0 is where it starts
        all.push_back({block * chunks + chunk % chunks, image[from], image[to], channel});
      }
    return all;
  }

  const ExchangeOptions& options_;
  HopTable hops_;
  int ranks_;
  std::vector<int> places_;                // [rank] in its node
  std::vector<std::vector<int>> members_;  // [node + 1] ranks
  Clock::time_point end_;
  std::optional<Translations> translations_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Result<Exchange> make_exchange(Routes& routes, const ExchangeOptions& options, double seconds) {
  return Maker(routes, options, seconds).make();
}

}  // namespace tutti
