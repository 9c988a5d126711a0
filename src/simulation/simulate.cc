#include "simulation/simulate.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "simulation/run.hpp"

namespace tutti {
namespace {

constexpr double kMostTiles = 1 << 20;

}  // namespace

struct Simulator::Prepared {
  std::string name;
  Shape shape;
  const Topology* topology = nullptr;
  simulation::FlatProgram flat;
};

Simulator::Simulator(std::unique_ptr<const Prepared> prepared) : prepared_(std::move(prepared)) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;
Simulator& Simulator::operator=(Simulator&&) noexcept = default;

Result<Simulator> Simulator::of(const Program& program, Routes& routes) {
  const Topology& topology = routes.topology();
  if (program.shape.ranks != topology.ranks())
    return fail(ErrorCode::invalid_argument, fmt::format("program {} is for {} ranks, and {} has {}", program.name,
                                                         program.shape.ranks, topology.name(), topology.ranks()));
  if (program.shape.chunks < 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("program {} has {} chunks; expected 1 or more", program.name, program.shape.chunks));
  auto flat = simulation::flatten(program, routes);
  if (!flat) return tl::unexpected(flat.error());
  return Simulator(
      std::make_unique<const Prepared>(Prepared{program.name, program.shape, &topology, std::move(*flat)}));
}

Result<Simulation> Simulator::run(const SimulationOptions& options) const {
  if (options.slots < 1)
    return fail(ErrorCode::invalid_argument, fmt::format("slots: {}; expected 1 or more", options.slots));
  const bool empty = prepared_->shape.collective == Collective::barrier;
  const double chunk_bytes = empty ? 0 : static_cast<double>(options.bytes) / chunks_of_vector(prepared_->shape);
  if (options.tile > 0 && chunk_bytes > kMostTiles * static_cast<double>(options.tile))
    return fail(ErrorCode::invalid_argument,
                fmt::format("tile: {} bytes cut a chunk of {:.0f} into more than {:.0f} tiles", options.tile,
                            chunk_bytes, kMostTiles));
  const Topology& topology = *prepared_->topology;
  return simulation::Run(prepared_->flat, topology, topology.ranks(), chunk_bytes, options).finish();
}

std::uint64_t Simulator::pieces() const {
  const auto& steps = prepared_->flat.steps;
  return static_cast<std::uint64_t>(
      std::count_if(steps.begin(), steps.end(), [](const auto& step) { return sends(step.kind); }));
}

Result<Simulation> simulate(const Program& program, Routes& routes, const SimulationOptions& options) {
  const auto simulator = Simulator::of(program, routes);
  if (!simulator) return tl::unexpected(simulator.error());
  return simulator->run(options);
}

}  // namespace tutti
