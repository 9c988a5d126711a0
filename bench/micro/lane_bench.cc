// What a chunk costs above its lane: choosing it, the books of both ends, the acknowledgement. The lane does nothing.
#include <benchmark/benchmark.h>

#include "base/clock.hpp"
#include "transport/peer.hpp"

namespace tutti {
namespace {

class NullLane final : public Lane {
 public:
  NullLane(LaneOwner& owner, std::uint32_t index) : Lane(index, 1), owner_(owner) {}

  void post(const FrameHeader& header, const std::byte*, bool) override {
    if (header.type == FrameType::data) owner_.transmitted(*this, header);
  }
  void forget_outgoing(const LinkId&) override {}
  void forget_incoming(const LinkId&) override {}
  void close() override {}
  Silence silence(double) override { return {}; }
  std::string name() const override { return "nowhere"; }

 private:
  LaneOwner& owner_;
};

double steady_seconds() { return microseconds_since(0) * 1e-6; }

FrameHeader acknowledgement(const LinkId& link, std::uint64_t received) {
  FrameHeader header;
  header.type = FrameType::ack;
  header.epoch = 1;
  header.link = link;
  header.sequence = received;
  header.credit = ~std::uint64_t{0} >> 1;
  return header;
}

// range(1): whether the lanes are watched, with a record each.
void chunk_over_lanes(benchmark::State& state) {
  PeerOptions options;
  options.clock = steady_seconds;
  if (state.range(1) != 0) {
    options.watch.emplace();
    options.watch->recorder = &monitor::Recorder::of_process();
    options.watch->monitor.stamps_per_second = 1e6 * ticks_per_microsecond();
  }
  const auto peer = std::make_shared<Peer>("peer", std::move(options));
  const LinkId link{1, 0, 1, 0};
  const auto send = peer->open_send(link);
  std::shared_ptr<NullLane> first;
  for (std::uint32_t index = 0; index < static_cast<std::uint32_t>(state.range(0)); ++index) {
    const auto lane = std::make_shared<NullLane>(*peer, index);
    if (index == 0) first = lane;
    const std::lock_guard lock(peer->mutex());
    peer->lane_up(lane);
  }
  static std::byte memory[256 << 10];
  std::uint64_t sent = 0;
  for (auto _ : state) {
    {
      const std::lock_guard lock(peer->mutex());
      benchmark::DoNotOptimize(peer->complete(*first, acknowledgement(link, sent)));
    }
    if (!send->send(memory, sizeof memory, {1, 2})) return state.SkipWithError("no credit");
    ++sent;
  }
}
BENCHMARK(chunk_over_lanes)->ArgsProduct({{1, 2, 8}, {0, 1}});

void tick(benchmark::State& state) {
  PeerOptions options;
  options.clock = steady_seconds;
  const auto peer = std::make_shared<Peer>("peer", std::move(options));
  std::vector<WantedLane> wanted;
  const std::lock_guard lock(peer->mutex());
  for (std::uint32_t index = 0; index < 2; ++index) peer->lane_up(std::make_shared<NullLane>(*peer, index));
  for (auto _ : state) benchmark::DoNotOptimize(peer->tick(wanted));
}
BENCHMARK(tick);

}  // namespace
}  // namespace tutti
