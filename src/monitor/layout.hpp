// What a recording holds: one file of fixed size per process, on tmpfs, mapped by the process that writes it and by
// anyone who looks, while it runs, hangs, or after it was killed.
//
// Nothing here is ever locked. Every record has one writer at a time (said beside it); readers never write. A Cell is
// set with release and read with acquire, so that what was set before is seen before. A record of a ring is rewritten
// between `index = 0` and `index = its number + 1`: a reader that finds the same index before and after has read it
// whole. Times are ticks of the time stamp counter; the head says how to turn them into seconds.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::monitor {

inline constexpr std::uint64_t kMagic = 0x31434552495455;  // "UTIREC1"
inline constexpr std::uint32_t kVersion = 5;
inline constexpr int kActives = 8;       // operations of a communicator under way at once; others are counted only
inline constexpr int kWorkers = 32;      // of an operation under way, whose steps are told
inline constexpr int kLinks = 64;        // of a communicator
inline constexpr int kWaits = 64;        // ranks that a communicator waits for; the last stands for all others
inline constexpr int kKinds = 10;        // of collectives
inline constexpr int kSizeClasses = 12;  // of operations, see size_class()
inline constexpr int kPrograms = 64;     // names of programs
inline constexpr int kMarks = 9;         // of each level
inline constexpr int kMarkLevels = 7;    // after every 8th collective, every 64th, ...
inline constexpr int kGatherings = 4;    // communicators that a process is making at once; others are not recorded
inline constexpr int kGathered = 4096;   // ranks of the largest of these

template <typename T>
class Cell {
 public:
  T get() const { return value_.load(std::memory_order_acquire); }
  void set(T value) { value_.store(value, std::memory_order_release); }
  /// By its one writer.
  void add(T more) { set(value_.load(std::memory_order_relaxed) + more); }
  /// By any of several writers; what it was before.
  T claim(T more) { return value_.fetch_add(more, std::memory_order_acq_rel); }
  bool exchange_if(T expected, T value) {
    return value_.compare_exchange_strong(expected, value, std::memory_order_acq_rel);
  }

 private:
  std::atomic<T> value_{};
};

/// At most N - 1 letters. A reader may meet old and new ones mixed, for an instant.
template <std::size_t N>
class Text {
 public:
  void set(std::string_view text) {
    for (std::size_t i = 0; i < N; ++i)
      letters_[i].store(i < text.size() && i + 1 < N ? text[i] : '\0', std::memory_order_relaxed);
  }
  std::string get() const {
    std::string text;
    for (std::size_t i = 0; i + 1 < N && letters_[i].load(std::memory_order_relaxed) != '\0'; ++i)
      text += letters_[i].load(std::memory_order_relaxed);
    return text;
  }

 private:
  std::atomic<char> letters_[N]{};
};

/// How many records of each kind a recording has room for. Rings have a power of two.
struct Shape {
  std::uint32_t communicators = 32;
  std::uint32_t operations = 256;  // remembered of each communicator
  std::uint32_t steps = 512;       // likewise
  std::uint32_t lanes = 64;
  std::uint32_t chunks = 128;  // remembered of each lane
  std::uint32_t events = 512;
};

/// Written by whoever opens the recording, but where said otherwise.
struct Head {
  Cell<std::uint64_t> magic;  // last
  Cell<std::uint32_t> version;
  Cell<std::uint32_t> bytes;
  Cell<std::int32_t> pid;
  Cell<std::uint32_t> ended;                                                    // 1: it left in order
  Cell<std::uint32_t> told_to_end;                                              // by this signal, in its last moment
  Cell<std::uint32_t> communicators, operations, steps, lanes, chunks, events;  // the shape
  Cell<std::uint32_t> window;                                                   // completions of a lane's window
  Cell<std::uint64_t> ticks0, monotonic0, realtime0;                            // taken together; ns
  Cell<double> ticks_per_microsecond;                                           // as the process takes it to be
  /// What to add to this host's monotonic clock to have that of the job's first process, and how wrong that may be
  /// (ns; all ones: not known). By the control thread.
  Cell<std::int64_t> clock_offset;
  Cell<std::uint64_t> clock_error;
  Text<64> host;
  Text<64> command;
  Text<64> launcher_job;                               // what Slurm or another launcher calls the job
  Cell<std::uint32_t> lost_communicators, lost_lanes;  // for which there was no room
  Cell<std::uint64_t> event_count;                     // claimed by any thread
  Cell<std::uint32_t> program_count;                   // claimed by any thread
  Text<32> programs[kPrograms];
};

