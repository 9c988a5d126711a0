// A simulated network: lanes between two peers, a clock of its own, and faults at will. Everything follows from the
// seed, or from a chooser that is asked what happens next. Frames of a lane keep their order; lanes overtake each
// other; payloads are read from the sender's memory late and delivered in two steps, so that what is reused too early
// shows. As with TCP, what a blocked direction holds up is not lost: it comes once the way is free again, unless the
// lane was given up. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "transport/lane.hpp"
#include "transport/peer.hpp"

namespace tutti {

struct FakeFaults {
  std::uint64_t max_delay = 100;  // microseconds for each part of a frame's way
  unsigned replay_percent = 0;    // data frames that arrive once more, on a lane drawn at random
  bool coarse = false;            // frames leave at once, and arrive at once but for payloads: fewer orders to explore
  unsigned flip_percent = 0;      // chunks that come with bits flipped, in percent
  unsigned header_flip_permille = 0;  // headers of frames that do
};

class FakeNetwork {
 public:
  FakeNetwork(std::uint64_t seed, const FakeFaults& faults) : random_(seed), faults_(faults) {}
  ~FakeNetwork();

  /// Brings a lane up at both ends, now; false where one of them refuses it.
  bool connect(Peer& one, Peer& other, std::uint32_t index, std::uint32_t epoch);
  /// The same after the time a handshake takes; where a direction of the rail is blocked, `one` hears that it failed.
  void dial(Peer& one, Peer& other, const WantedLane& lane);
  /// The lane breaks: what is under way is lost; each end hears of it some time later.
  void cut(std::uint32_t index);
  /// One end of a lane is lost, as by its port: the other does not hear of it.
  void drop_end(Peer& at, std::uint32_t index, const char* why);
  /// The next chunk that lands by this lane comes with bits flipped.
  void flip_next(std::uint32_t index) { flip_next_ = index; }
  /// Nothing gets through on the rail of this lane, from `from`, until it is freed; nobody is told.
  void block(const Peer& from, std::uint32_t index);
  void unblock(const Peer& from, std::uint32_t index);
  void unblock_all();
  std::vector<std::uint32_t> living() const;

  /// Calls `what` at a time: microseconds from now.
  void later(std::uint64_t delay, std::function<void()> what);
  /// Lets the next thing happen. False: nothing is under way.
  bool step();
  /// Lets any of the things happen that could be next; `choose` gets their number. False: nothing is under way.
  bool step(const std::function<std::size_t(std::size_t)>& choose);

  double seconds() const { return static_cast<double>(now_) * 1e-6; }
  std::uint64_t now() const { return now_; }
  /// A number below `bound`.
  std::uint64_t draw(std::uint64_t bound) { return random_() % bound; }

  std::uint64_t replays() const { return replays_; }
  /// Chunks that landed with bits flipped, and headers that came so.
  std::uint64_t flips() const { return flips_; }
  std::uint64_t header_flips() const { return header_flips_; }
  /// Bytes of payloads that have come on lanes of this index.
  std::uint64_t carried(std::uint32_t index) const { return index < carried_.size() ? carried_[index] : 0; }

 private:
  class End;
  struct Event {
    std::uint64_t at;
    std::uint64_t order;
    std::function<bool()> happen;  // false: not yet, its direction is blocked
  };
  /// What happens in the order it was scheduled: an end's departures, its arrivals.
  struct Source {
    std::deque<Event> events;
  };
  struct Wire {
    std::uint32_t index;
    std::shared_ptr<End> one;
    std::shared_ptr<End> other;
  };

  void greet(Peer& one, Peer& other, const WantedLane& lane);
  std::size_t new_source();
  void count(std::uint32_t index, std::size_t bytes);
  bool draws_flip(const FrameHeader& header, std::uint32_t lane);
  void flip_bits(std::span<std::byte> bytes);
  void schedule(std::size_t source, std::uint64_t at, std::function<bool()> happen);
  bool happen(std::size_t source);
  bool is_blocked(const void* from, std::uint32_t index) const;
  std::uint64_t delay() { return draw(faults_.max_delay + 1); }
  void replay(const std::shared_ptr<End>& original, const FrameHeader& header, const std::vector<std::byte>& payload);

  std::mt19937_64 random_;
  FakeFaults faults_;
  std::uint64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t replays_ = 0;
  std::uint64_t flips_ = 0;
  std::optional<std::uint32_t> flip_next_;
  std::uint64_t header_flips_ = 0;
  std::vector<std::uint64_t> carried_;  // by lane index
  std::vector<Source> sources_;
  std::vector<std::size_t> free_sources_;
  std::vector<Wire> wires_;
  std::vector<std::pair<const void*, std::uint32_t>> blocked_;
};

}  // namespace tutti
