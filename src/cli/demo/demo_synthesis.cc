#include "cli/demo/demo_synthesis.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/bench/rank_threads.hpp"
#include "cli/demo/flight_chart.hpp"
#include "cli/support/command.hpp"
#include "cli/support/parse.hpp"
#include "cli/support/terminal.hpp"
#include "communicator/install.hpp"
#include "program/check/check.hpp"
#include "synthesis/synthesize.hpp"
#include "tutti/communicator.hpp"

namespace tutti::cli {
namespace {

constexpr int kNodes = 2, kGpusOfNode = 4;
constexpr std::uint64_t kBytes = 1 << 20;
constexpr std::int64_t kGigabyte = 1'000'000'000;

/// Two servers: four GPUs around a switch, and one NIC for all of them.
Topology two_servers() {
  Topology topology("two servers of four GPUs");
  const int fabric = topology.add_switch("fabric", kSharedNode);
  for (int node = 0; node < kNodes; ++node) {
    const std::string name = fmt::format("n{}.", node);
    const int crossbar = topology.add_switch(name + "switch", node);
    const int out = topology.add_nic(name + "nic.out", node), in = topology.add_nic(name + "nic.in", node);
    for (int i = 0; i < kGpusOfNode; ++i) {
      const int gpu = topology.add_gpu(fmt::format("{}gpu{}", name, i), node);
      topology.add_duplex({gpu, crossbar, Rational(100 * kGigabyte), Rational(2, 10'000'000), "nvlink"});
      topology.add_link({gpu, out, Rational(25 * kGigabyte), 0, "pcie"});
      topology.add_link({in, gpu, Rational(25 * kGigabyte), 0, "pcie"});
    }
    topology.add_link({out, fabric, Rational(25 * kGigabyte), Rational(1, 1'000'000), "ib"});
    topology.add_link({fabric, in, Rational(25 * kGigabyte), Rational(1, 1'000'000), "ib"});
  }
  return topology;
}

/// Every rank a thread of this process; how many elements came out wrong.
Result<std::int64_t> run(const Program& program) {
  auto communicators = Communicator::create_threads(program.shape.ranks);
  if (!communicators) return tl::unexpected(communicators.error());
  std::vector<Result<std::int64_t>> outcomes(communicators->size(), std::int64_t{0});
  const Status ran = run_ranks(*communicators, [&](std::size_t rank) {
    Communicator& communicator = (*communicators)[rank];
    std::vector<float> vector(kBytes / sizeof(float));
    for (std::size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<float>(i % 1000 + rank);
    Status done = install_program(communicator, program);
    if (done)
      done = communicator.all_reduce(vector.data(), vector.data(), vector.size(), DataType::float32, Operator::sum);
    if (!done) return void(outcomes[rank] = tl::unexpected(done.error()));
    const auto ranks = communicators->size();
    for (std::size_t i = 0; i < vector.size(); ++i)
      if (vector[i] != static_cast<float>((i % 1000) * ranks + ranks * (ranks - 1) / 2)) ++*outcomes[rank];
  });
  if (!ran) return tl::unexpected(ran.error());
  std::int64_t wrong = 0;
  for (const auto& outcome : outcomes) {
    if (!outcome) return tl::unexpected(outcome.error());
    wrong += *outcome;
  }
  return wrong;
}

void tell(const Synthesis& found, const Topology& topology, bool color) {
  const Synthesized& best = found.sizes.front();
  fmt::print("  {}: {} in {:.1f} us, by {}, found in {:.2f} s\n", paint("synthesized", Color::bold, color),
             show_bytes(best.bytes), best.simulated * 1e6, best.generator, found.seconds);
  fmt::print("  no algorithm can take less than {:.1f} us: proven, so this is within {:.1f} % of the best there is\n",
             best.bound * 1e6, best.gap() * 100);
  for (const Rival& rival : found.rivals)
    if (rival.simulated.front() > 0 && (rival.name == "ring" || rival.name == "double_tree"))
      fmt::print("  {:<12} {:.1f} us, {:.1f} times as long\n", rival.name, rival.simulated.front() * 1e6,
                 rival.simulated.front() / best.simulated);
  const Program& program = found.programs.front();
  Routes routes(topology);
  const auto flown = simulate(program, routes, {.bytes = best.bytes, .tile = program.tile, .keeps_flights = true});
  if (!flown) return;
  fmt::print("\n");
  for (const std::string& line : flight_chart(*flown, topology, color)) fmt::print("{}\n", line);
  fmt::print("\n");
}

}  // namespace

int play_synthesis() {
  const bool color = wants_color(STDOUT_FILENO);
  const Topology topology = two_servers();
  fmt::print("An all-reduce made for two servers of four GPUs, 100 GB/s inside, one NIC of 25 GB/s each\n");
  const auto found =
      synthesize(topology, {.collective = Collective::all_reduce, .sizes = {kBytes}, .seconds = 5, .enough = 0.05});
  if (!found) return report_error("demo", found.error().message);
  tell(*found, topology, color);
  const Program& program = found->programs.front();
  if (const CheckReport report = check(program); !report.ok())
    return report_error("demo", report.violation->to_string());
  const auto wrong = run(program);
  if (!wrong) return report_error("demo", wrong.error().to_string());
  fmt::print("  proven by the checker, and run by 8 ranks of this machine: {}\n",
             *wrong == 0 ? paint("verified ✓", Color::green, color)
                         : paint(fmt::format("{} elements WRONG", *wrong), Color::red, color));
  return *wrong == 0 ? 0 : 1;
}

}  // namespace tutti::cli
