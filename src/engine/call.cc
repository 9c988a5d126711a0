#include "engine/call.hpp"

#include <numeric>

#include "base/hash.hpp"

namespace tutti {

std::uint32_t signature_of(const Call& call) {
  const bool reducing = reduces(call.collective);
  const bool rooted = has_root(call.collective);
  std::uint64_t hash = mix(0x74757474, static_cast<std::uint64_t>(call.collective) | (call.uneven ? 256U : 0U));
  hash = mix(hash, static_cast<std::uint64_t>(call.type) << 16 |
                       (reducing ? static_cast<std::uint64_t>(call.reduction.op) : 255U) << 8 | (rooted ? 1U : 0U));
  hash = mix(hash, rooted ? static_cast<std::uint64_t>(call.root) : 0);
  const bool agreed_counts = call.collective == Collective::all_gather || call.collective == Collective::reduce_scatter;
  if (!call.uneven) {
    hash = mix(hash, call.count);
  } else if (agreed_counts) {
    const auto& counts = call.collective == Collective::all_gather ? call.recv_counts : call.send_counts;
    for (const std::size_t count : counts) hash = mix(hash, count);
  }
  return static_cast<std::uint32_t>(hash >> 32 ^ hash);
}

std::size_t bytes_of(const Call& call, int ranks) {
  const std::size_t element = size_of(call.type);
  if (call.uneven) {
    const auto sum = [](std::span<const std::size_t> counts) {
      return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
    };
    return element * (call.recv_counts.empty() ? sum(call.send_counts) : sum(call.recv_counts));
  }
  switch (call.collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return call.count * element * static_cast<std::size_t>(ranks);
    default:
      return call.count * element;
  }
}

}  // namespace tutti
