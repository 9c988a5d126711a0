// What a worker knows to have happened elsewhere: for each other worker it has heard of, the last chunk of an event
// that surely happened before. Sparse, since with a worker per peer most workers never hear of each other; where there
// are few workers, which soon hear of all others, an entry for each of them is smaller and faster. With a symmetry,
// workers are numbered translation by translation, as many in each. Internal to the checker.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

namespace tutti::checking {

class VectorClock {
 public:
  explicit VectorClock(std::size_t workers) {
    if (workers <= kFewWorkers) of_all_.assign((workers + kBlock - 1) / kBlock * kBlock, kNothing);
  }

  /// The last chunk of `worker` known; -1 if none.
  int last(int worker) const {
    if (!of_all_.empty()) return of_all_[static_cast<std::size_t>(worker)];
    const auto found = std::lower_bound(known_.begin(), known_.end(), std::pair(worker, kNothing));
    return found != known_.end() && found->first == worker ? found->second : kNothing;
  }

  void learn(int worker, int chunk) {
    if (!of_all_.empty()) {
      int& known = of_all_[static_cast<std::size_t>(worker)];
      known = std::max(known, chunk);
      return;
    }
    const auto found = std::lower_bound(known_.begin(), known_.end(), std::pair(worker, kNothing));
    if (found == known_.end() || found->first != worker)
      known_.insert(found, {worker, chunk});
    else
      found->second = std::max(found->second, chunk);
  }

  /// Of a clock for as many workers.
  void learn(const VectorClock& other) {
    if (of_all_.empty()) return merge(other.known_);
    for (std::size_t at = 0; at < of_all_.size(); at += kBlock) {
      Block mine, theirs;
      std::memcpy(&mine, of_all_.data() + at, sizeof mine);
      std::memcpy(&theirs, other.of_all_.data() + at, sizeof theirs);
      mine = mine > theirs ? mine : theirs;
      std::memcpy(of_all_.data() + at, &mine, sizeof mine);
    }
  }

  /// The same of a clock that is translated: `translated` says what each translation becomes; each has `workers`
  /// workers.
  void learn(const VectorClock& other, const std::vector<int>& translated, int workers) {
    for (std::size_t translation = 0; translation < translated.size() && !of_all_.empty(); ++translation) {
      const int* theirs = other.of_all_.data() + translation * static_cast<std::size_t>(workers);
      int* mine =
          of_all_.data() + static_cast<std::size_t>(translated[translation]) * static_cast<std::size_t>(workers);
      for (int worker = 0; worker < workers; ++worker) mine[worker] = std::max(mine[worker], theirs[worker]);
    }
    if (!of_all_.empty()) return;
    std::vector<std::pair<int, int>> known = other.known_;
    for (auto& [worker, chunk] : known)
      worker = translated[static_cast<std::size_t>(worker / workers)] * workers + worker % workers;
    std::sort(known.begin(), known.end());
    merge(known);
  }

  void forget_all() {
    std::fill(of_all_.begin(), of_all_.end(), kNothing);
    known_.clear();
  }

 private:
  static constexpr std::size_t kFewWorkers = 1024;
  static constexpr std::size_t kBlock = 4;  // entries that are compared at once
  using Block = int __attribute__((vector_size(kBlock * sizeof(int))));
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
  std::vector<std::pair<int, int>> known_;  // else (worker, chunk), sorted
};

/// Clocks that several may hold, by numbers. What is shared does not change any more; what nobody holds is used again.
class ClockPool {
 public:
  explicit ClockPool(std::size_t workers) : workers_(workers) {}

  const VectorClock& operator[](int clock) const { return clocks_[static_cast<std::size_t>(clock)]; }

  /// A clock like the one held, which is given up for it, but nobody else's; `clock` may be none. Changes numbers only.
  VectorClock& own(int& clock) {
    if (clock != kNoClock && holders_[static_cast<std::size_t>(clock)] == 1)
      return clocks_[static_cast<std::size_t>(clock)];
    const int fresh = take();
    VectorClock& copy = clocks_[static_cast<std::size_t>(fresh)];
    if (clock == kNoClock)
      copy.forget_all();
    else
      copy = (*this)[clock];
    release(clock);
    clock = fresh;
    return copy;
  }
  int share(int clock) {
    if (clock != kNoClock) ++holders_[static_cast<std::size_t>(clock)];
    return clock;
  }
  void release(int clock) {
    if (clock != kNoClock && --holders_[static_cast<std::size_t>(clock)] == 0) free_.push_back(clock);
  }

  static constexpr int kNoClock = -1;

 private:
  int take() {
    if (free_.empty()) {
      clocks_.emplace_back(workers_);
      holders_.push_back(1);
      return static_cast<int>(clocks_.size()) - 1;
    }
    const int clock = free_.back();
    free_.pop_back();
    holders_[static_cast<std::size_t>(clock)] = 1;
    return clock;
  }

  std::size_t workers_;
  std::vector<VectorClock> clocks_;
  std::vector<int> holders_;
  std::vector<int> free_;
};

}  // namespace tutti::checking
