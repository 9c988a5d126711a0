#include "synthesis/price.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace tutti {

namespace {

constexpr std::uint64_t kLeastTile = 4096;
constexpr int kPatience = 2;  // halvings without a gain: the first may only fill the pipeline unevenly

}  // namespace

std::uint64_t chunk_bytes(const Shape& shape, std::uint64_t bytes) {
  const auto chunks = static_cast<std::uint64_t>(chunks_of_vector(shape));
  return (bytes + chunks - 1) / chunks;
}

Result<Price> price(const Simulator& simulator, const Shape& shape, std::uint64_t bytes, const PriceLimits& limits) {
  Price best;
  const std::uint64_t chunk = chunk_bytes(shape, bytes);
  const double worthwhile = 1 - limits.worthwhile;
  int in_vain = 0;
  for (std::uint64_t tiles = 1; in_vain < kPatience; tiles *= 2) {
    const std::uint64_t tile = tiles == 1 ? 0 : std::bit_ceil(chunk) / tiles;  // the same for sizes of the same kind
    if (tiles > 1 && (tile < kLeastTile || simulator.pieces() * tiles > limits.most_pieces)) break;
    auto simulated = simulator.run({.bytes = bytes, .tile = tile});
    if (!simulated) return tl::unexpected(simulated.error());
    const bool faster = tiles == 1 || simulated->seconds < best.seconds * worthwhile;
    in_vain = faster ? 0 : in_vain + 1;
    if (!faster) continue;
    auto& busy = simulated->link_busy;
    const double most = busy.empty() ? 0 : *std::max_element(busy.begin(), busy.end());
    best = {simulated->seconds, tile, most, std::move(busy)};
    // Where the busiest link has hardly rested, no tile can do better.
    if (best.seconds * worthwhile < best.busiest_link || best.seconds <= limits.enough ||
        best.busiest_link >= limits.hopeless)
      break;
  }
  return best;
}

}  // namespace tutti
