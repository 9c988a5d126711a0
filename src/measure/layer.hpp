// One network of a measured machine, added to a topology: endpoints with ports, pairs between them, and trunks. Used
// for the inside of each host and for what joins hosts. Pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace tutti {

/// Where a network begins and ends: a GPU, or the NIC of a host.
struct LayerEnd {
  int source = 0;  // the vertex that sends into the network
  int sink = 0;    // the one that it delivers to
  std::string name;
  int node = 0;
  double out = 0;  // bytes per second of the port; 0: peers share nothing
  double in = 0;
};

/// Everything from some endpoints to others goes over one link.
struct SharedPath {
  std::vector<int> from, to;  // endpoints
  double rate = 0;
};

struct LayerNetwork {
  std::string name;
  VertexKind port_kind = VertexKind::switch_;
  bool joins_nodes_only = false;  // endpoints of one node have another network between them
  std::vector<LayerEnd> endpoints;
  std::function<double(int from, int to)> rate;     // bytes per second between endpoints alone
  std::function<double(int from, int to)> latency;  // seconds
  std::vector<SharedPath> paths;
};

void add_network(Topology& topology, const LayerNetwork& network);

/// To four digits.
Rational rounded_rate(double bytes_per_second);
Rational rounded_latency(double seconds);

}  // namespace tutti
