// A simulated network of lanes with a speed, on a clock of nanoseconds: frames leave one after the other at the rate of
// their lane and direction, take some time on the way, and wait at the other end's port until its process reads them.
// Only time is simulated: payloads are not moved, so peers must not check them (PeerOptions::checksums). What happens
// to rates and processes happens at a time of one's choice. Nothing is ever lost. One thread.
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

struct ShapedOptions {
  double rate = 50e9;     // bytes per second of each lane, each way
  double latency = 2e-6;  // seconds from one port to the other
  double take = 100e-9;   // seconds that a process is at a frame
  double jitter = 0;      // of the time a frame takes to leave: up to so much more or less
  double hiccups = 0;     // of frames that a process takes twenty times as long for
  std::size_t socket =
      ~std::size_t{0};  // bytes that the kernel holds: acknowledgements overtake what waits behind them
  std::uint64_t seed = 1;
};

class ShapedNetwork {
 public:
  explicit ShapedNetwork(const ShapedOptions& options) : options_(options), random_(options.seed) {}
  ~ShapedNetwork();

  void connect(Peer& one, Peer& other, std::uint32_t index, std::uint32_t epoch = 1);

  /// Bytes per second from `from` on a lane, for frames that begin to leave from now on.
  void set_rate(const Peer& from, std::uint32_t index, double rate);
  double rate() const { return options_.rate; }
  /// A process that does not read: frames come as far as its port.
  void stop(const Peer& process) { set_speed(process, 0); }
  /// It is `times` as slow at frames; 1: as usual.
  void set_speed(const Peer& process, double times);
  /// Bytes of frames that lanes of this index have brought, both ways.
  std::uint64_t carried(std::uint32_t index) const { return index < carried_.size() ? carried_[index] : 0; }

  /// Calls `what` so many seconds from now.
  void later(double seconds, std::function<void()> what);
  /// Lets the next thing happen. False: nothing is under way.
  bool step();
  double now() const { return static_cast<double>(now_) * 1e-9; }
  /// Between 0 and 1.
  double draw() { return std::uniform_real_distribution<double>(0, 1)(random_); }

 private:
  class End;
  struct Event {
    std::uint64_t at;
    std::uint64_t order;
    std::function<void()> happen;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };
  struct Process {
    const Peer* peer;
    double times;
  };

  double speed_of(const Peer& process) const;

  ShapedOptions options_;
  std::mt19937_64 random_;
  std::uint64_t now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, Later> events_;
  std::vector<std::shared_ptr<End>> ends_;
  std::vector<Process> processes_;
  std::vector<std::uint64_t> carried_;  // by lane index
};

}  // namespace tutti
