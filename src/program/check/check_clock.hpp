// What a worker knows to have happened elsewhere: for each other worker it has heard of, the last event that surely
// happened before. Sparse, since with a worker per peer most workers never hear of each other; where there are few
// workers, which soon hear of all others, an entry for each of them is smaller and faster. With a symmetry, workers are
// numbered move by move, as many in each. Internal to the checker.
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
    if (of_all_.empty()) merge(other.known_);
  }

  /// The same of a clock that is moved: `moved` says where each move is taken to; a move has `workers` workers.
  void learn(const VectorClock& other, const std::vector<int>& moved, int workers) {
    for (std::size_t move = 0; move < moved.size() && !of_all_.empty(); ++move) {
      const int* theirs = other.of_all_.data() + move * static_cast<std::size_t>(workers);
      int* mine = of_all_.data() + static_cast<std::size_t>(moved[move]) * static_cast<std::size_t>(workers);
      for (int worker = 0; worker < workers; ++worker) mine[worker] = std::max(mine[worker], theirs[worker]);
    }
    if (!of_all_.empty()) return;
    std::vector<std::pair<int, int>> known = other.known_;
    for (auto& [worker, event] : known)
      worker = moved[static_cast<std::size_t>(worker / workers)] * workers + worker % workers;
    std::sort(known.begin(), known.end());
    merge(known);
  }

 private:
  static constexpr std::size_t kFewWorkers = 1024;
  static constexpr int kNothing = -1;

  void merge(const std::vector<std::pair<int, int>>& others) {
    std::vector<std::pair<int, int>> merged;
    merged.reserve(std::max(known_.size(), others.size()));
    auto mine = known_.begin();
    auto theirs = others.begin();
    while (mine != known_.end() && theirs != others.end()) {
      if (mine->first == theirs->first) {
        merged.emplace_back(mine->first, std::max(mine->second, theirs->second));
        ++mine;
        ++theirs;
      } else {
        merged.push_back(mine->first < theirs->first ? *mine++ : *theirs++);
      }
    }
    merged.insert(merged.end(), mine, known_.end());
    merged.insert(merged.end(), theirs, others.end());
    known_ = std::move(merged);
  }

  std::vector<int> of_all_;                 // [worker], or empty
  std::vector<std::pair<int, int>> known_;  // else (worker, event), sorted
};

}  // namespace tutti::checking
