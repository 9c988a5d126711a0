// The buffers of peers in a one-sided operation, found as the peers enter it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "engine/plan.hpp"
#include "engine/run_state.hpp"
#include "transport/one_sided_peers.hpp"

namespace tutti {

class PeerBuffers {
 public:
  explicit PeerBuffers(RunState& run) : run_(run) {}

  void begin(OneSidedPeers& peers, int ranks) {
    peers_ = &peers;
    found_.resize(static_cast<std::size_t>(ranks));
  }
  /// The operation ended well. If it fails, the communicator is broken, and mappings stay until it is destroyed.
  void end();

  /// Returns whether a peer has entered this operation; fails the operation if it has entered it with another call.
  bool has_entered(int peer);
  /// Returns whether all peers named in the cells have entered. `reaches`: finds their buffers, too.
  bool find_all(const std::vector<Cells>& cells, bool reaches) {
    for (const Cells& cell : cells)
      if (!is_known(cell.rank) && !find(cell.rank, reaches)) return false;
    return true;
  }
  /// Returns whether a rank is this one, or a peer that was found.
  bool is_known(int rank) const {
    return rank == kSelf || found_[static_cast<std::size_t>(rank)].number == run_.tag().number + 1;
  }
  /// Returns a buffer of a peer that was found.
  const OneSidedPeers::Place& place_of(int peer, Buffer buffer) const {
    return found_[static_cast<std::size_t>(peer)].places[static_cast<std::size_t>(buffer)];
  }

 private:
  struct Found {
    std::uint32_t number = 0;  // of the operation, plus one
    std::array<OneSidedPeers::Place, 2> places;
  };

  bool find(int peer, bool reaches);

  RunState& run_;
  OneSidedPeers* peers_ = nullptr;
  std::vector<Found> found_;  // by rank
  std::vector<int> in_use_;
};

}  // namespace tutti
