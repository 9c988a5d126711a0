// What measurements mean: which ports, NICs and trunks are shared and how much they carry. Pure; from here on there is
// no noise: rates and latencies that differ by no more than it have been made equal.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "measure/measurements.hpp"
#include "measure/pair_table.hpp"

namespace tutti {

/// Bandwidth of a port against the number of peers at once, the smallest number first.
struct PeersRate {
  int peers = 0;
  double rate = 0;
};

/// One direction of a rank's port, towards its own host or the others.
struct MeasuredPort {
  double rate = 0;      // bytes per second: of all peers together where they share it, else the sum of what each gets
  bool shared = false;  // peers together get less than the sum of what each gets alone
  std::vector<PeersRate> by_peers;
};

/// What more peers at once do to a port: a switch's policy in TACCL's words.
enum class PeerPolicy : std::uint8_t {
  either,  // the same bandwidth whatever their number
  few,     // "uc-min": every further peer costs bandwidth
  many,    // "uc-max": one peer alone does not fill the port
};

std::string_view name_of(PeerPolicy policy);

/// Ports of all ranks towards ranks of their own host, or of others.
struct PortFindings {
  std::vector<MeasuredPort> out, in;  // by rank
  PeerPolicy policy = PeerPolicy::either;
};

struct HostFinding {
  std::vector<int> ranks;
  double out = 0;  // bytes per second of a NIC that all its ranks share; 0: they share none
  double in = 0;
  double memory = 0;         // of all its ranks to each other, where that is less than the sum; 0: it is not
  std::vector<int> nearest;  // the ranks from which other hosts are reached fastest
};

struct Trunk {
  std::vector<int> from, to;  // the ranks of two islands
  double rate = 0;            // of all that goes from one to the other
};

struct Findings {
  PairTable pairs;  // levelled
  PortFindings local, remote;
  std::vector<HostFinding> hosts;
  std::vector<std::vector<int>> islands;
  std::vector<Trunk> trunks;  // only those that are shared
};

Findings conclude(const Measurements& measurements);

}  // namespace tutti
