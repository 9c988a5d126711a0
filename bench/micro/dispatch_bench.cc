// What a call costs before any peer is involved: checking, selection, binding and running the program on one rank.
#include <benchmark/benchmark.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "memory/peer_memory.hpp"
#include "tutti/tutti.hpp"

namespace {

void must(const tutti::Status& status) {
  if (!status) std::abort();
}

void barrier_of_one(benchmark::State& state) {
  auto ranks = tutti::Communicator::create_threads(1).value();
  for (auto _ : state) must(ranks[0].barrier());
}
BENCHMARK(barrier_of_one);

void all_reduce_of_one(benchmark::State& state) {
  auto ranks = tutti::Communicator::create_threads(1).value();
  const auto count = static_cast<std::size_t>(state.range(0)) / sizeof(float);
  const std::vector<float> send(count, 1.0F);
  std::vector<float> recv(count);
  for (auto _ : state) {
    must(ranks[0].all_reduce(send.data(), recv.data(), count, tutti::DataType::float32, tutti::Operator::sum));
  }
}
BENCHMARK(all_reduce_of_one)->Arg(8)->Arg(4096);

void async_barrier_of_one(benchmark::State& state) {
  auto ranks = tutti::Communicator::create_threads(1).value();
  for (auto _ : state) must(ranks[0].barrier_async().value().wait());
}
BENCHMARK(async_barrier_of_one);

/// A pull of ordinary memory through the kernel, from this process itself.
void cross_memory_pull(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const std::vector<std::byte> source(bytes);
  std::vector<std::byte> target(bytes);
  const tutti::PeerMemory memory(getpid(), false);
  if (!tutti::cross_memory_attach_works()) {
    state.SkipWithError("cross-memory attach is not allowed here");
    return;
  }
  for (auto _ : state) {
    must(memory.pull(target.data(), reinterpret_cast<std::uint64_t>(source.data()), bytes));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(cross_memory_pull)->Arg(8)->Arg(4 << 10)->Arg(64 << 10)->Arg(1 << 20);

}  // namespace
