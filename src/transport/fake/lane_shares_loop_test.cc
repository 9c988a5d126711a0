// Two processes that exchange operations over two shaped lanes, with pauses between them as in a training loop.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "transport/fake/shaped_network.hpp"

namespace tutti {
namespace {

constexpr double kRate = 50e6;  // bytes per second: 400 Mb/s
constexpr std::size_t kChunk = 128 << 10;

struct LoopOptions {
  std::vector<double> rates{kRate, kRate};  // of each lane, both ways
  std::size_t bytes = 8 << 20;              // that each process sends in an operation, half of it in each of two phases
  double pause = 0.002;
  std::uint64_t seed = 1;
  double jitter = 0.2;
};

/// Both processes send what an all_reduce of two ranks sends: half of it, and when both have all of that the other
/// half. Then each says so with 4 bytes, and pauses.
class Loop {
 public:
  explicit Loop(const LoopOptions& options) : options_(options), network_(shape(options)) {
    for (int side = 0; side < 2; ++side) peers_[side] = make_peer();
    for (int side = 0; side < 2; ++side) {
      const auto from = static_cast<std::uint32_t>(side);
      send_[side] = peers_[side]->open_send({1, from, 1 - from, 0});
      recv_[1 - side] = peers_[1 - side]->open_recv({1, from, 1 - from, 0});
    }
    for (std::uint32_t lane = 0; lane < options_.rates.size(); ++lane) {
      network_.connect(*peers_[0], *peers_[1], lane);
      set_rate(lane, options_.rates[lane]);
    }
    turn_later();
  }

  void set_rate(std::uint32_t lane, double rate) {
    for (const auto& peer : peers_) network_.set_rate(*peer, lane, rate);
  }

  /// Operations per second from now on, for so long. Operations that are under way at either end count as parts.
  double run(double seconds) {
    const double begin = network_.now();
    const double before = progress();
    while (network_.now() < begin + seconds && network_.step())
      for (int side = 0; side < 2; ++side) turn(side);
    return (progress() - before) / (network_.now() - begin);
  }

  double carried(std::uint32_t lane) const { return static_cast<double>(network_.carried(lane)); }
  double now() const { return network_.now(); }

 private:
  /// What a process is at: chunks sent, expected and taken of the phase. Phase 2 is the exchange of 4 bytes.
  struct Place {
    std::uint32_t operation = 0;
    int phase = 0;
    std::size_t sent = 0;
    std::size_t taken = 0;
    bool expected = false;
    double resumes = 0;
  };

  static ShapedOptions shape(const LoopOptions& options) {
    ShapedOptions shaped;
    shaped.rate = kRate;
    shaped.latency = 50e-6;
    shaped.take = 5e-6;
    shaped.jitter = options.jitter;
    shaped.hiccups = 0.01;
    shaped.seed = options.seed;
    shaped.socket = 256 << 10;
    return shaped;
  }

  std::shared_ptr<Peer> make_peer() {
    PeerOptions options;
    options.checksums = Checksums::off;  // no payload is moved
    options.limits.chunk_limit = kChunk;
    options.clock = [this] { return network_.now(); };
    return std::make_shared<Peer>("peer", std::move(options));
  }

  void turn_later() {
    network_.later(20e-6, [this] { turn_later(); });
  }

  std::size_t chunks(int phase) const { return phase == 2 ? 1 : options_.bytes / 2 / kChunk; }
  std::size_t chunk_bytes(int phase) const { return phase == 2 ? 4 : kChunk; }

