#include "bound/bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "bound/claims.hpp"
#include "bound/cuts.hpp"
#include "bound/lengths.hpp"
#include "bound/network.hpp"
#include "bound/partitions.hpp"
#include "topology/symmetry.hpp"

namespace tutti {
namespace {

constexpr int kMostBroadcastSinks = 4096;  // of more ranks, a sample is looked at
constexpr int kSampleOfSinks = 512;
constexpr int kMostFarSources = 64;  // any pair is a bound; the farthest is looked for from so many ranks
constexpr int kMostReceivers = 8;    // any receiver is a bound; the farthest is looked for among so many

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// At most `most` of the numbers below `count`, evenly spread.
std::vector<int> sample(int count, int most) {
  std::vector<int> numbers;
  const int taken = std::min(count, most);
  for (int i = 0; i < taken; ++i) numbers.push_back(static_cast<int>(std::int64_t{i} * count / taken));
  return numbers;
}

class BoundFinder {
 public:
  BoundFinder(const Network& network, const Network& against, Subject subject, const BoundOptions& options)
      : network_(network), against_(against), topology_(*network.topology), subject_(subject), options_(options) {
    if (options.use_symmetry) {
      symmetries_ = find_symmetries(topology_);
    } else {
      symmetries_.orbit_of.resize(at(topology_.ranks()));
      std::iota(symmetries_.orbit_of.begin(), symmetries_.orbit_of.end(), 0);
    }
  }

  Bound find() {
    if (topology_.ranks() == 1) return {};
    bound_by_rate();
    bound_by_distance();
    return std::move(bound_);
  }

 private:
  void bound_by_rate() {
    switch (subject_.collective) {
      case Collective::all_gather:
        return keep(claim_with_far_receiver(tightest_gather_cut(network_, representatives())));
      case Collective::gather:
        return keep(claim_with_far_receiver(tightest_gather_cut(network_, {root()})));
      case Collective::broadcast:
        return keep(claim_with_far_receiver(tightest_broadcast_cut(network_, root(), broadcast_sinks())));
      case Collective::reduce_scatter:
        return keep(claim_with_far_sender(turned(tightest_gather_cut(against_, representatives()))));
      case Collective::scatter:
        return keep(claim_with_far_sender(turned(tightest_gather_cut(against_, {root()}))));
      case Collective::reduce:
        return keep(claim_with_far_sender(turned(tightest_broadcast_cut(against_, root(), broadcast_sinks()))));
      case Collective::all_reduce:
        return bound_all_reduce();
      case Collective::all_to_all:
        return bound_all_to_all();
      default:
        return;  // has_bounds was asked
    }
  }

  void bound_all_reduce() {
    const Marks out = tightest_gather_cut(network_, representatives());
    std::vector<Certificate> claims;
    for (Partition& partition : candidate_partitions(network_, symmetries_, out))
      claims.push_back(claim(subject_, std::move(partition)));
    const Marks in = turned(tightest_gather_cut(against_, representatives()));
    // Every rank's contribution must reach every other rank, as in a broadcast from and a reduction to any of them.
    const Marks from = tightest_broadcast_cut(network_, root(), broadcast_sinks());
    const Marks to = turned(tightest_broadcast_cut(against_, root(), broadcast_sinks()));
    for (const Marks& cut : {out, in, turned(out), turned(in), from, to})
      claims.push_back(claim_with_far_receiver(cut));
    keep(*std::max_element(claims.begin(), claims.end(),
                           [](const Certificate& a, const Certificate& b) { return a.rate < b.rate; }));
  }

  void bound_all_to_all() {
    FoundLengths found = find_lengths(network_, symmetries_, options_.seconds);
    bound_.rate_limit = found.rate_limit;
    keep(claim(subject_, Lengths{std::move(found.of_links)}, symmetries_));
  }

  /// The pair of ranks that are farthest apart and have something to say to one another.
  void bound_by_distance() {
    const bool from_root = subject_.collective == Collective::broadcast || subject_.collective == Collective::scatter;
    const bool to_root = subject_.collective == Collective::reduce || subject_.collective == Collective::gather;
    std::vector<int> starts;
    if (from_root || to_root) {
      starts = {root()};
    } else {
      const auto ranks = representatives();
      for (const int index : sample(static_cast<int>(ranks.size()), kMostFarSources))
        starts.push_back(ranks[at(index)]);
    }
    int from = -1, to = -1;
    std::int64_t farthest = -1;
    for (const int start : starts) {
      const auto distance = network_.distances({start}, to_root, network_.latency);
      for (const int gpu : topology_.gpus())
        if (gpu != start && distance[at(gpu)] > farthest) {
          farthest = distance[at(gpu)];
          from = to_root ? gpu : start;
          to = to_root ? start : gpu;
        }
    }
    keep(claim_between(from, to));
  }

