// What a chunk's checksum costs, by the way that it is computed; range(1): bytes.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/crc32c.hpp"

namespace {

void checksum(benchmark::State& state) {
  const auto way = static_cast<tutti::Crc32cWay>(state.range(0));
  if (way > tutti::best_crc32c()) return state.SkipWithError("this CPU does not have it");
  const std::vector<std::byte> bytes(static_cast<std::size_t>(state.range(1)), std::byte{7});
  for (auto _ : state) benchmark::DoNotOptimize(tutti::crc32c(bytes, 0, way));
  state.SetBytesProcessed(state.iterations() * state.range(1));
}
BENCHMARK(checksum)->ArgNames({"way", "bytes"})->ArgsProduct({{0, 1, 2}, {60, 4 << 10, 128 << 10, 256 << 10}});

}  // namespace
