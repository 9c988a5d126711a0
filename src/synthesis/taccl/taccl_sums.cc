#include "synthesis/taccl/taccl_sums.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kNear = 1e-9;               // relative: what counts as equal
constexpr int kStepsWithoutGain = 60;        // until the search gives up
constexpr std::size_t kTaboos = 8;           // exchanges that are not taken back
constexpr std::size_t kExchangesTried = 12;  // of those there are at a step

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Neighbours on a lane of sums.
struct SumSwap {
  std::size_t lane = 0;
  std::size_t place = 0;  // of the first
};

class SumOrderSearch {
 public:
  SumOrderSearch(const TacclProblem& problem, TacclOrders orders)
      : problem_(problem),
        lanes_(problem.model.links.size() + problem.model.ports.size()),
        orders_(std::move(orders)),
        best_(orders_) {
    times_ = time();
    best_seconds_ = times_.seconds;
  }

  void run(Clock::time_point end) {
    for (int idle = 0; idle < kStepsWithoutGain && Clock::now() < end; ++idle) {
      if (!step(end)) return;
      if (times_.seconds >= best_seconds_ * (1 - kNear)) continue;
      best_ = orders_;
      best_seconds_ = times_.seconds;
      idle = 0;
    }
  }

  TacclOrders best() { return std::move(best_); }

 private:
  TacclTimes time() const { return times_of(problem_, orders_, std::vector<bool>(orders_.sends.size(), false)); }

  void exchange(const SumSwap& which) {
    auto& lane = orders_.lanes[which.lane];
    std::swap(lane[which.place], lane[which.place + 1]);
  }

  /// Pairs that follow each other without a pause and end on a way that decides the time.
  std::vector<SumSwap> candidates() const {
    const std::vector<double> latest = latest_ends();
    std::vector<SumSwap> found;
    for (std::size_t lane = lanes_; lane < orders_.lanes.size(); ++lane)
      for (std::size_t i = 0; i + 1 < orders_.lanes[lane].size(); ++i) {
        const std::size_t first = at(orders_.lanes[lane][i]), second = at(orders_.lanes[lane][i + 1]);
        const double slack = kNear * times_.seconds;
        if (times_.ends[first] + slack >= latest[first] && times_.ends[second] + slack >= latest[second] &&
            times_.ends[first] + slack >= times_.begins[second])
          found.push_back({lane, i});
      }
    return found;
  }

  std::vector<double> latest_ends() const {
    const Groups groups(problem_, orders_, times_.joins);
    std::vector<double> latest(orders_.sends.size(), times_.seconds);
    for (auto group = groups.order.rbegin(); group != groups.order.rend(); ++group) {
      double& end = latest[at(groups.members[at(*group)].front())];
      for (const int follower : groups.next[at(*group)])
        end = std::min(end, latest[at(groups.members[at(follower)].front())] - groups.duration[at(follower)]);
    }
    return latest;
  }

  /// Makes the best exchange that is not taboo; false where there is none.
  bool step(Clock::time_point end) {
    const SumSwap* best = nullptr;
    double least = HUGE_VAL;
    const std::vector<SumSwap> found = candidates();
    for (std::size_t i = 0; i < found.size() && i < kExchangesTried && Clock::now() < end; ++i) {
      if (is_taboo(found[i])) continue;
      exchange(found[i]);
      const double seconds = time().seconds;
      exchange(found[i]);
      if (seconds >= least) continue;
      least = seconds;
      best = &found[i];
    }
    if (best == nullptr) return false;
    exchange(*best);
    times_ = time();
    const auto& lane = orders_.lanes[best->lane];
    taboo_.emplace_back(lane[best->place], lane[best->place + 1]);
    if (taboo_.size() > kTaboos) taboo_.pop_front();
    return true;
  }

  bool is_taboo(const SumSwap& which) const {
    const auto& lane = orders_.lanes[which.lane];
    return std::find(taboo_.begin(), taboo_.end(), std::pair(lane[which.place], lane[which.place + 1])) != taboo_.end();
  }

  const TacclProblem& problem_;
  std::size_t lanes_;  // of links and ports
  TacclOrders orders_, best_;
  TacclTimes times_;
  double best_seconds_ = 0;
  std::deque<std::pair<int, int>> taboo_;
};

}  // namespace

TacclOrders rearrange_sums(const TacclProblem& problem, TacclOrders orders, double seconds) {
  SumOrderSearch search(problem, std::move(orders));
  search.run(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
  return search.best();
}

}  // namespace tutti
