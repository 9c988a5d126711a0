// Meetings of the ranks of one host, as one-sided programs tell them.
#pragma once

#include <vector>

#include "algorithm/builder.hpp"

namespace tutti::generate {

/// The other ranks, nearest above first: ranks start at different peers.
inline std::vector<int> others(const PartBuilder& part) {
  std::vector<int> peers;
  for (int distance = 1; distance < part.ranks(); ++distance) peers.push_back((part.rank() + distance) % part.ranks());
  return peers;
}

inline void signal_others(PartBuilder& part) {
  for (int peer : others(part)) part.local().signal(peer);
}

inline void wait_for_others(PartBuilder& part) {
  for (int peer : others(part)) part.local().wait(peer);
}

inline void meet(PartBuilder& part) {
  signal_others(part);
  wait_for_others(part);
}

}  // namespace tutti::generate
