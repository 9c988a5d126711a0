// What a worker knows to have happened elsewhere: for each other worker it has heard of, the last event that surely
// happened before. Sparse, since with a worker per peer most workers never hear of each other. Internal to the checker.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti::checking {

class Clock {
 public:
  /// The last event of `worker` known; -1 if none.
  int last(int worker) const {
    const auto found = std::lower_bound(known_.begin(), known_.end(), std::pair(worker, -1));
    return found != known_.end() && found->first == worker ? found->second : -1;
  }

  void learn(int worker, int event) {
    const auto found = std::lower_bound(known_.begin(), known_.end(), std::pair(worker, -1));
    if (found == known_.end() || found->first != worker)
      known_.insert(found, {worker, event});
    else
      found->second = std::max(found->second, event);
  }

  void learn(const Clock& other) {
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

 private:
  std::vector<std::pair<int, int>> known_;  // (worker, event), sorted
};

}  // namespace tutti::checking
