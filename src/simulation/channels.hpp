// The channels a stock library lays over a machine: rings that follow the fast links inside a node and go from node to
// node through its NICs, as NCCL's search for graphs does it.
//
//   one node       rings over direct links, as many side by side as the links have room for (a link of twice the least
//                  bandwidth for two), each with its reverse; where a switch joins the GPUs, one order does for all
//   several nodes  a way through the GPUs of a node for each NIC (two for a single one), in and out at GPUs of that
//   NIC;
//                  where each GPU has one of its own, in at one and out at its neighbour, and where NICs reach only
//                  their like, every second node is passed backwards
// Ways are searched by trying, with a limit: where none is found, or nodes are not alike, there are no channels.
// Pure; the same result for the same topology.
#pragma once

#include <vector>

#include "topology/routes.hpp"

namespace tutti::simulation {

struct ReferenceChannel {
  std::vector<int> ring;                // ranks; those of a node one after the other
  std::vector<std::vector<int>> chain;  // [node] ranks from the one that talks to other nodes; the same way in each
};

std::vector<ReferenceChannel> find_channels(Routes& routes);

/// Ranks by node, ascending.
std::vector<std::vector<int>> ranks_of_nodes(const Topology& topology);

/// Whether the way between two ranks passes a NIC; false where there is none.
bool passes_nic(Routes& routes, int from, int to);

}  // namespace tutti::simulation
