// A rank that sums and gathers numbers of which it knows the results, compares each, and says how many were wrong:
// summing_rank BYTES. It goes on until a file named `stop` exists.
#include <fmt/core.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::integrity {
namespace {

std::uint32_t value(int rank, std::uint32_t step, std::size_t at) {
  return static_cast<std::uint32_t>((at + step * 977 + static_cast<std::size_t>(rank) * 131) * 2654435761u);
}

/// A step's calls. Adds the elements that are wrong to `wrong`, and says whether all ranks go on.
Result<bool> run_step(Communicator& world, std::uint32_t step, std::size_t count, std::uint64_t& wrong) {
  std::vector<std::uint32_t> mine(count), sum(count), all(count * static_cast<std::size_t>(world.size()));
  for (std::size_t i = 0; i < count; ++i) mine[i] = value(world.rank(), step, i);
  if (Status done = world.all_reduce(mine.data(), sum.data(), count, DataType::uint32, Operator::sum); !done)
    return tl::unexpected(done.error());
  if (Status done = world.all_gather(mine.data(), all.data(), count, DataType::uint32); !done)
    return tl::unexpected(done.error());
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t expected = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      const std::uint32_t part = value(rank, step, i);
      expected += part;
      if (all[static_cast<std::size_t>(rank) * count + i] != part) ++wrong;
    }
    if (sum[i] != expected) ++wrong;
  }
  std::int32_t stop = ::access("stop", F_OK) == 0 ? 1 : 0;
  if (Status done = world.all_reduce(&stop, &stop, 1, DataType::int32, Operator::max); !done)
    return tl::unexpected(done.error());
  // A flag that came corrupted is not one of these.
  return stop != 1;
}

int run(int argc, char** argv) {
  const std::size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) / sizeof(std::uint32_t) : 1 << 18;
  auto world = Communicator::create_from_environment(Options::from_environment());
  if (!world) return fmt::print("failed {}\n", world.error().to_string()), 1;
  std::uint64_t wrong = 0;
  for (std::uint32_t step = 0;; ++step) {
    const Result<bool> goes_on = run_step(*world, step, count, wrong);
    if (!goes_on) return fmt::print("failed {}\n", goes_on.error().to_string()), 1;
    if (!*goes_on) return fmt::print("steps {} wrong {}\n", step + 1, wrong), wrong == 0 ? 0 : 3;
    if (step == 4) fmt::print("ready\n");
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tutti::integrity

int main(int argc, char** argv) { return tutti::integrity::run(argc, argv); }
