#include "measure/pair_table.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tutti {
namespace {

constexpr int kMostForIslands = 512;  // joining groups takes time as the cube of the ranks
constexpr double kApart = 2;
constexpr double kLatencyNoise = 0.5;  // a small message is as late as the CPU was busy

/// Groups that are joined two by two, the most alike first. Likeness of groups: the mean logarithm of their rates.
class Grouping {
 public:
  explicit Grouping(const PairTable& pairs) : pairs_(pairs) {
    for (int rank = 0; rank < pairs.ranks(); ++rank) groups_.push_back({rank});
  }

  struct JoinStep {
    std::vector<std::vector<int>> before;  // the groups
    double likeness = 0;                   // of the two that were joined then
  };

  std::vector<JoinStep> join_all() {
    std::vector<JoinStep> steps;
    while (groups_.size() > 1) {
      std::size_t a = 0, b = 1;
      double best = -1;
      for (std::size_t i = 0; i < groups_.size(); ++i)
        for (std::size_t j = i + 1; j < groups_.size(); ++j)
          if (const double likeness = likeness_of(groups_[i], groups_[j]); likeness > best) {
            best = likeness;
            a = i;
            b = j;
          }
      steps.push_back({groups_, best});
      groups_[a].insert(groups_[a].end(), groups_[b].begin(), groups_[b].end());
      groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(b));
    }
    return steps;
  }

 private:
  double likeness_of(const std::vector<int>& a, const std::vector<int>& b) const {
    double sum = 0;
    for (const int i : a)
      for (const int j : b) sum += std::log(pairs_.rate(i, j)) + std::log(pairs_.rate(j, i));
    return std::exp(sum / (2.0 * static_cast<double>(a.size() * b.size())));
  }

  const PairTable& pairs_;
  std::vector<std::vector<int>> groups_;
};

}  // namespace

PairTable::PairTable(const Measurements& measurements) : host_of_(measurements.host_of) {
  fits_.resize(host_of_.size() * host_of_.size());
  measured_.resize(fits_.size());
  for (const PairTimes& pair : measurements.pairs) {
    if (pair.times.empty()) continue;
    fits_[index(pair.from, pair.to)] = fit_line(pair.times);
    measured_[index(pair.from, pair.to)] = true;
  }
  fill_gaps();
}

int PairTable::hosts() const { return host_of_.empty() ? 0 : 1 + *std::max_element(host_of_.begin(), host_of_.end()); }

void PairTable::fill_gaps() {
  for (const bool local : {true, false}) {
    std::vector<double> latencies, rates;
    std::vector<std::size_t> gaps;
    for (int from = 0; from < ranks(); ++from)
      for (int to = 0; to < ranks(); ++to) {
        if (from == to || same_host(from, to) != local) continue;
        if (!measured(from, to)) {
          gaps.push_back(index(from, to));
          continue;
        }
        latencies.push_back(latency(from, to));
        rates.push_back(rate(from, to));
      }
    for (const std::size_t gap : gaps) fits_[gap] = {median(latencies), median(rates), 0, 0};
  }
}

std::vector<int> PairTable::peers(int rank, bool local) const {
  std::vector<int> found;
  for (int peer = 0; peer < ranks(); ++peer)
    if (peer != rank && same_host(rank, peer) == local) found.push_back(peer);
  std::stable_sort(found.begin(), found.end(), [&](int a, int b) { return rate(rank, a) > rate(rank, b); });
  return found;
}

double PairTable::remote_latency(int rank) const {
  std::vector<double> latencies;
  for (const int peer : peers(rank, false)) latencies.push_back(latency(rank, peer));
  return median(std::move(latencies));
}

void PairTable::level() {
  std::vector<std::size_t> places;
  std::vector<double> latencies, rates;
  for (int from = 0; from < ranks(); ++from)
    for (int to = 0; to < ranks(); ++to) {
      if (from == to) continue;
      places.push_back(index(from, to));
      latencies.push_back(latency(from, to));
      rates.push_back(rate(from, to));
    }
  latencies = levelled(latencies, kLatencyNoise);
  rates = levelled(rates);
  for (std::size_t i = 0; i < places.size(); ++i) {
    fits_[places[i]].latency = latencies[i];
    fits_[places[i]].rate = rates[i];
  }
}

std::vector<std::vector<int>> islands_of(const PairTable& pairs) {
  std::vector<int> all(static_cast<std::size_t>(pairs.ranks()));
  std::iota(all.begin(), all.end(), 0);
  if (pairs.ranks() < 3 || pairs.ranks() > kMostForIslands) return {all};
  const auto steps = Grouping(pairs).join_all();
  // Cut where likeness falls most from one joining to the next.
  double largest_fall = kApart;
  std::vector<std::vector<int>> islands = {all};
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (const double fall = steps[i - 1].likeness / steps[i].likeness; fall >= largest_fall) {
      largest_fall = fall;
      islands = steps[i].before;
    }
  for (auto& island : islands) std::sort(island.begin(), island.end());
  std::sort(islands.begin(), islands.end());
  return islands;
}

std::vector<double> levelled(const std::vector<double>& values, double width) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> result(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && values[order[end]] <= values[order[first]] * (1 + width)) ++end;
    const double middle = values[order[first + (end - first) / 2]];
    for (; first < end; ++first) result[order[first]] = middle;
  }
  return result;
}

}  // namespace tutti
