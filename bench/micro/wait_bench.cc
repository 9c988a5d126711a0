// What it costs to be asleep: ringing a doorbell nobody sleeps at, and a round trip in which both sides sleep first.
#include <benchmark/benchmark.h>

#include "engine/waiter.hpp"
#include "pair.hpp"

namespace {

void ring_awake(benchmark::State& state) {
  const micro::Pair pair;
  for (auto _ : state) pair.hosts[0].ring(1);
}
BENCHMARK(ring_awake);

void wake_round_trip(benchmark::State& state) {
  micro::Pair pair;
  constexpr int kLimit = 1000;
  const micro::Responder responder([&] {
    if (pair.hosts[1].take_signal(0, 0)) {
      pair.hosts[1].signal(0, 0);
    } else {
      pair.hosts[1].own().sleep(kLimit);
    }
  });
  for (auto _ : state) {
    pair.hosts[0].signal(1, 0);
    while (!pair.hosts[0].take_signal(1, 0)) pair.hosts[0].own().sleep(kLimit);
  }
}
BENCHMARK(wake_round_trip)->UseRealTime();

void spin_pause(benchmark::State& state) {
  tutti::Waiter waiter(tutti::WaitPolicy::of(false));
  for (auto _ : state) {
    benchmark::DoNotOptimize(waiter.pause());
    waiter.reset();
  }
}
BENCHMARK(spin_pause);

}  // namespace
