// The cuts that bound collectives, found exactly by maximum flows. Sets are marks by vertex; a cut is the links that
// leave its set.
#pragma once

#include <cstdint>
#include <vector>

#include "bound/network.hpp"

namespace tutti {

/// The set S, without one of the GPUs `sinks` (vertices), with the largest ratio of GPUs in S to capacity out of S:
/// what limits how fast the blocks of all GPUs can be brought to each sink. With all GPUs as sinks, the exact bound of
/// an all-gather (ForestColl's); with one, of a gather. Found by Dinkelbach's method: whenever a flow falls short at
/// the current ratio, its minimum cut gives a larger one.
Marks tightest_gather_cut(const Network& network, const std::vector<int>& sinks);

/// The set with `source` and without one of `sinks` that has the least capacity out of it.
Marks tightest_broadcast_cut(const Network& network, int source, const std::vector<int>& sinks);

/// Adds NICs and switches to sets of GPUs as long as the capacity out of the set does not grow. Keeps scratch space, so
/// that many small sets of a large network cost little; not to be shared between threads.
class SwitchAbsorber {
 public:
  explicit SwitchAbsorber(const Network& network);

  /// `gpus` are vertices; returns the whole set, ascending.
  std::vector<int> grow(const std::vector<int>& gpus);

 private:
  void add(int vertex);

  const Network& network_;
  std::vector<std::int64_t> out_;     // [vertex] capacity of all links that leave it
  std::vector<std::int64_t> saving_;  // [vertex] capacity between it and the set, both ways
  Marks inside_;
  std::vector<int> set_, touched_;
};

/// GPUs in the set.
int gpus_in(const Topology& topology, const Marks& inside);

std::vector<int> list_of(const Marks& inside);
Marks marks_of(const Topology& topology, const std::vector<int>& vertices);

}  // namespace tutti
