// What a worker knows to have happened elsewhere: for each other worker it has heard of, the last event that surely
// happened before. Sparse, since with a worker per peer most workers never hear of each other; where there are few
// workers, which soon hear of all others, an entry for each of them is smaller and faster. Internal to the checker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace tutti::checking {

class VectorClock {
 public:
  explicit VectorClock(std::size_t workers) {
    if (workers <= kFewWorkers) of_all_.assign(workers, kNothing);
  }

  /// The last event of `worker` known; -1 if none.
  int last(int worker) const {
    if (!of_all_.empty()) return of_all_[static_cast<std::size_t>(worker)];
    const auto found = std::lower_bound(known_.begin(), known_.end(), std::pair(worker, kNothing));
    return found != known_.end() && found->first == worker ? found->second : kNothing;
  }

  void learn(int worker, int event) {
    if (!of_all_.empty()) {
      int& known = of_all_[static_cast<std::size_t>(worker)];
      known = std::max(known, event);
      return;
    }
    const auto found = std::lower_bound(known_.begin(), known_.end(), std::pair(worker, kNothing));
    if (found == known_.end() || found->first != worker)
      known_.insert(found, {worker, event});
    else
      found->second = std::max(found->second, event);
  }

  /// Of a clock for as many workers.
  void learn(const VectorClock& other) {
    for (std::size_t i = 0; i < of_all_.size(); ++i) of_all_[i] = std::max(of_all_[i], other.of_all_[i]);
    if (of_all_.empty()) merge(other);
  }

 private:
  static constexpr std::size_t kFewWorkers = 1024;
  static constexpr int kNothing = -1;

  void merge(const VectorClock& other) {
    std::vector<std::pair<int, int>> merged;
    merged.reserve(std::max(known_.size(), other.known_.size()));
    auto mine = known_.begin();
    auto theirs = other.known_.begin();
    while (mine != known_.end() && theirs != other.known_.end()) {
      if (mine->first == theirs->first) {
        merged.emplace_back(mine->first, std::max(mine->second, theirs->second));
        ++mine;
        ++theirs;
      } else {
        merged.push_back(mine->first < theirs->first ? *mine++ : *theirs++);
      }
    }
    merged.insert(merged.end(), mine, known_.end());
    merged.insert(merged.end(), theirs, other.known_.end());
    known_ = std::move(merged);
  }

  std::vector<int> of_all_;                 // [worker], or empty
  std::vector<std::pair<int, int>> known_;  // else (worker, event), sorted
};

}  // namespace tutti::checking
