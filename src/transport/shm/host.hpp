// The ranks of a communicator that share a host, as one of them sees them: its own segment, its peers' (attached on
// first use), and how to reach their memory. Ranks are the communicator's; those of other hosts have no name here.
// Used by the owner of the communicator's operation, one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "memory/peer_memory.hpp"
#include "transport/link.hpp"
#include "transport/shm/segment.hpp"

namespace tutti {

class Host {
 public:
  /// `own`: this rank's segment; `names`: those of all ranks, with pid 0 for ranks that are elsewhere.
  Host(Segment own, std::vector<SegmentName> names, int rank);

  int size() const { return static_cast<int>(names_.size()); }
  bool is_here(int rank) const { return names_[static_cast<std::size_t>(rank)].pid != 0; }
  SegmentHead& head() const { return own_.head(); }
  const Segment& own() const { return own_; }

  /// Attaches to a peer's segment, unless done. Everything below needs it; fails where the peer is gone.
  Status attach(int peer);
  /// Whether we may read the ordinary memory of every peer; tried once, by reading a number of theirs.
  bool can_attach_memory();

  SegmentHead& head_of(int peer) const { return peers_[static_cast<std::size_t>(peer)]->segment.head(); }
  PeerMemory& memory_of(int peer) const { return peers_[static_cast<std::size_t>(peer)]->memory; }

  void signal(int peer, int channel);
  /// Takes the next signal of `peer` if it has come.
  bool take_signal(int peer, int channel);

  std::unique_ptr<SendLink> open_send(int peer, int channel, std::size_t direct_from);
  std::unique_ptr<RecvLink> open_recv(int peer, int channel);

  void ring(int peer) const { peers_[static_cast<std::size_t>(peer)]->segment.ring(); }
  /// Sleeps until rung, for `microseconds` at most.
  void sleep(int microseconds) const;

 private:
  struct Peer {
    Peer(Segment s, const SegmentName& name);
    Segment segment;
    PeerMemory memory;
    std::uint64_t signalled[kShmChannels] = {};
    std::uint64_t taken[kShmChannels] = {};
  };

  Segment own_;
  std::vector<SegmentName> names_;
  int rank_;
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace tutti
