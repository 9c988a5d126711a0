// Scratch of a rank that its peers read: the *stage*. Shared memory implements it.
//
// A program copies what others need into its own stage and reads theirs. The stage has two halves. A tile uses one of
// them from begin_turn() to end_turn(); own(), of() and copy() mean that half. Ranks are the communicator's; only those
// named by a plan's `neighbours` may be given. Nothing here blocks. Used by the owner of the operation, one thread at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tutti {

class SharedStage {
 public:
  virtual ~SharedStage() = default;

  /// Returns how many bytes a half has.
  virtual std::size_t bytes() const = 0;
  /// Returns this rank's stage, and a peer's.
  virtual std::byte* own() const = 0;
  virtual std::byte* of(int peer) const = 0;

  /// Begins the use of the stage by a tile.
  virtual void begin_turn() = 0;
  /// Ends it. `change_halves`: peers may still read this half while the next tile writes, so that one uses the other
  /// half; otherwise it uses the same.
  virtual void end_turn(bool change_halves) = 0;

  /// Copies into a stage, in the way that is best for peers that read it.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Takes note of what it cost to read `bytes` of peers' stages.
  virtual void count_read(std::uint64_t ticks, std::size_t bytes) = 0;

 protected:
  SharedStage() = default;
  SharedStage(SharedStage&&) = default;
  SharedStage& operator=(SharedStage&&) = default;
};

}  // namespace tutti
