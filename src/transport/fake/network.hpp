// A simulated network: lanes between two peers, a clock of its own, and faults by chance. Everything
// follows from the seed. Frames of a lane keep their order; lanes overtake each other; payloads are read from the
// sender's memory late and delivered in two steps, so that what is reused too early shows. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <vector>

#include "transport/lane.hpp"
#include "transport/peer.hpp"

namespace tutti {

struct FakeFaults {
  std::uint64_t max_delay = 100;  // ticks for each part of a frame's way
  unsigned replay_percent = 0;    // data frames that arrive once more, on a lane drawn at random
};

class FakeNetwork {
 public:
  FakeNetwork(std::uint64_t seed, const FakeFaults& faults) : random_(seed), faults_(faults) {}
  ~FakeNetwork();

  /// Brings a lane up at both ends; false where one of them refuses it.
  bool connect(Peer& one, Peer& other, std::uint32_t index, std::uint32_t epoch);
  /// The lane breaks: what is under way is lost; each end hears of it some time later.
  void cut(std::uint32_t index);
  std::vector<std::uint32_t> living() const;

  /// Lets the next thing happen. False: nothing is under way.
  bool step();
  std::uint64_t now() const { return now_; }
  /// A number below `bound`.
  std::uint64_t draw(std::uint64_t bound) { return random_() % bound; }

  std::uint64_t replays() const { return replays_; }

 private:
  class End;
  struct Event {
    std::uint64_t at;
    std::uint64_t order;
    std::function<void()> happen;
    bool operator>(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };
  struct Wire {
    std::uint32_t index;
    std::shared_ptr<End> one;
    std::shared_ptr<End> other;
  };

  void schedule(std::uint64_t at, std::function<void()> happen);
  std::uint64_t delay() { return draw(faults_.max_delay + 1); }
  void replay(const std::shared_ptr<End>& original, const FrameHeader& header, const std::vector<std::byte>& payload);

  std::mt19937_64 random_;
  FakeFaults faults_;
  std::uint64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::uint64_t replays_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Wire> wires_;
};

}  // namespace tutti
