// A stream of chunks from one process to another over a ShapedNetwork, in operations with pauses between them, and
// everything that can slow it down. What the monitors of the sender's lanes tell is kept. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "monitor/lane_monitor.hpp"
#include "transport/fake/shaped_network.hpp"

namespace tutti {

struct StreamOptions {
  std::uint32_t lanes = 1;
  std::size_t chunk = 64 << 10;
  std::uint64_t chunks_per_operation = ~std::uint64_t{0};
  double between_operations = 0;  // seconds; drawn from 0 to twice that
  std::uint64_t ahead = 64;       // chunks that the receiver expects beyond what has come
  double turn = 1e-6;             // seconds after which a process that waits looks again, at the latest
  monitor::LaneMonitorOptions monitor;
  ShapedOptions network;
};

/// An event of a lane, with its times in seconds.
struct LaneEvent {
  monitor::EventKind kind{};
  monitor::Cause cause{};
  int lane = 0;
  double at = 0;
  double began = 0;
  double values[3] = {};
  std::string text;
};

class Stream {
 public:
  explicit Stream(const StreamOptions& options);
  ~Stream();

  ShapedNetwork& network() { return network_; }
  Peer& sender() { return *sender_; }
  Peer& receiver() { return *receiver_; }
  const monitor::LaneMonitor& lane(std::uint32_t index) const {
    return *sender_->lanes().entries()[index].watch.monitor;
  }

  void run_until(double seconds);

  /// The producer of what is sent brings a chunk every so many seconds; 0: whenever there is room.
  void produce_every(double seconds) { pace_ = seconds; }
  /// The receiver expects and takes nothing, but its process reads; or takes a chunk every so many seconds.
  void take_nothing(bool nothing) { takes_ = !nothing; }
  void take_every(double seconds) { take_pace_ = seconds; }

  /// Drops, recoveries, stalls and unevenness, in the order they were told.
  const std::vector<LaneEvent>& events() const { return events_; }
  std::uint64_t taken() const { return taken_; }

 private:
  std::shared_ptr<Peer> make_peer(bool watched);
  void turn();
  void offer();
  void take();
  void keep_turning();

  StreamOptions options_;
  ShapedNetwork network_;
  std::vector<LaneEvent> events_;
  std::shared_ptr<Peer> sender_;
  std::shared_ptr<Peer> receiver_;
  std::unique_ptr<SendLink> send_;
  std::unique_ptr<RecvLink> recv_;
  std::vector<std::byte> memory_;
  std::uint32_t operation_ = 1;
  std::uint64_t left_;  // of the operation
  double next_offer_ = 0;
  double next_take_ = 0;
  double pace_ = 0;
  double take_pace_ = 0;
  bool takes_ = true;
  std::uint64_t expected_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace tutti
