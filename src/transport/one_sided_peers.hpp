// The ranks whose memory this rank can reach, as one-sided programs see them: which operation they have entered, where
// their buffers lie, the stages, and signals. Shared memory implements it.
//
// Ranks are the communicator's; only those named by a plan's `neighbours` may be given. Nothing here blocks. Used by
// the owner of the operation, one thread at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/link.hpp"
#include "transport/shared_stage.hpp"
#include "tutti/error.hpp"

namespace tutti {

class OneSidedPeers {
 public:
  virtual ~OneSidedPeers() = default;

  /// A buffer of a peer.
  struct Place {
    std::byte* mapped = nullptr;  // null: its bytes have to be pulled from `address`
    std::uint64_t address = 0;    // in the peer's address space
  };
  enum class Entered : std::uint8_t { not_yet, same_call, other_call };

  /// Announces that this rank has entered an operation, and where its input and output lie. Returns whether every peer
  /// can map both. ring() the peers that need to know.
  virtual bool enter(OperationTag tag, std::span<std::byte> input, std::span<std::byte> output) = 0;
  /// Returns whether a peer has entered that operation, and with the same call.
  virtual Entered has_entered(int peer, OperationTag tag) const = 0;
  /// Returns whether a peer that has entered said that its buffers can be mapped.
  virtual bool can_map(int peer) const = 0;
  /// Finds input and output of a peer that has entered. They stay where they are until end_use().
  virtual Result<std::array<Place, 2>> begin_use(int peer) = 0;
  virtual void end_use(int peer) = 0;
  /// Copies bytes from a peer's address space.
  virtual Status pull(int peer, std::byte* target, std::uint64_t address, std::size_t bytes) = 0;
  /// Leaves the operation; all peers must have entered it. Peers that are still in it can read what this rank announced
  /// until it has left the next one, too.
  virtual void leave_operation() = 0;
  /// Wakes a peer if it sleeps.
  virtual void ring(int peer) const = 0;

  /// Returns the scratch that peers read; always the same.
  virtual SharedStage& stage() = 0;

  virtual void signal(int peer, int channel) = 0;
  /// Takes the next signal of a peer, if it has come.
  virtual bool take_signal(int peer, int channel) = 0;

  /// Brackets steps that write into buffers of peers. False: a peer has given up, and its memory is its caller's again.
  virtual bool begin_push() = 0;
  virtual void end_push() = 0;
  /// Returns whether a peer has given up. What was read of peers before is right if not. Every operation asks, so this
  /// is not virtual.
  bool stopped() const {
    std::atomic_signal_fence(std::memory_order_acquire);  // the processor keeps loads in order, the compiler shall too
    return stopped_->load(std::memory_order_acquire) != 0;
  }

 protected:
  /// `stopped`: not 0 once a peer has given up.
  explicit OneSidedPeers(const std::atomic<std::uint32_t>& stopped) : stopped_(&stopped) {}
  OneSidedPeers(OneSidedPeers&&) = default;
  OneSidedPeers& operator=(OneSidedPeers&&) = default;

 private:
  const std::atomic<std::uint32_t>* stopped_;
};

}  // namespace tutti