/// A communicator that is being made: its ranks meet at a store. By the thread that makes it, but for `joined`: the
/// thread of the store writes that if this process serves the store.
struct alignas(64) GatheringRecord {
  Cell<std::uint32_t> open;    // 0: free; set last
  Cell<std::uint32_t> serves;  // 1: `joined` tells of all ranks; 0: of this one
  Cell<std::int32_t> rank, size;
  Cell<std::uint64_t> key;  // the same on all ranks
  Cell<std::uint64_t> began;
  Cell<std::uint64_t> joined[kGathered / 64];  // a bit for each rank

  void join(int joining) {
    Cell<std::uint64_t>& word = joined[joining / 64];
    word.set(word.get() | std::uint64_t{1} << joining % 64);
  }
  bool has_joined(int asked) const { return (joined[asked / 64].get() >> asked % 64 & 1) != 0; }
};

/// What an operation is, in one word.
struct What {
  /// `together`: no rank is done before all have come.
  enum Flag : std::uint8_t { sends = 1, in_place = 2, failed = 4, together = 8 };

  std::uint32_t number = 0;  // in call order
  std::uint8_t collective = 0;
  std::uint8_t type = 0;
  std::uint8_t op = 0;
  std::uint8_t flags = 0;

  std::uint64_t pack() const {
    return number | std::uint64_t{collective} << 32 | std::uint64_t{type} << 40 | std::uint64_t{op} << 48 |
           std::uint64_t{flags} << 56;
  }
  static What of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word), static_cast<std::uint8_t>(word >> 32),
            static_cast<std::uint8_t>(word >> 40), static_cast<std::uint8_t>(word >> 48),
            static_cast<std::uint8_t>(word >> 56)};
  }
};

/// An operation that is over.
struct alignas(64) OperationRecord {
  Cell<std::uint64_t> index;  // in the order they ended, plus one
  Cell<std::uint64_t> what;
  Cell<std::uint64_t> bytes;  // of the whole vector, or of all blocks
  Cell<std::int32_t> root;    // point-to-point: the peer
  Cell<std::uint32_t> program;
  Cell<std::uint64_t> entered;  // this rank called it
  Cell<std::uint64_t> waited;   // ticks: of the time until it was done, in which it waited for other ranks
  Cell<std::uint64_t> done;
  Cell<std::uint32_t> signature;
  Cell<std::int32_t> waited_for;  // the rank of the longest of these waits; -1: there was none to speak of
};
static_assert(sizeof(OperationRecord) == 64);

/// A step of an operation that is traced.
struct StepRecord {
  Cell<std::uint64_t> index;
  Cell<std::uint64_t> begun;
  Cell<std::uint64_t> where;     // from the low end: operation 32 bits, worker 16, step 16
  Cell<std::uint32_t> duration;  // ticks; all ones: more than that
  Cell<std::uint32_t> tile;
};
static_assert(sizeof(StepRecord) == 32);

/// An operation under way.
struct alignas(64) Active {
  Cell<std::uint64_t> generation;  // even: free; odd: under way
  Cell<std::uint64_t> what;
  Cell<std::uint64_t> bytes;
  Cell<std::int32_t> root;
  Cell<std::uint32_t> program;
  Cell<std::uint64_t> entered;
  Cell<std::uint64_t> waited;     // ticks so far
  Cell<std::int32_t> waited_for;  // the rank of the longest wait so far; -1: none
  Cell<std::uint32_t> signature;
  Cell<std::uint32_t> workers;                         // of this rank's part
  Cell<std::int32_t> awaited;                          // the rank it waits for, where it has come to sleep; -1: none
  Cell<std::uint32_t> awaited_in;                      // worker 16, step 16 of that wait; all ones: in none
  Cell<std::uint64_t> awaited_since;                   // when it began to wait
  alignas(64) Cell<std::uint64_t> progress[kWorkers];  // tile 32, steps done of it 32
};

inline std::uint64_t link_name(int peer, int channel, bool receives) {
  return static_cast<std::uint64_t>(peer + 1) << 32 | static_cast<std::uint64_t>(channel & 0xffff) << 16 |
         (receives ? 1U : 0U);
}

/// One end of a link.
struct alignas(64) LinkRecord {
  Cell<std::uint64_t> name;         // 0: free; peer + 1 (32), channel (16), 0 sends or 1 receives (16)
  Cell<std::uint64_t> posted;       // chunks; if it receives: expected
  Cell<std::uint64_t> transferred;  // chunks handed to a lane; if it receives: received
  Cell<std::uint64_t> done;         // chunks acknowledged, or their memory released
  Cell<std::uint64_t> bytes;
  Cell<std::uint32_t> operation;  // of the last chunk posted or expected

  /// The next chunk is posted, or expected.
  void post(std::uint64_t count, std::uint64_t size, std::uint32_t number) {
    posted.set(count);
    bytes.add(size);
    operation.set(number);
  }
};

