// Latency and rate of every ordered pair of ranks, and what follows from them alone: which ranks form islands. Pure.
#pragma once

#include <vector>

#include "measure/fit.hpp"
#include "measure/measurements.hpp"

namespace tutti {

class PairTable {
 public:
  /// Pairs that were not measured get the medians of those alike: of the same host, or of different ones.
  explicit PairTable(const Measurements& measurements);

  int ranks() const { return static_cast<int>(host_of_.size()); }
  const LineFit& fit(int from, int to) const { return fits_[index(from, to)]; }
  double rate(int from, int to) const { return fit(from, to).rate; }
  double latency(int from, int to) const { return fit(from, to).latency; }
  bool measured(int from, int to) const { return measured_[index(from, to)]; }
  bool same_host(int a, int b) const { return host(a) == host(b); }
  int host(int rank) const { return host_of_[static_cast<std::size_t>(rank)]; }
  int hosts() const;
  /// Ranks of the same host, or of the others, without the rank itself; those it sends to fastest first.
  std::vector<int> peers(int rank, bool local) const;
  /// The median to all ranks of other hosts: of one peer it is a matter of luck who sleeps and who polls.
  double remote_latency(int rank) const;
  /// Makes equal what differs by noise: see levelled().
  void level();

 private:
  std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * host_of_.size() + static_cast<std::size_t>(to);
  }
  void fill_gaps();

  std::vector<int> host_of_;
  std::vector<LineFit> fits_;
  std::vector<bool> measured_;
};

/// Groups of ranks that reach each other at least twice as fast as they reach the other groups, taken on average: one
/// slow pair does not break an island up, one fast connection does not join two. One group where nothing stands apart.
std::vector<std::vector<int>> islands_of(const PairTable& pairs);

/// Values that differ by a tenth at most become the median of their group: what is alike but for noise is to look alike
/// to the search for symmetries. In the order given.
std::vector<double> levelled(const std::vector<double>& values, double width = 0.1);

}  // namespace tutti
