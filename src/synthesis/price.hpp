// What a program costs on a topology, at the tile that suits it best. Pure.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "program/program.hpp"
#include "simulation/simulate.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Price {
  double seconds = 0;
  std::uint64_t tile = 0;              // bytes of a chunk; 0: all
  double busiest_link = 0;             // seconds it carried something: no tile makes it faster than that
  std::vector<double> link_busy = {};  // [link] likewise
};

/// Bytes of a chunk of a program on so many bytes, rounded up.
std::uint64_t chunk_bytes(const Shape& shape, std::uint64_t bytes);

/// How long to look for a better tile.
struct PriceLimits {
  double enough = 0;                                          // seconds to be content with
  double hopeless = std::numeric_limits<double>::infinity();  // seconds: what takes longer is of no use
  double worthwhile = 0.002;                                  // a gain, as a share of the time
  std::uint64_t most_pieces = 6'000'000;                      // of a simulation
};

/// Tries smaller and smaller tiles, as long as they make it faster, within the limits. Fails as the simulator does.
Result<Price> price(const Simulator& simulator, const Shape& shape, std::uint64_t bytes,
                    const PriceLimits& limits = {});

}  // namespace tutti
