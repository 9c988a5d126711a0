// Items 0, 1, ... in sets that are united one pair after another (union-find). The smallest item of a set stands for
// it, so results do not depend on the order of the pairs. Not to be shared between threads.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

namespace tutti {

class DisjointSets {
 public:
  explicit DisjointSets(int count) : parent_(static_cast<std::size_t>(count)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }

  /// Returns the smallest item of the set that holds `item`.
  int find(int item) {
    while (parent(item) != item) item = parent(item) = parent(parent(item));
    return item;
  }

  void unite(int a, int b) {
    const int one = find(a), other = find(b);
    parent(std::max(one, other)) = std::min(one, other);
  }

  /// Returns [item] = the number of its set; sets are numbered in the order of their smallest items.
  std::vector<int> numbers() {
    std::map<int, int> number_of;
    std::vector<int> all;
    for (int item = 0; item < static_cast<int>(parent_.size()); ++item)
      all.push_back(number_of.emplace(find(item), static_cast<int>(number_of.size())).first->second);
    return all;
  }

 private:
  int& parent(int item) { return parent_[static_cast<std::size_t>(item)]; }

  std::vector<int> parent_;
};

}  // namespace tutti
