#include "synthesis/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <tuple>
#include <utility>

#include "synthesis/hops.hpp"
#include "synthesis/path_order.hpp"
#include "synthesis/path_search.hpp"

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr double kNear = 1.01;              // of what is enough
constexpr double kAsGood = 1.005;           // of the best: then fewer peers count
constexpr std::size_t kMostHops = 150'000;  // above, a fabric's hops are thinned out
constexpr int kMostChunksInAll = 1 << 20;   // above, blocks are split into fewer chunks

/// Paths of all blocks, and what they cost.
struct Candidate {
  std::string name;
  int chunks = 1;
  std::vector<Path> paths;  // as FoundPaths'
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
    Candidate candidate;
    candidate.name = std::move(name);
    candidate.paths.resize(at(ranks_) * at(ranks_));
    for (int from = 0; from < ranks_; ++from)
      for (int to = 0; to < ranks_; ++to) {
        if (from == to) continue;
        Path& path = candidate.paths[at(from) * at(ranks_) + at(to)];
        const int relay = by_way_of(from, to);
        const bool straight = relay == kNobody || relay == from || relay == to;
        if (straight ? !extend(path, from, from, to)
                     : !extend(path, from, from, relay) || !extend(path, from, relay, to))
          return;
      }
    measure(candidate);
    candidates_.push_back(std::move(candidate));
  }

  /// Where there are several routes side by side, sources take turns.
  bool extend(Path& path, int source, int from, int to) {
    const HopRange hops = hops_.between(from, to);
    if (hops.count == 0 || !hops_.allows(source, hops_.hop(hops.first))) return false;
    path.push_back(hops.first + source % hops.count);
    return true;
  }

  void measure(Candidate& candidate) const {
    std::vector<double> load(at(hops_.topology().link_count()), 0);
    std::vector<char> used(at(hops_.count()), 0);
    for (const Path& path : candidate.paths)
      for (const int hop : path) {
        for (const int link : hops_.links(hop)) load[at(link)] += 1;
        used[at(hop)] = 1;
      }
    for (int link = 0; link < hops_.topology().link_count(); ++link)
      candidate.rate = std::max(
          candidate.rate, load[at(link)] / hops_.topology().link(link).capacity.value() / ranks_ / candidate.chunks);
    std::vector<int> peers(at(ranks_), 0);
    for (int hop = 0; hop < hops_.count(); ++hop)
      if (used[at(hop)]) ++peers[at(hops_.hop(hop).from)], ++peers[at(hops_.hop(hop).to)];
    candidate.peers = *std::max_element(peers.begin(), peers.end());
  }

  Status search() {
    hops_.add_all(kMostHops);
    PathSearch search = whole(std::clamp(kMostChunksInAll / (ranks_ * ranks_), 1, options_.most_chunks));
    search.enough = options_.enough;
    FoundPaths found = find_paths(search, std::chrono::duration<double>(end_ - Clock::now()).count());
    if (found.unreached_from >= 0)
      return fail(ErrorCode::unsupported, fmt::format("the sketch leaves no way from rank {} to rank {}",
                                                      found.unreached_from, found.unreached_to));
    Candidate candidate{.name = "searched paths", .chunks = search.chunks, .paths = std::move(found.paths)};
    measure(candidate);
    candidates_.push_back(std::move(candidate));
    return {};
  }

  PathSearch whole(int chunks) const {
    PathSearch search;
    search.hops = &hops_;
    search.resources = Resources::of_links(hops_.topology());
    for (int rank = 0; rank < ranks_; ++rank) search.sources.push_back(rank);
    search.chunks = chunks;
    return search;
  }

  Exchange finish() {
    double best = candidates_.front().rate;
    for (const Candidate& candidate : candidates_) best = std::min(best, candidate.rate);
    const auto after = [&](const Candidate& a, const Candidate& b) {
      return std::tuple(a.rate > best * kAsGood, a.peers, a.rate) <
             std::tuple(b.rate > best * kAsGood, b.peers, b.rate);
    };
    const Candidate& chosen = *std::min_element(candidates_.begin(), candidates_.end(), after);
    return {{chosen.name,
             {Collective::all_to_all, ranks_, 0, chosen.chunks},
             order_paths(whole(chosen.chunks), chosen.paths)},
            chosen.rate};
  }

  const ExchangeOptions& options_;
  HopTable hops_;
  int ranks_;
  std::vector<int> places_;                // [rank] in its node
  std::vector<std::vector<int>> members_;  // [node + 1] ranks
  Clock::time_point end_;
  std::vector<Candidate> candidates_;
};

}  // namespace

Result<Exchange> make_exchange(Routes& routes, const ExchangeOptions& options, double seconds) {
  return Maker(routes, options, seconds).make();
}

}  // namespace tutti
