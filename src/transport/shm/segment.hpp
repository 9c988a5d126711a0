// The shared memory of one rank of one communicator: where its peers on the host leave chunks and signals for it.
//
// Its pages exist only once touched, so pipes of peers that never send cost nothing (segment_memory.hpp). A peer maps
// it by /proc/<pid>/fd/<n>; ranks of one process share the pointer. Every word has one writer (the pairing stands
// beside it); readers use acquire, writers release.
#pragma once

#include <immintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "memory/region.hpp"
#include "tutti/error.hpp"

namespace tutti {

class SegmentMemory;

inline constexpr std::size_t kCacheLine = 64;
inline constexpr int kShmChannels = 8;              // links per pair of ranks that programs may use
inline constexpr int kShmPipes = kShmChannels + 1;  // the last belongs to sends and receives alone
inline constexpr std::size_t kEagerBytes = 48;      // payload beside its flag
inline constexpr int kPipeLines = 64;
inline constexpr std::uint32_t kRememberedOperations = 16;
inline constexpr std::size_t kSlotBytes = 64 << 10;
inline constexpr std::size_t kStageBytes = 1 << 20;  // of each of the stage's two halves

/// Slots of a pipe: two ranks go fastest with many, more ranks share what memory a communicator may take.
constexpr int slots_for(int ranks) { return ranks <= 2 ? 16 : ranks <= 4 ? 8 : 4; }

/// One frame of a pipe. `flag` is the frame's number plus one; written last by the sender (release), polled by the
/// receiver (acquire).
struct alignas(kCacheLine) PipeLine {
  enum Kind : std::uint32_t { eager, staged, direct };
  struct Direct {  // the sender's memory, to be pulled
    std::uint64_t address;
    std::uint64_t offset;  // in the region, where there is one
    RegionName region;
    std::uint32_t generation;  // of the sender's regions
  };

  std::atomic<std::uint32_t> flag;
  std::uint32_t number;  // of the operation
  std::uint32_t signature;
  std::uint32_t bytes_and_kind;
  union {
    std::byte payload[kEagerBytes];
    Direct memory;
  };

  std::uint32_t bytes() const { return bytes_and_kind >> 3; }
  Kind kind() const { return static_cast<Kind>(bytes_and_kind & 3); }
  bool timed() const { return (bytes_and_kind & 4) != 0; }  // the receiver says how long it took to read

  /// The first quarter in one store: whoever polls the line takes it away between any two.
  void publish(std::uint32_t new_flag, std::uint32_t of, std::uint32_t signed_as, std::uint32_t size, Kind how,
               bool is_timed) {
    const std::uint32_t last = size << 3 | (is_timed ? 4U : 0U) | how;
#ifdef __SANITIZE_THREAD__  // which cannot see that this store releases
    number = of;
    signature = signed_as;
    bytes_and_kind = last;
    flag.store(new_flag, std::memory_order_release);
#else
    const __m128i head = _mm_set_epi32(static_cast<int>(last), static_cast<int>(signed_as), static_cast<int>(of),
                                       static_cast<int>(new_flag));
    std::atomic_signal_fence(std::memory_order_release);
    _mm_store_si128(reinterpret_cast<__m128i*>(this), head);
#endif
  }
};
static_assert(sizeof(PipeLine) == kCacheLine);

/// From one rank to another, on one channel; lies in the receiver's segment, its slots behind it.
struct Pipe {
  alignas(kCacheLine) std::atomic<std::uint64_t> consumed;  // frames; receiver writes, sender reads when out of credit
  alignas(kCacheLine) std::atomic<std::uint32_t> read_ticks[slots_for(2)];  // per slot, where timed; receiver writes
  alignas(kCacheLine) PipeLine lines[kPipeLines];

