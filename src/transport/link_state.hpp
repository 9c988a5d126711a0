// The two ends of a link as pure state machines: no sockets, no clock, no threads. Whoever moves the frames (TCP, a
// simulated network) tells them what happened, and asks them what may be sent and where payloads go.
//
// Order and acknowledgement. Chunks are numbered per link. The sender keeps which were posted, transmitted (wholly
// handed to a lane) and acked; the receiver which are expected, received and released. An acknowledgement says that
// every chunk below `received` has come, and which of the next 64 after that one (lanes overtake each other). A chunk
// that comes twice is dropped.
//
// Credit. No frame leaves without a landing place. A chunk of n bytes costs n + kFrameHeaderBytes; the sender may post
// a chunk iff the cost of all chunks up to and with it stays within `credit`, a running total granted by the receiver.
// The receiver grants so much that what has no landing of its own (expected "anywhere", or not expected yet) fits in
// its staging window; what was expected with a landing costs no staging and is granted at once.
//
// A lost lane. The receiver abandons what the lane was delivering; only after that, the sender sends what the lane had
// not brought over by another one.
//
// A corrupted chunk. A chunk that does not have its checksum counts as not come, and the receiver asks for it again.
// The request names the lane that brought it and how often it came so. It is repeated if a lane is lost that may have
// carried it; one that is late asks for nothing that is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "transport/frame.hpp"
#include "transport/link.hpp"
#include "transport/sequence_window.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct LinkLimits {
  std::size_t chunk_limit = 256 << 10;  // at most kPayloadLimit
  std::size_t window = 2 << 20;         // staging at the receiver; at least two chunks of the limit
  std::size_t copy_limit = 64 << 10;    // chunks up to this are copied by the sender, and released at once
  std::size_t news_limit = 1 << 20;     // what comes without a pause is acknowledged after so much, or half a window
};

inline std::size_t chunk_cost(std::size_t bytes) { return bytes + kFrameHeaderBytes; }

/// An incarnation of a lane, among all of a peer's.
using LaneKey = std::uint64_t;
inline LaneKey key_of(std::uint32_t lane, std::uint32_t epoch) { return LaneKey{epoch} << 32 | lane; }

struct Acknowledgement {
  std::uint64_t received = 0;
  std::uint64_t arrived = 0;  // bit i: chunk received + 1 + i
  std::uint64_t credit = 0;

  bool operator==(const Acknowledgement&) const = default;
};

class LinkSender {
 public:
  explicit LinkSender(const LinkLimits& limits) : limits_(limits) {}

  struct Chunk {
    const std::byte* data = nullptr;
    std::unique_ptr<std::byte[]> copy;  // where set, `data` points into it
    std::uint32_t bytes = 0;
    OperationTag tag;
    LaneKey lane = 0;
    double posted_at = 0;           // seconds, where it was measured
    double refused = 0;             // likewise: for how long there was no credit until then, for all chunks so far
    std::uint64_t returned = 0;     // times it came corrupted and was sent again for that
    bool transmitted = false;       // on the lane it is bound for
    bool transmitted_once = false;  // on a lane that was lost since
    bool acked = false;

    /// What it adds to its lane's load. Copies count nothing: their acknowledgement, for which nobody waits, is late.
    std::size_t load() const { return copy ? 0 : chunk_cost(bytes); }
  };

  bool may_post(std::size_t bytes) const { return spent_ + chunk_cost(bytes) <= credit_; }
  /// Whether post() would copy a chunk of so many bytes.
  bool will_copy(std::size_t bytes) const { return bytes <= limits_.copy_limit && copied_ + bytes <= limits_.window; }
  /// Takes the next chunk, bound for `lane`, and returns its number. Needs may_post().
  std::uint64_t post(const std::byte* data, std::size_t bytes, OperationTag tag, LaneKey lane);
  /// A chunk that is posted and not part of the acked prefix.
  const Chunk& chunk(std::uint64_t sequence) const { return chunks_[sequence]; }
  void transmitted(std::uint64_t sequence);
  void measure(std::uint64_t sequence, double now, double refused) {
    chunks_[sequence].posted_at = now;
    chunks_[sequence].refused = refused;
  }

  /// Old and repeated acknowledgements are fine. One for a chunk that was never sent is an error. Adds what it newly
  /// acknowledges to `completed`.
  struct Completed {
    LaneKey lane = 0;
    std::size_t load = 0;
    double posted_at = 0;
    OperationTag tag = {};
    double refused = 0;
  };
  Status acknowledge(const Acknowledgement& ack, std::vector<Completed>& completed);

  /// The caller's memory goes: chunks that lie there count as acknowledged, those that were copied do not.
  void drop_borrowed(std::vector<Completed>& completed);
  /// The receiver wants no more: all that was posted counts as acknowledged.
  void drop_all(std::vector<Completed>& completed);

