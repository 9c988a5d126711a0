#include "simulation/simulate.hpp"

#include <fmt/core.h>

#include <utility>

#include "simulation/run.hpp"

namespace tutti {
namespace {

constexpr double kMostTiles = 1 << 20;

/// Parts of equal size that the vector has in all: of the whole, or of each rank's block.
int chunks_of_vector(const Shape& shape) {
  switch (shape.collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return shape.ranks * shape.chunks;
    default:
      return shape.chunks;
  }
}

}  // namespace

Result<Simulation> simulate(const Program& program, Routes& routes, const SimulationOptions& options) {
  const Topology& topology = routes.topology();
  if (program.shape.ranks != topology.ranks())
    return fail(ErrorCode::invalid_argument, fmt::format("program {} is for {} ranks, and {} has {}", program.name,
                                                         program.shape.ranks, topology.name(), topology.ranks()));
  if (program.shape.chunks < 1)
    return fail(ErrorCode::invalid_argument,
                fmt::format("program {} has {} chunks; expected 1 or more", program.name, program.shape.chunks));
  if (options.slots < 1)
    return fail(ErrorCode::invalid_argument, fmt::format("slots: {}; expected 1 or more", options.slots));
  const bool empty = program.shape.collective == Collective::barrier;
  const double chunk_bytes = empty ? 0 : static_cast<double>(options.bytes) / chunks_of_vector(program.shape);
  if (options.tile > 0 && chunk_bytes > kMostTiles * static_cast<double>(options.tile))
    return fail(ErrorCode::invalid_argument,
                fmt::format("tile: {} bytes cut a chunk of {:.0f} into more than {:.0f} tiles", options.tile,
                            chunk_bytes, kMostTiles));
  auto flat = simulation::flatten(program, routes);
  if (!flat) return tl::unexpected(flat.error());
  return simulation::Run(std::move(*flat), topology, topology.ranks(), chunk_bytes, options).finish();
}

}  // namespace tutti
