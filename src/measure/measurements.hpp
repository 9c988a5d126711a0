// What was measured of a job, as plain values: messages between two ranks, one pair at a time, and flows between
// several pairs at once. Conclusions are drawn elsewhere (findings.hpp), so that they can be tested without a machine.
// Seconds, bytes, and bytes per second throughout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tutti {

/// How long a message of this size takes, one way.
struct SizeTime {
  std::uint64_t bytes = 0;
  double seconds = 0;
};

/// An ordered pair of ranks while nothing else moves.
struct PairTimes {
  int from = 0;
  int to = 0;
  std::vector<SizeTime> times;  // by size; the first is the smallest, a message of a few bytes
  // Several chunks of this size in a row: seconds a chunk, each sent when the one before has come, and all at once.
  std::uint64_t chunk_bytes = 0;  // 0: not measured
  double one_by_one = 0;
  double back_to_back = 0;
};

struct RankFlow {
  int from = 0;
  int to = 0;

  bool operator==(const RankFlow&) const = default;
};

/// Why flows were measured together: what they may share.
enum class SharedResource : std::uint8_t {
  egress,       // the port of a rank, `subject`, that sends to several
  ingress,      // of one that receives from several
  host_egress,  // the NIC of a host, `subject`, all whose ranks send to other hosts
  host_ingress,
  host_memory,  // of a host all whose ranks send to each other
  trunk,        // whatever joins two islands; `subject` numbers the plan's pairs of islands
};

std::string_view name_of(SharedResource shared);

/// Flows at once, each for as long as it would have taken alone.
struct Together {
  SharedResource shared = SharedResource::egress;
  int subject = 0;
  std::vector<RankFlow> flows;
  double alone = 0;  // the sum of what each flow reaches by itself
  double rate = 0;   // what all of them reached together
};

struct Measurements {
  std::vector<int> host_of;  // by rank
  std::vector<PairTimes> pairs;
  std::vector<Together> together;
  bool sampled = false;  // time was up before every pair was measured

  int ranks() const { return static_cast<int>(host_of.size()); }
};

/// All of it, with units in the keys: {"format": "tutti measurements 1", ...}.
std::string measurements_to_json(const Measurements& measurements);

}  // namespace tutti