  /// Chunks whose fate on this incarnation of a lane, or one before, is open, in order; each is to be sent again by
  /// resent() and a lane that lives.
  std::vector<std::uint64_t> unacked_on(LaneKey lane) const;
  /// The chunk came corrupted on this lane, so many times by now. Returns whether it is to be sent again: not if it is
  /// on its way, or has come. An error: it was never sent.
  Result<bool> returned(std::uint64_t sequence, LaneKey lane, std::uint64_t times);
  void resent(std::uint64_t sequence, LaneKey lane, double now);

  std::uint64_t posted() const { return chunks_.end(); }
  std::uint64_t acked() const { return chunks_.first(); }
  /// Chunks below need the caller's memory no more: they are acked, or were copied.
  std::uint64_t released() const { return released_; }
  bool has_credit() const { return credit_ != 0; }

 private:
  bool acknowledge_one(std::uint64_t sequence, std::vector<Completed>& completed);
  void advance();

  LinkLimits limits_;
  SequenceWindow<Chunk> chunks_;  // from the first that is not acked
  std::uint64_t released_ = 0;
  std::uint64_t spent_ = 0;   // cost of all chunks posted
  std::uint64_t credit_ = 0;  // what spent_ may reach
  std::size_t copied_ = 0;    // bytes held in copies
};

/// What became of a chunk whose payload is here whole.
struct Receipt {
  bool is_checked = false;            // against its checksum
  std::uint32_t times_corrupted = 0;  // in a row, now for the last time; 0: it was received, or dropped
};

class LinkReceiver {
 public:
  explicit LinkReceiver(const LinkLimits& limits) : limits_(limits), granted_credit_(limits.window) {}

  void expect(std::byte* landing, std::size_t bytes, OperationTag tag);
  std::optional<Arrival> poll() const;
  void release();

  /// A data frame begins to arrive on `lane`: where its payload goes, or null where it must be thrown away (it came
  /// before, is not what is expected, or is empty). An error: the sender broke the rules.
  Result<std::byte*> begin(LaneKey lane, const FrameHeader& header);
  /// The payload that began on this lane is here whole. If it is corrupted, it has not come.
  Receipt complete(LaneKey lane, std::uint64_t sequence);
  /// The lane is lost: what it had begun to deliver has not come.
  void abandon(LaneKey lane);

  /// Chunks that came corrupted and have not begun to come again.
  struct Corrupted {
    std::uint64_t sequence = 0;
    LaneKey lane = 0;  // that brought it
    std::uint32_t times = 0;
  };
  std::vector<Corrupted> corrupted() const;

  /// Whether the sender should hear from us now. `settled`: nothing more of this link is on its way in at the moment.
  bool owes_acknowledgement(bool settled) const;
  /// What to tell; owes_acknowledgement() is false afterwards.
  Acknowledgement acknowledge();

  /// Whether a chunk has begun to arrive and is not here whole.
  bool is_arriving() const { return arriving_ != 0; }

  std::uint64_t expected() const { return expected_; }
  std::uint64_t received() const { return received_; }
  std::uint64_t released() const { return slots_.first(); }
  std::size_t staged() const { return staged_; }

 private:
  enum class State : std::uint8_t { absent, arriving, received };
  struct Slot {
    State state = State::absent;
    bool is_expected = false;
    bool mismatched = false;  // what came is not what was expected; nothing of it was kept
    bool wants_ack = false;
    bool is_checked = false;
    std::uint32_t checksum = 0;
    std::uint32_t times_corrupted = 0;
    LaneKey lane = 0;  // that delivers it, or did last
    std::byte* landing = nullptr;
    std::uint32_t bytes = 0;  // expected
    OperationTag tag;
    std::uint32_t came_bytes = 0;
    OperationTag came_tag;
    std::unique_ptr<std::byte[]> staging;
    std::uint32_t held = 0;  // cost in staging now
    std::uint32_t need = 0;  // cost in staging that the grant counts for it
  };

  Result<std::byte*> stage(Slot& slot);
  static bool is_intact(const Slot& slot);
  void drop(std::uint64_t sequence);
  void free_staging(Slot& slot);
  void land(Slot& slot);
  void update_grant();
  std::unique_ptr<std::byte[]> take_buffer(std::size_t bytes);

  LinkLimits limits_;
  SequenceWindow<Slot> slots_;  // from the first that is not released
  std::uint64_t expected_ = 0;  // chunks announced by expect()
  std::uint64_t received_ = 0;  // prefix that is here
  std::uint64_t received_cost_ = 0;
  std::uint64_t expected_cost_ = 0;
  std::size_t staged_ = 0;
  std::size_t arriving_ = 0;  // slots

  // The grant: slots below granted_ have a landing, or staging set aside (needed_ in all).
  std::uint64_t granted_ = 0;
  std::uint64_t granted_cost_ = 0;
  std::size_t needed_ = 0;
  std::uint64_t granted_credit_;

  bool ack_wanted_ = false;
  std::uint64_t last_ack_cost_ = 0;                  // received_cost_ in the last acknowledgement
  std::uint64_t last_ack_credit_ = 0;                // granted_credit_ in it
  std::vector<std::unique_ptr<std::byte[]>> spare_;  // staging of chunk_limit bytes each
};

}  // namespace tutti
