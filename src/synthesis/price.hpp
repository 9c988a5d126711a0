// What a program costs on a topology, at the tile that suits it best. Pure.
#pragma once

#include <cstdint>

#include "program/program.hpp"
#include "simulation/simulate.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Price {
  double seconds = 0;
  std::uint64_t tile = 0;   // bytes of a chunk; 0: all
  double busiest_link = 0;  // seconds it carried something: no tile makes it faster than that
};

/// Bytes of a chunk of a program on so many bytes, rounded up.
std::uint64_t chunk_bytes(const Shape& shape, std::uint64_t bytes);

inline constexpr std::uint64_t kMostPieces = 6'000'000;

/// Tries smaller and smaller tiles, as long as they make it faster and no simulation has more than `most_pieces`.
/// Fails as the simulator does.
Result<Price> price(const Simulator& simulator, const Shape& shape, std::uint64_t bytes,
                    std::uint64_t most_pieces = kMostPieces);

}  // namespace tutti
