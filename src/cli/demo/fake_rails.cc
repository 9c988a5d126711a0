#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/log.hpp"
#include "cli/demo/rails.hpp"
#include "transport/fake/network.hpp"

namespace tutti::cli {
namespace {

using Clock = std::chrono::steady_clock;

// A frame takes 100 us on average: with chunks of this size a lane carries 1 Gb/s.
constexpr std::size_t kChunk = 12'500;
constexpr std::uint64_t kDelay = 100;    // microseconds at most, for each part of a frame's way
constexpr std::uint64_t kTick = 10'000;  // microseconds
constexpr std::size_t kWindow = 16;      // chunks
constexpr std::size_t kBuffers = 64;
constexpr double kStart = 0.01;  // seconds: by then lanes are up
constexpr double kPace = 0.01;   // simulated seconds after which real ones are waited for
constexpr OperationTag kTag{1, 1};

/// A stream of numbered chunks from one process to another. The one that sends dials.
class FakeRails final : public Rails {
 public:
  FakeRails(bool live, Interrupts& interrupts)
      : live_(live), interrupts_(interrupts), buffers_(kBuffers, std::vector<std::byte>(kChunk)) {
    one_->dial_lanes(kRails, 1e9);
    tick(*one_);
    tick(*other_);
    while (network_.seconds() < kStart) step();
    ends_.clear();
  }

  std::string title() const override {
    return "a stream of chunks between two simulated hosts with two rails of 1 Gb/s;";
  }
  std::string operations() const override { return "chunks"; }
  double now() const override { return network_.seconds() - kStart; }
  std::array<std::uint64_t, kRails> sent() override { return {network_.carried(0), network_.carried(1)}; }
  Status flow_until(double seconds) override;
  Status set_rail(int rail, bool up) override;
  Status finish() override;

 private:
  std::shared_ptr<Peer> make_peer() {
    PeerOptions options;
    options.limits = {kChunk, kWindow * chunk_cost(kChunk), 0};
    options.clock = [this] { return network_.seconds(); };
    return std::make_shared<Peer>("peer", std::move(options));
  }

  void tick(Peer& peer) {
    std::vector<WantedLane> wanted;
    peer.tick(wanted);
    for (const WantedLane& lane : wanted) network_.dial(*one_, *other_, lane);
    network_.later(kTick, [this, &peer] { tick(peer); });
  }

  void step() {
    network_.step();
    while (offer()) {
    }
    while (take()) {
    }
  }
  bool offer();
  bool take();

  bool live_;
  Interrupts& interrupts_;
  Clock::time_point start_ = Clock::now();
  std::vector<std::vector<std::byte>> buffers_;  // outlive the links, which may read them until they are closed
  FakeNetwork network_{1, {kDelay, 0, false}};
  std::shared_ptr<Peer> one_ = make_peer();
  std::shared_ptr<Peer> other_ = make_peer();
  std::unique_ptr<SendLink> send_ = one_->open_send({1, 0, 1, 0});
  std::unique_ptr<RecvLink> recv_ = other_->open_recv({1, 0, 1, 0});
  std::uint64_t expected_ = 0;
  std::uint64_t taken_ = 0;
  bool wrong_ = false;
};

bool FakeRails::offer() {
  const std::uint64_t number = send_->sent();
  if (number - send_->released() == kBuffers) return false;
  std::vector<std::byte>& buffer = buffers_[number % kBuffers];
  std::memcpy(buffer.data(), &number, sizeof number);
  return send_->send(buffer.data(), kChunk, kTag);
}

bool FakeRails::take() {
  for (; expected_ < taken_ + kWindow; ++expected_) recv_->expect(nullptr, kChunk, kTag);
  const auto arrival = recv_->poll();
  if (!arrival) return false;
  std::uint64_t number = 0;
  if (arrival->data != nullptr) std::memcpy(&number, arrival->data, sizeof number);
  wrong_ = wrong_ || arrival->data == nullptr || number != taken_;
  ++taken_;
  recv_->release();
  ends_.push_back(now());
  return !wrong_;
}

Status FakeRails::flow_until(double seconds) {
  for (double pace = now() + kPace; now() < seconds; pace += kPace) {
    while (now() < std::min(pace, seconds)) step();
    const std::chrono::duration<double> passed = Clock::now() - start_;
    const Status undisturbed = live_ ? interrupts_.sleep(now() - passed.count()) : interrupts_.check();
    if (!undisturbed) return undisturbed;
  }
  return {};
}

// The port is the sender's: the other process is not told.
Status FakeRails::set_rail(int rail, bool up) {
  const auto lane = static_cast<std::uint32_t>(rail);
  if (up) {
    network_.unblock_all();
    one_->port_back(lane);
    return {};
  }
  network_.block(*one_, lane);
  network_.block(*other_, lane);
  network_.drop_end(*one_, lane, "no carrier");
  return {};
}

Status FakeRails::finish() {
  if (wrong_) return fail(ErrorCode::system, fmt::format("chunk {} is not what was sent", taken_ - 1));
  return {};
}

}  // namespace

std::unique_ptr<Rails> simulate_rails(bool live, Interrupts& interrupts) {
  log::raise_level(log::Level::error);  // that a lane is lost is what the scene tells
  return std::make_unique<FakeRails>(live, interrupts);
}

}  // namespace tutti::cli