/// Operations that are over, summed up.
struct Total {
  Cell<std::uint64_t> operations;
  Cell<std::uint64_t> bytes;
  Cell<std::uint64_t> ticks;   // from entering to done
  Cell<std::uint64_t> waited;  // of these, in which they waited for other ranks
};

/// How long the operations of a communicator have waited for a rank.
struct WaitRecord {
  Cell<std::uint32_t> name;  // rank + 1; 0: free, but for the last
  Cell<std::uint64_t> ticks;
};

/// What a rank's collectives that are left together have taken when one of a certain number was over. All ranks make
/// their marks after the same numbers, so that they can be compared over the same collectives.
struct Mark {
  Cell<std::uint64_t> index;  // number of that collective, plus one
  Cell<std::uint64_t> at;
  Cell<std::uint64_t> ticks;   // in these collectives, since the communicator was made
  Cell<std::uint64_t> waited;  // of that, for other ranks
};
/// Collectives from one mark of a level to the next.
inline constexpr std::uint64_t mark_interval(int level) { return std::uint64_t{8} << 3 * level; }

/// By the owner of the communicator's token, but for `state` and `error`.
struct alignas(64) CommunicatorRecord {
  enum State : std::uint32_t { free, alive, broken, closed };

  Cell<std::uint32_t> state;
  Cell<std::uint64_t> id;   // the same on all ranks
  Cell<std::uint64_t> job;  // the same in all communicators of a job
  Cell<std::int32_t> rank, size, hosts, host;
  Cell<std::uint64_t> created, closed_at;
  Cell<std::uint64_t> entered, done;                // collectives: counts
  Cell<std::uint64_t> ends_entered, ends_done;      // sends and receives
  Cell<std::uint64_t> operation_count, step_count;  // recorded in the rings so far
  Cell<std::uint32_t> lost_links, lost_actives;
  Text<48> name;
  Text<200> error;
  Total totals[kKinds][kSizeClasses];
  WaitRecord waits[kWaits];
  Cell<std::uint64_t> together_ticks, together_waited;  // in collectives that are left together
  Mark marks[kMarkLevels][kMarks];                      // a ring of each level
  Active actives[kActives];                             // the first is for collectives
  LinkRecord links[kLinks];
};

/// A chunk that a lane has brought over: acknowledged by the peer.
struct ChunkRecord {
  Cell<std::uint64_t> index;
  Cell<std::uint64_t> posted;
  Cell<std::uint64_t> done;
  Cell<std::uint32_t> bytes;
  Cell<std::uint32_t> operation;
  /// Of the time since the chunk before was done, or this one posted if that was later: for how long the receiver was
  /// not ready. Of the time before it was posted: for how long there was nothing to send though its operation ran.
  Cell<std::uint32_t> receiver_late;
  Cell<std::uint32_t> starved;
  Cell<double> rate;  // of the window that ends here; bytes per second
};
static_assert(sizeof(ChunkRecord) == 48);

enum class Condition : std::uint32_t { normal, dropped, stalled };
enum class Cause : std::uint32_t { none, sender_starved, receiver_late, path_congested };

/// One lane of this process, both its incarnations and its windows. By whoever holds the peer's mutex.
struct alignas(64) LaneRecord {
  Cell<std::uint32_t> state;  // 0: free; else LaneState + 1
  Cell<std::uint32_t> index, epoch;
  Cell<std::uint32_t> relayed;
  Cell<std::int32_t> peer;                          // index of the peer's process in the job; -1: not known
  Cell<std::uint64_t> since;                        // in this state
  Cell<std::uint64_t> posted_chunks, posted_bytes;  // with their acknowledgement awaited: these are timed
  Cell<std::uint64_t> done_chunks, done_bytes;
  Cell<std::uint64_t> quick_chunks, quick_bytes;     // small ones, of which no acknowledgement is awaited
  Cell<std::uint64_t> busy, receiver_late, starved;  // ticks: something was outstanding; of these the receiver was
                                                     // late; nothing was, within an operation
  Cell<double> rate, usual;                          // of the last window, and as a rule; bytes per second
  Cell<std::uint32_t> condition, cause;
  Cell<std::uint64_t> drops, stalls;
  Cell<std::uint64_t> checked_chunks, corrupted_chunks;  // that came here: compared with their checksum; of these bad
  Cell<std::uint64_t> returned_chunks;                   // that left here and came corrupted at the peer
  Cell<std::uint64_t> corrupted_at;                      // when either happened last
  Cell<std::uint64_t> chunk_count;
  Text<64> peer_name;
  Text<64> name;    // its address
  Text<96> reason;  // why it was lost last
};

