// A lower bound on the time of a collective on a topology, with what proves it: a certificate.
//
// It claims that moving `bytes` takes at least latency + rate * bytes seconds, whatever the algorithm: links carry no
// more than their capacity, no byte arrives before its latency, GPUs may store, copy, forward and reduce at no cost.
// `bytes` are of the whole vector: the result of an all-gather, the input of a reduce-scatter, all blocks of a rank in
// an all-to-all, gather or scatter. The evidence is small, and whoever has the topology can recompute the claim from
// it by adding up capacities and finding shortest paths (check_certificate.hpp does, and shares no code with what
// finds evidence): no search, no flow, no trust in the finder.
//
// The file:
//   {"format": "tutti bound 1", "topology": "ndv2 --nodes 2", "collective": "all_gather", "ranks": 16, "root": 0,
//    "latency": "0.0000013", "rate": "1/25000000000",                    seconds, seconds per byte; exact
//    "evidence": {"cut": "0-8,18", "from": 3, "to": 9}}                  vertices; ranks, or left out
//    "evidence": {"partition": ["0", "1-3"], "messages": "sent"}         or "received"
//    "evidence": {"lengths": [1, 0, 3]}                                  of every link, in order
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "program/program.hpp"
#include "topology/rational.hpp"
#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

inline constexpr int kAnyRank = -1;

/// What the ranks inside a set of vertices owe those outside must cross the links that leave the set. `from` and `to`
/// narrow it down to one rank on that side, which makes the latency of the way larger.
struct Cut {
  std::vector<int> inside;  // vertices, ascending
  int from = kAnyRank;
  int to = kAnyRank;

  bool operator==(const Cut&) const = default;
};

/// All-reduce only. p parties need 2p - 2 messages for each element, sent and received; parts hold each GPU once, and
/// switches as they like. Messages sent count where no switch multicasts, messages received where none reduces.
struct Partition {
  std::vector<std::vector<int>> parts;  // vertices, ascending
  bool sent = true;                     // else received

  bool operator==(const Partition&) const = default;
};

/// All-to-all only. Give each link a length: every byte between two ranks uses at least their distance, and in a second
/// no more than the sum of capacity times length is to be had.
struct Lengths {
  std::vector<std::int64_t> of_links;  // 0 to kLongest, not all 0

  bool operator==(const Lengths&) const = default;
};

inline constexpr std::int64_t kLongest = 1 << 24;

using Evidence = std::variant<Cut, Partition, Lengths>;

struct Certificate {
  std::string topology;  // its name, for people
  Collective collective = Collective::all_gather;
  int ranks = 0;
  int root = 0;
  Rational latency;  // seconds
  Rational rate;     // seconds per byte
  Evidence evidence;

  double seconds(double bytes) const { return latency.value() + rate.value() * bytes; }
  bool operator==(const Certificate&) const = default;
};

/// Whether bounds exist for it: all but barrier and point_to_point.
bool has_bounds(Collective collective);

std::string certificate_to_json(const Certificate& certificate);

/// Strict, as all readers here; errors name the place. Whether the claim is true is for check_certificate to say.
Result<Certificate> certificate_from_json(std::string_view text);

}  // namespace tutti
