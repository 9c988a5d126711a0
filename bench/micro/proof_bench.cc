// What the first use of a built-in program in a process takes: it is made and proven. 64 ranks, each algorithm and
// collective; the time aimed at is 1 ms.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "algorithm/algorithm.hpp"
#include "program/check/proof.hpp"

namespace {

constexpr int kRanks = 64;
constexpr int kRanksPerHost = 8;
constexpr int kRank = 37;  // a rank like any other; whose part is compared

void proof(benchmark::State& state, const tutti::Algorithm& algorithm, tutti::Collective collective,
           const tutti::Layout& layout) {
  for (auto _ : state) {
    tutti::Result<tutti::Program> program = tutti::make_program(algorithm.name, collective, layout);
    if (!program || !tutti::prove(std::move(*program), kRank)) std::abort();
  }
}

bool register_all() {
  for (const tutti::Algorithm& algorithm : tutti::algorithms())
    for (int number = 0; number < tutti::kCollectives; ++number) {
      const auto collective = static_cast<tutti::Collective>(number);
      tutti::Layout layout = tutti::Layout::blocks(kRanks, kRanksPerHost);
      if (!algorithm.supports(collective, layout)) layout = tutti::Layout::one_host(kRanks);
      if (!algorithm.supports(collective, layout)) continue;
      const std::string name = "proof/" + std::string(algorithm.name) + "/" + std::string(tutti::name_of(collective));
      benchmark::RegisterBenchmark(name.c_str(), proof, algorithm, collective, layout)->Unit(benchmark::kMillisecond);
    }
  return true;
}

const bool registered = register_all();

}  // namespace
