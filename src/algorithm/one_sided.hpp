// What one-sided algorithms share: meetings of the ranks of a host, and tables of the functions that write each
// collective.
#pragma once

#include <span>
#include <vector>

#include "algorithm/builder.hpp"

namespace tutti::generate {

/// The function that writes a rank's part for a collective.
struct Emitter {
  Collective collective;
  void (*emit)(PartBuilder&);
};

/// Returns null if the algorithm has none for the collective.
inline auto find_emitter(std::span<const Emitter> emitters, Collective collective) -> void (*)(PartBuilder&) {
  for (const Emitter& each : emitters)
    if (each.collective == collective) return each.emit;
  return nullptr;
}

/// The other ranks, nearest above first: ranks start at different peers.
inline std::vector<int> others(const PartBuilder& part) {
  std::vector<int> peers;
  peers.reserve(static_cast<std::size_t>(part.ranks()));
  for (int distance = 1; distance < part.ranks(); ++distance) peers.push_back((part.rank() + distance) % part.ranks());
  return peers;
}

inline void signal_others(PartBuilder& part) {
  const WorkerRef me = part.local();
  me.reserve(part.ranks());
  for (int peer : others(part)) me.signal(peer);
}

inline void wait_for_others(PartBuilder& part) {
  const WorkerRef me = part.local();
  me.reserve(part.ranks());
  for (int peer : others(part)) me.wait(peer);
}

inline void meet(PartBuilder& part) {
  signal_others(part);
  wait_for_others(part);
}

}  // namespace tutti::generate