  void turn(int side) {
    Place& at = places_[side];
    if (network_.now() < at.resumes) return;
    const std::size_t bytes = chunk_bytes(at.phase);
    const OperationTag tag{at.operation, 1};
    for (std::size_t chunk = 0; !at.expected && chunk < chunks(at.phase); ++chunk)
      recv_[side]->expect(memory_.data(), bytes, tag);
    at.expected = true;
    while (at.sent < chunks(at.phase) && send_[side]->send(memory_.data(), bytes, tag)) ++at.sent;
    while (at.taken < chunks(at.phase) && recv_[side]->poll()) {
      recv_[side]->release();
      ++at.taken;
    }
    if (at.sent < chunks(at.phase) || at.taken < chunks(at.phase) || send_[side]->released() != send_[side]->sent())
      return;
    const bool over = at.phase == 2;
    at = {at.operation + (over ? 1 : 0),
          over ? 0 : at.phase + 1,
          0,
          0,
          false,
          over ? network_.now() + options_.pause : 0.0};
  }

  double progress() const {
    const Place& at = places_[0];
    if (at.phase == 2) return at.operation + 1.0;
    const auto of_phase = static_cast<double>(at.taken) / static_cast<double>(chunks(0));
    return at.operation + (at.phase + of_phase) / 2;
  }

  LoopOptions options_;
  ShapedNetwork network_;
  std::shared_ptr<Peer> peers_[2];
  std::unique_ptr<SendLink> send_[2];
  std::unique_ptr<RecvLink> recv_[2];
  std::vector<std::byte> memory_ = std::vector<std::byte>(kChunk);
  Place places_[2];
};

double alone(LoopOptions options, double rate) {
  options.rates = {rate};
  Loop loop(options);
  loop.run(0.5);
  return loop.run(2);
}

LoopOptions of_size(std::size_t bytes, std::uint64_t seed = 1) {
  LoopOptions options;
  options.bytes = bytes;
  options.seed = seed;
  return options;
}

TEST(LaneSharesLoop, EqualLanesCarryAlikeFromTheStart) {
  for (const std::size_t bytes : {1 << 20, 8 << 20})
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      Loop loop(of_size(bytes, seed));
      loop.run(0.5);
      const double before[] = {loop.carried(0), loop.carried(1)};
      loop.run(0.5);
      const double one = loop.carried(0) - before[0];
      const double other = loop.carried(1) - before[1];
      EXPECT_GT(std::min(one, other), 0.85 * std::max(one, other)) << "seed " << seed << ", " << bytes << " bytes";
    }
}

TEST(LaneSharesLoop, ALaneCutTo15PercentLosesItsShareWithinASecondAndGetsItBack) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    for (const std::uint32_t lane : {0u, 1u}) {
      const LoopOptions options = of_size(8 << 20, seed);
      Loop loop(options);
      loop.run(0.5);
      const double before = loop.run(1);
      loop.set_rate(lane, 0.15 * kRate);
      loop.run(1);
      const double cut = loop.run(2);
      EXPECT_GE(cut, 0.94 * alone(options, 1.15 * kRate)) << "seed " << seed << " lane " << lane;
      loop.set_rate(lane, kRate);
      loop.run(1);
      EXPECT_GE(loop.run(1), 0.95 * before) << "seed " << seed << " lane " << lane;
    }
}

TEST(LaneSharesLoop, OperationsOfOneMegabyteRunAtLeastAsOnTheOtherLaneAlone) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    for (const std::uint32_t lane : {0u, 1u}) {
      const LoopOptions options = of_size(1 << 20, seed);
      Loop loop(options);
      loop.run(0.5);
      const double before = loop.run(2);
      loop.set_rate(lane, 0.15 * kRate);
      loop.run(1);
      EXPECT_GE(loop.run(2), 0.99 * alone(options, kRate)) << "seed " << seed << " lane " << lane;
      loop.set_rate(lane, kRate);
      loop.run(1);
      EXPECT_GE(loop.run(2), 0.95 * before) << "seed " << seed << " lane " << lane;
    }
}

TEST(LaneSharesLoop, WithoutPausesALaneAtHalfSpeedLeavesThreeQuarters) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    LoopOptions options = of_size(8 << 20, seed);
    options.pause = 0;
    Loop loop(options);
    loop.run(0.5);
    const double before = loop.run(1);
    loop.set_rate(1, kRate / 2);
    loop.run(1);
    EXPECT_GE(loop.run(2), 0.95 * 0.75 * before) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tutti
