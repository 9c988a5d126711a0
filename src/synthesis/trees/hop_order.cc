#include "synthesis/trees/hop_order.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Timetable {
 public:
  Timetable(const Topology& topology, const std::vector<TreeHop>& hops)
      : hops_(hops), next_(hops.size()), behind_(hops.size(), 0), ready_(hops.size(), 0) {
    for (const Link& link : topology.links()) seconds_.push_back(1 / link.capacity.value());
    free_.assign(seconds_.size(), 0);
    for (std::size_t i = hops.size(); i-- > 0;) {
      behind_[i] += time_of(hops[i]);
      if (hops[i].after < 0) continue;
      next_[at(hops[i].after)].push_back(static_cast<int>(i));
      behind_[at(hops[i].after)] = std::max(behind_[at(hops[i].after)], behind_[i]);
    }
  }

  std::vector<int> run() {
    for (std::size_t i = 0; i < hops_.size(); ++i)
      if (hops_[i].after < 0) wait(static_cast<int>(i));
    std::vector<int> order;
    while (!waiting_.empty()) {
      const auto [begin, behind, index] = waiting_.top();
      waiting_.pop();
      if (earliest(index) > begin) {
        wait(index);  // its links were taken meanwhile
        continue;
      }
      carry(index, begin);
      order.push_back(index);
    }
    return order;
  }

 private:
  double time_of(const TreeHop& hop) const {
    double slowest = 0;
    for (const int link : hop.links) slowest = std::max(slowest, seconds_[at(link)]);
    return slowest * hop.amount;
  }

  double earliest(int index) const {
    double begin = ready_[at(index)];
    for (const int link : hops_[at(index)].links) begin = std::max(begin, free_[at(link)]);
    return begin;
  }

  void wait(int index) { waiting_.emplace(earliest(index), -behind_[at(index)], index); }

  void carry(int index, double begin) {
    const TreeHop& hop = hops_[at(index)];
    for (const int link : hop.links) free_[at(link)] = begin + seconds_[at(link)] * hop.amount;
    for (const int next : next_[at(index)]) {
      ready_[at(next)] = begin + time_of(hop);
      wait(next);
    }
  }

  using Entry = std::tuple<double /*begin*/, double /*minus the time behind it*/, int /*hop*/>;

  const std::vector<TreeHop>& hops_;
  std::vector<double> seconds_;         // [link] for a chunk of one byte
  std::vector<double> free_;            // [link] from when on
  std::vector<std::vector<int>> next_;  // [hop] those that go on from it
  std::vector<double> behind_, ready_;  // [hop]
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting_;
};

}  // namespace

std::vector<int> order_by_time(const Topology& topology, const std::vector<TreeHop>& hops) {
  return Timetable(topology, hops).run();
}

}  // namespace tutti