  std::byte* slot(std::uint64_t index) { return reinterpret_cast<std::byte*>(this + 1) + index * kSlotBytes; }
};
static_assert(sizeof(Pipe) % kCacheLine == 0);

/// Makes the first `bytes` of every slot resident, for the end of the pipe that writes (or reads) them. Pages that
/// appear at their first touch would make as many chunks slow as there are slots, each time chunks get larger. Returns
/// how many bytes of a slot are resident now.
std::size_t populate_slots(Pipe& pipe, std::uint64_t slots, std::size_t bytes, bool writes);

/// What a rank that entered a one-sided operation says of its memory. `number` is written last (release).
struct alignas(kCacheLine) Entry {
  struct Side {
    std::uint64_t address = 0;
    std::uint64_t offset = 0;
    RegionName region;
  };
  std::atomic<std::uint32_t> number;  // operation number plus one
  std::uint32_t signature;
  std::uint32_t generation;  // of the process's regions
  std::uint32_t mapped;      // peers can map input and output
  Side input;
  Side output;
};

/// An operation a rank has entered, for peers that wait and wonder. `number` is written last (release).
struct alignas(kCacheLine) Entered {
  std::atomic<std::uint32_t> number;  // operation number plus one
  std::atomic<std::uint32_t> signature;
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint32_t> what;  // collective, type and operator, a byte each
  std::atomic<std::int32_t> root;
};

/// Keeps the memory of a caller whose call has failed from being touched by peers, once that call has returned.
/// A rank that gives up stores `stopped` of every peer of its host, then reads their `inside` until it is 0; a rank
/// about to touch memory of peers stores its own `inside`, then reads its own `stopped`. All four are seq_cst, so one
/// of the two sees the other. A rank that has read peers' memory reads `stopped` once more before it calls the result
/// right: who gave up has stored it before its caller could change what was read.
struct alignas(kCacheLine) Fence {
  std::atomic<std::uint32_t> stopped;  // stored by peers, never taken back: the communicator is broken
  std::atomic<std::uint32_t> inside;   // stored by the owner: it may be reading or writing memory of peers
};

/// What the owner has read of its peers' stages in the last turn of each half, and in how many ticks.
struct alignas(kCacheLine) StageReads {
  std::atomic<std::uint64_t> ticks;
  std::atomic<std::uint64_t> bytes;
};

/// The rank's own page.
struct SegmentHead {
  // Doorbell: the owner stores `asleep`, then sleeps on `rings`; whoever left something bumps `rings` and wakes it.
  alignas(kCacheLine) std::atomic<std::uint32_t> rings;
  std::atomic<std::uint32_t> asleep;
  alignas(kCacheLine) std::atomic<std::uint64_t> nonce;  // written once by the owner, checked by those who attach
  std::atomic<std::uint32_t> users;                      // SegmentMemory's
  std::atomic<std::uint32_t> left;                       // by the owner: its communicator was destroyed
  Entered entered[kRememberedOperations];                // by number, modulo their count
  std::atomic<std::uint32_t> last_entered;               // number plus one; 0: none yet
  Fence fence;
  StageReads stage_reads[2];
  Entry entries[2];  // of two operations in a row: a peer may still read of the last when its rank is in the next
};

/// Signals from one rank: counters that only grow, one per channel; the signalling rank writes.
struct alignas(kCacheLine) SignalLine {
  std::atomic<std::uint64_t> count[kShmChannels];
};

/// Processes that have attached to a segment of up to `ranks` ranks; 0: a free place. See SegmentMemory.
using AttachedProcess = std::atomic<std::int32_t>;
std::span<AttachedProcess> attached_processes(std::byte* segment, int ranks);

/// How to attach to a segment.
struct SegmentName {
  std::int32_t pid = 0;
  std::int32_t descriptor = -1;
  std::uint64_t inode = 0;
  std::uint64_t nonce = 0;
  std::uint64_t process = 0;  // differs between processes, even of equal pid in two namespaces
  std::uint64_t address = 0;  // in its own process
  std::uint64_t offset = 0;   // in the file
  std::uint64_t bytes = 0;
  std::int32_t ranks = 0;  // it has room for pipes from so many
};

class Segment {
 public:
  /// A new segment for a rank of a communicator of up to `ranks` ranks.
  static Result<Segment> create(int ranks);
  /// Maps the segment of a peer.
  static Result<Segment> attach(const SegmentName& name);

  const SegmentName& name() const { return name_; }
  SegmentHead& head() const { return *reinterpret_cast<SegmentHead*>(base_); }
  SignalLine& signals_from(int local_rank) const;
  Pipe& pipe_from(int local_rank, int channel) const;
  int slots() const { return slots_for(name_.ranks); }
  /// Where the owner leaves what programs hold in scratch, for peers to read; in turns, one half or the other.
  std::byte* stage(bool half) const;

  /// Wakes the owner if it sleeps. A wake may be missed by a hair; sleeps are bounded to a millisecond for that.
  void ring() const;
  /// Sleeps until rung, for `microseconds` at most. For the owner.
  void sleep(int microseconds) const;

 private:
  Segment() = default;

  SegmentName name_;
  std::byte* base_ = nullptr;
  std::shared_ptr<SegmentMemory> memory_;  // shared by the ranks of a process
};

/// Identifies this process among all of the host.
std::uint64_t process_identity();

}  // namespace tutti
