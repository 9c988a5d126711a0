// What crossing between two cores costs, there and back: a bare flag (the limit), a signal, and a chunk in each of the
// three ways of a shared-memory link.
#include <benchmark/benchmark.h>

#include "pair.hpp"
#include "transport/link.hpp"

namespace {

void flag_round_trip(benchmark::State& state) {
  struct alignas(64) Line {
    std::atomic<std::uint64_t> value{0};
  };
  Line there;
  Line back;
  const micro::Responder responder(
      [&] { back.value.store(there.value.load(std::memory_order_acquire), std::memory_order_release); });
  std::uint64_t round = 0;
  for (auto _ : state) {
    there.value.store(++round, std::memory_order_release);
    while (back.value.load(std::memory_order_acquire) != round) {
    }
  }
}
BENCHMARK(flag_round_trip)->UseRealTime();

void signal_round_trip(benchmark::State& state) {
  micro::Pair pair;
  const micro::Responder responder([&] {
    if (pair.hosts[1].take_signal(0, 0)) pair.hosts[1].signal(0, 0);
  });
  for (auto _ : state) {
    pair.hosts[0].signal(1, 0);
    while (!pair.hosts[0].take_signal(1, 0)) {
    }
  }
}
BENCHMARK(signal_round_trip)->UseRealTime();

/// One end of a link pair that bounces chunks.
struct End {
  std::unique_ptr<tutti::SendLink> to;
  std::unique_ptr<tutti::RecvLink> from;
  std::vector<std::byte> out;
  std::vector<std::byte> in;

  End(tutti::Host& host, int peer, std::size_t bytes, tutti::DirectFrom direct_from)
      : to(host.open_send(peer, 0, direct_from)), from(host.open_recv(peer, 0)), out(bytes), in(bytes) {}

  void expect() { from->expect(in.data(), in.size(), {}); }
  void send() {
    while (!to->send(out.data(), out.size(), {})) {
    }
  }
  bool take() {
    const auto arrival = from->poll();
    if (!arrival) return false;
    if (arrival->data != in.data()) std::copy_n(arrival->data, arrival->bytes, in.data());
    from->release();
    return true;
  }
};

void bounce(benchmark::State& state, tutti::DirectFrom direct_from) {
  micro::Pair pair;
  const auto bytes = static_cast<std::size_t>(state.range(0));
  End near(pair.hosts[0], 1, bytes, direct_from);
  End far(pair.hosts[1], 0, bytes, direct_from);
  far.expect();
  const micro::Responder responder([&] {
    if (!far.take()) return;
    far.expect();
    far.send();
  });
  for (auto _ : state) {
    near.expect();
    near.send();
    while (!near.take()) {
    }
  }
  state.SetBytesProcessed(state.iterations() * 2 * state.range(0));
}

void copied(benchmark::State& state) { bounce(state, {}); }
BENCHMARK(copied)->Name("eager_round_trip")->Arg(8)->Arg(48)->UseRealTime();
BENCHMARK(copied)->Name("staged_round_trip")->Arg(64)->Arg(4 << 10)->Arg(64 << 10)->UseRealTime();

void pulled(benchmark::State& state) { bounce(state, {64, 64}); }
BENCHMARK(pulled)->Name("direct_round_trip")->Arg(64)->Arg(4 << 10)->Arg(64 << 10)->UseRealTime();

}  // namespace
