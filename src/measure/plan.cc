#include "measure/plan.hpp"

#include <algorithm>

namespace tutti {
namespace {

constexpr std::size_t kMostPeers = 16;
constexpr std::size_t kMostFlows = 64;  // between two islands
constexpr std::size_t kMostTrunks = 12;

class Planner {
 public:
  Planner(const PairTable& pairs, const std::vector<std::vector<int>>& islands) : pairs_(pairs), islands_(islands) {}

  std::vector<Together> plan() {
    for (int rank = 0; rank < pairs_.ranks(); ++rank) ports(rank, kMostPeers);
    for (int host = 0; host < pairs_.hosts(); ++host) add_host(host);
    const auto trunks = trunks_of(pairs_, islands_);
    for (std::size_t i = 0; i < trunks.size(); ++i) add_trunk(static_cast<int>(i), trunks[i]);
    for (std::size_t peers = 2; peers < kMostPeers; peers *= 2)
      for (int rank = 0; rank < pairs_.ranks(); ++rank) ports(rank, peers);
    return std::move(plan_);
  }

 private:
  void ports(int rank, std::size_t most) {
    for (const bool local : {true, false}) {
      std::vector<int> peers = pairs_.peers(rank, local);
      // All of them were measured first.
      if (peers.size() < 2 || (most < kMostPeers && peers.size() <= most)) continue;
      peers.resize(std::min(peers.size(), most));
      std::vector<RankFlow> out, in;
      for (const int peer : peers) {
        out.push_back({rank, peer});
        in.push_back({peer, rank});
      }
      add(SharedResource::egress, rank, out);
      add(SharedResource::ingress, rank, in);
    }
  }

  void add_host(int host) {
    std::vector<int> ranks, others;
    for (int rank = 0; rank < pairs_.ranks(); ++rank) (pairs_.host(rank) == host ? ranks : others).push_back(rank);
    if (ranks.size() < 2) return;
    std::vector<RankFlow> out, in, round;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (!others.empty()) {
        // A partner each, of different hosts where hosts lie one after the other.
        const int partner = others[i * others.size() / ranks.size()];
        out.push_back({ranks[i], partner});
        in.push_back({partner, ranks[i]});
      }
      round.push_back({ranks[i], ranks[(i + 1) % ranks.size()]});
    }
    add(SharedResource::host_egress, host, out);
    add(SharedResource::host_ingress, host, in);
    if (ranks.size() > 2) add(SharedResource::host_memory, host, round);
  }

  void add_trunk(int subject, std::pair<int, int> islands) {
    std::vector<RankFlow> flows;
    for (const int from : islands_[static_cast<std::size_t>(islands.first)])
      for (const int to : islands_[static_cast<std::size_t>(islands.second)]) flows.push_back({from, to});
    std::stable_sort(flows.begin(), flows.end(), [&](const RankFlow& a, const RankFlow& b) {
      return pairs_.rate(a.from, a.to) > pairs_.rate(b.from, b.to);
    });
    flows.resize(std::min(flows.size(), kMostFlows));
    add(SharedResource::trunk, subject, flows);
  }

  void add(SharedResource shared, int subject, const std::vector<RankFlow>& flows) {
    if (flows.size() < 2) return;
    Together together{shared, subject, flows, 0, 0};
    for (const RankFlow& flow : flows) together.alone += pairs_.rate(flow.from, flow.to);
    plan_.push_back(std::move(together));
  }

  const PairTable& pairs_;
  const std::vector<std::vector<int>>& islands_;
  std::vector<Together> plan_;
};

}  // namespace

std::vector<std::pair<int, int>> pairs_in_rounds(int ranks) {
  // The circle method: one stays, the others move on by one place each round; an odd number plays with a bye.
  const int places = ranks + ranks % 2;
  std::vector<std::pair<int, int>> pairs;
  const auto at = [&](int place, int round) { return place == 0 ? 0 : 1 + (place - 1 + round) % (places - 1); };
  for (int round = 0; round + 1 < places; ++round)
    for (int place = 0; place < places / 2; ++place) {
      const int a = at(place, round), b = at(places - 1 - place, round);
      if (a < ranks && b < ranks) pairs.emplace_back(std::min(a, b), std::max(a, b));
    }
  return pairs;
}

std::vector<std::pair<int, int>> trunks_of(const PairTable& pairs, const std::vector<std::vector<int>>& islands) {
  // What ranks of a host share on their way out is measured as that host's.
  const bool are_hosts = std::all_of(islands.begin(), islands.end(), [&](const std::vector<int>& island) {
    return std::all_of(island.begin(), island.end(), [&](int rank) { return pairs.same_host(rank, island.front()); });
  });
  std::vector<std::pair<int, int>> trunks;
  if (are_hosts) return trunks;
  for (int a = 0; a < static_cast<int>(islands.size()); ++a)
    for (int b = 0; b < static_cast<int>(islands.size()); ++b)
      if (a != b && trunks.size() < kMostTrunks) trunks.emplace_back(a, b);
  return trunks;
}

std::vector<Together> plan_together(const PairTable& pairs, const std::vector<std::vector<int>>& islands) {
  return Planner(pairs, islands).plan();
}

}  // namespace tutti
