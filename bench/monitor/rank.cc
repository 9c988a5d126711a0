// A rank that runs blocks of all_reduce as it is told on standard input, "BYTES CALLS" a line, and says on rank 0 how
// many seconds each block took. Two jobs of it, one recorded and one not, can so be timed in turn. The launcher's
// variables tell where to join; the core to run on is the argument.
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tutti/tutti.hpp"

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kLargest = 64 << 20;

void check(const tutti::Status& status) {
  if (status) return;
  std::fprintf(stderr, "recorded_rank: %s\n", status.error().to_string().c_str());
  std::_Exit(1);
}

void run_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  sched_setaffinity(0, sizeof set, &set);
}

double run_block(tutti::Communicator& ranks, std::vector<float>& memory, std::size_t bytes, long calls) {
  const std::size_t count = bytes / sizeof(float);
  float* const recv = memory.data() + kLargest / sizeof(float);
  const auto run = [&](long times) {
    for (long i = 0; i < times; ++i)
      check(ranks.all_reduce(memory.data(), recv, count, tutti::DataType::float32, tutti::Operator::max));
  };
  run(1 + calls / 10);
  check(ranks.barrier());
  const auto start = Clock::now();
  run(calls);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) run_on(std::atoi(argv[1]));
  auto ranks = tutti::Communicator::create_from_environment();
  if (!ranks) check(tl::unexpected(ranks.error()));
  std::vector<float> memory(2 * kLargest / sizeof(float), 1.0F);
  std::size_t bytes = 0;
  long calls = 0;
  while (std::scanf("%zu %ld", &bytes, &calls) == 2) {
    if (bytes > kLargest) return 2;
    const double seconds = run_block(*ranks, memory, bytes, calls);
    if (ranks->rank() == 0) std::printf("%.9f\n", seconds);
    std::fflush(stdout);
  }
  return 0;
}
