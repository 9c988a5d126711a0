// The ranks of a communicator that share a host, as one of them sees them: its own segment, its peers' (attached on
// first use), and how to reach their memory. Ranks are the communicator's; those of other hosts have no name here.
//
// Whoever touches memory of peers does so between begin_touching() and end_touching(), so that a peer that gives up can
// wait for the end of it (PeerFence). Used by the owner of the communicator's token, one thread at a time.
#pragma once

#include <memory>
#include <vector>

#include "memory/peer_memory.hpp"
#include "transport/link.hpp"
#include "transport/one_sided_peers.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/shm_link.hpp"
#include "transport/shm/shm_stage.hpp"

namespace tutti {

class Host final : public OneSidedPeers {
 public:
  /// `own`: this rank's segment; `names`: those of all ranks, with pid 0 for ranks that are elsewhere.
  Host(Segment own, std::vector<SegmentName> names, int rank);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(names_.size()); }
  bool is_here(int peer) const { return name_of(peer).pid != 0; }
  const SegmentName& name_of(int peer) const { return names_[static_cast<std::size_t>(peer)]; }
  const Segment& own() const { return own_; }

  /// Attaches to a peer's segment, unless done. What names a peer below needs it. Fails if the peer is gone.
  Status attach(int peer);
  bool is_attached(int peer) const { return peers_[static_cast<std::size_t>(peer)] != nullptr; }
  /// Lets peers know that this rank's communicator is destroyed.
  void leave() const;
  /// Returns whether a peer's is. Attaches to it.
  bool has_left(int peer);
  /// Returns whether this rank may read the ordinary memory of every peer; tries it on a number of theirs.
  bool can_attach_memory();

  SegmentHead& head_of(int peer) const { return peers_[static_cast<std::size_t>(peer)]->segment.head(); }
  PeerMemory& memory_of(int peer) const { return peers_[static_cast<std::size_t>(peer)]->memory; }

  bool enter(OperationTag tag, std::span<std::byte> input, std::span<std::byte> output) override;
  Entered has_entered(int peer, OperationTag tag) const override {
    const Entry& entry = entry_of(peer);
    if (entry.number.load(std::memory_order_acquire) != tag.number + 1) return Entered::not_yet;
    return entry.signature == tag.signature ? Entered::same_call : Entered::other_call;
  }
  bool can_map(int peer) const override { return entry_of(peer).mapped != 0; }
  Result<std::array<Place, 2>> begin_use(int peer) override;
  void end_use(int peer) override { memory_of(peer).end_use(); }
  Status pull(int peer, std::byte* target, std::uint64_t address, std::size_t bytes) override {
    return memory_of(peer).pull(target, address, bytes);
  }
  void leave_operation() override { entry_ = !entry_; }
  void ring(int peer) const override { peers_[static_cast<std::size_t>(peer)]->segment.ring(); }

  SharedStage& stage() override { return stage_; }

  void signal(int peer, int channel) override;
  bool take_signal(int peer, int channel) override;

  /// Brackets steps that write. Ranks that share a process bracket everything they do by begin_touching() already.
  bool begin_push() override { return shares_process_ || begin_touching(); }
  void end_push() override {
    if (!shares_process_) end_touching();
  }
  /// Returns whether another rank of this host is a thread of this process.
  bool shares_process() const { return shares_process_; }
  /// Begins to touch memory of peers. Returns false if one of them has given up: its memory is its caller's again.
  bool begin_touching() {
    Fence& fence = own_.head().fence;
    fence.inside.store(1, std::memory_order_seq_cst);
    if (fence.stopped.load(std::memory_order_seq_cst) == 0) return true;
    end_touching();
    return false;
  }
  void end_touching() { own_.head().fence.inside.store(0, std::memory_order_release); }

  std::unique_ptr<SendLink> open_send(int peer, int channel, DirectFrom direct_from);
  std::unique_ptr<RecvLink> open_recv(int peer, int channel);

 private:
  /// Returns what a peer says of the operation. Entries go in turns, so that whoever is still in an operation can read
  /// of it while its peers are in the next.
  const Entry& entry_of(int peer) const { return head_of(peer).entries[entry_]; }
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
  bool one_process_;
  bool shares_process_ = false;
  bool entry_ = false;  // of the two
  ShmStage stage_;
};

}  // namespace tutti