  Certificate claim_between(int from, int to) {
    const Marks after_sender = marks_of(topology_, SwitchAbsorber(network_).grow({from}));
    const Marks before_receiver = turned(marks_of(topology_, SwitchAbsorber(against_).grow({to})));
    const bool at_sender = network_.capacity_out_of(after_sender) <= network_.capacity_out_of(before_receiver);
    return claim(subject_, Cut{list_of(at_sender ? after_sender : before_receiver), topology_.vertex(from).rank,
                               topology_.vertex(to).rank});
  }

  /// The cut with the receiver that makes the latency largest; the sender is the root where that is the only one.
  Certificate claim_with_far_receiver(const Marks& cut) {
    const bool only_root = subject_.collective == Collective::broadcast;
    return largest_latency(cut, false, only_root ? subject_.root : kAnyRank);
  }
  Certificate claim_with_far_sender(const Marks& cut) {
    const bool only_root = subject_.collective == Collective::reduce;
    return largest_latency(cut, true, only_root ? subject_.root : kAnyRank);
  }

  Certificate largest_latency(const Marks& cut, bool vary_sender, int fixed) {
    std::vector<int> varied;
    for (int rank = 0; rank < topology_.ranks(); ++rank)
      if (bool(cut[at(topology_.gpu(rank))]) == vary_sender) varied.push_back(rank);
    // A gather has one receiver and a scatter one sender, whatever else lies on that side.
    if (subject_.collective == Collective::gather || subject_.collective == Collective::scatter)
      varied = {subject_.root};
    Certificate best;
    for (const int index : sample(static_cast<int>(varied.size()), kMostReceivers)) {
      const int rank = varied[at(index)];
      Cut evidence{list_of(cut), vary_sender ? rank : fixed, vary_sender ? fixed : rank};
      Certificate certificate = claim(subject_, std::move(evidence));
      if (best.ranks == 0 || best.latency < certificate.latency) best = std::move(certificate);
    }
    return best;
  }

  void keep(Certificate certificate) { bound_.certificates.push_back(std::move(certificate)); }

  int root() const { return topology_.gpu(subject_.root); }

  std::vector<int> representatives() const {
    std::vector<int> vertices;
    for (const int rank : symmetries_.representatives()) vertices.push_back(topology_.gpu(rank));
    return vertices;
  }

  std::vector<int> broadcast_sinks() const {
    std::vector<int> sinks;
    const int most = topology_.ranks() <= kMostBroadcastSinks ? kMostBroadcastSinks : kSampleOfSinks;
    for (const int rank : sample(topology_.ranks(), most)) sinks.push_back(topology_.gpu(rank));
    return sinks;
  }

  /// The set a cut of the reversed network stands for: what lies outside of it.
  static Marks turned(Marks marks) {
    for (char& mark : marks) mark = static_cast<char>(!mark);
    return marks;
  }

  const Network& network_;
  const Network& against_;  // reversed
  const Topology& topology_;
  Subject subject_;
  BoundOptions options_;
  Symmetries symmetries_;
  Bound bound_;
};

}  // namespace

double Bound::seconds(double bytes) const {
  double largest = 0;
  for (const Certificate& certificate : certificates) largest = std::max(largest, certificate.seconds(bytes));
  return largest;
}

const Certificate& Bound::for_large() const {
  return *std::max_element(certificates.begin(), certificates.end(),
                           [](const Certificate& a, const Certificate& b) { return a.rate < b.rate; });
}

Result<Bound> bound(const Topology& topology, Collective collective, int root, const BoundOptions& options) {
  if (!has_bounds(collective))
    return fail(ErrorCode::unsupported, fmt::format("there are no bounds for {}", name_of(collective)));
  if (root < 0 || root >= topology.ranks())
    return fail(ErrorCode::invalid_argument, fmt::format("root {} is no rank; there are {}", root, topology.ranks()));
  auto network = Network::of(topology);
  if (!network) return tl::unexpected(network.error());
  const Topology turned = topology.reversed();
  Network against = *network;
  against.topology = &turned;
  try {
    const Subject subject{&*network, collective, has_root(collective) ? root : 0};
    return BoundFinder(*network, against, subject, options).find();
  } catch (const RationalOverflow& error) {
    return fail(ErrorCode::unsupported, fmt::format("the figures of this topology are too uneven: {}", error.what()));
  }
}

}  // namespace tutti