enum class EventKind : std::uint32_t {
  communicator_created,
  communicator_closed,
  communicator_broken,  // text: the error
  rank_late,            // peer, operation; values: seconds
  lane_up,              // lane, peer
  lane_down,            // lane, peer; text: why
  lane_dropped,         // values: bytes per second usual and in the drop, seconds since its beginning; cause
  lane_recovered,       // values: usual, mean in the drop, seconds it lasted; `began`; cause
  lane_stalled,         // values: usual, bytes outstanding, seconds without a completion; cause
  lanes_uneven,         // values: bytes per second of this lane and of the fastest of its link
  lane_corrupted,       // values: chunks so far that came corrupted here, and at the peer; text: what
};
inline constexpr int kEventKinds = 11;

/// By any thread: the index is claimed.
struct alignas(64) EventRecord {
  Cell<std::uint64_t> index;
  Cell<std::uint64_t> at;
  Cell<std::uint64_t> began;  // where it tells of something that lasted
  Cell<std::uint32_t> kind, cause;
  Cell<std::uint64_t> communicator;  // id; 0: none
  Cell<std::int32_t> rank, peer, lane;
  Cell<std::uint32_t> operation;
  Cell<double> values[3];
  Text<144> text;
};

/// Where things lie.
class Map {
 public:
  Map() = default;
  Map(std::byte* base, const Shape& shape) : base_(base), shape_(shape) {}

  static std::size_t bytes(const Shape& shape) { return Map(nullptr, shape).events_at() + events_bytes(shape); }

  const Shape& shape() const { return shape_; }
  explicit operator bool() const { return base_ != nullptr; }
  Head& head() const { return *reinterpret_cast<Head*>(base_); }
  GatheringRecord& gathering(int i) const { return reinterpret_cast<GatheringRecord*>(base_ + kHeadBytes)[i]; }
  CommunicatorRecord& communicator(std::uint32_t i) const {
    return *reinterpret_cast<CommunicatorRecord*>(base_ + kCommunicatorsAt + i * communicator_bytes());
  }
  /// Rings: record i is at i modulo their length.
  OperationRecord& operation(const CommunicatorRecord& of, std::uint64_t i) const {
    return reinterpret_cast<OperationRecord*>(behind(of))[i & (shape_.operations - 1)];
  }
  StepRecord& step(const CommunicatorRecord& of, std::uint64_t i) const {
    return reinterpret_cast<StepRecord*>(behind(of) +
                                         shape_.operations * sizeof(OperationRecord))[i & (shape_.steps - 1)];
  }
  LaneRecord& lane(std::uint32_t i) const {
    return *reinterpret_cast<LaneRecord*>(base_ + lanes_at() + i * lane_bytes());
  }
  ChunkRecord& chunk(const LaneRecord& of, std::uint64_t i) const {
    return reinterpret_cast<ChunkRecord*>(const_cast<LaneRecord*>(&of) + 1)[i & (shape_.chunks - 1)];
  }
  EventRecord& event(std::uint64_t i) const {
    return reinterpret_cast<EventRecord*>(base_ + events_at())[i & (shape_.events - 1)];
  }

 private:
  static constexpr std::size_t kHeadBytes = 4096;
  static_assert(sizeof(Head) <= kHeadBytes);
  static constexpr std::size_t kCommunicatorsAt = kHeadBytes + kGatherings * sizeof(GatheringRecord);

  static std::size_t events_bytes(const Shape& shape) { return shape.events * sizeof(EventRecord); }
  static std::byte* behind(const CommunicatorRecord& of) {
    return reinterpret_cast<std::byte*>(const_cast<CommunicatorRecord*>(&of) + 1);
  }
  std::size_t communicator_bytes() const {
    return sizeof(CommunicatorRecord) + shape_.operations * sizeof(OperationRecord) + shape_.steps * sizeof(StepRecord);
  }
  std::size_t lane_bytes() const { return sizeof(LaneRecord) + (shape_.chunks * sizeof(ChunkRecord) + 63) / 64 * 64; }
  std::size_t lanes_at() const { return kCommunicatorsAt + shape_.communicators * communicator_bytes(); }
  std::size_t events_at() const { return lanes_at() + shape_.lanes * lane_bytes(); }

  std::byte* base_ = nullptr;
  Shape shape_;
};

/// Operations by size: up to 64 B, 256 B, 1 KB, ... 64 MB, and more.
inline int size_class(std::uint64_t bytes) {
  if (bytes <= 64) return 0;
  const int bits = 64 - __builtin_clzll(bytes - 1);  // 2^bits is the least power that holds it
  const int found = (bits - 5) / 2;
  return found < kSizeClasses ? found : kSizeClasses - 1;
}
/// The largest of a class; all ones for the last.
inline std::uint64_t size_class_limit(int index) {
  return index + 1 < kSizeClasses ? std::uint64_t{64} << 2 * index : ~std::uint64_t{0};
}

}  // namespace tutti::monitor
