// What stock libraries would run on a machine, as programs, so that one simulator prices them and what is synthesized.
//
//   nccl_ring     a ring on each of NCCL's channels (channels.hpp); broadcast and reduce go along it from the root or
//                 to it
//   nccl_tree     all_reduce: chains inside nodes, and across nodes a pair of binary trees for each channel
//   nccl_direct   all_to_all: every rank sends to every other, in NCCL's order: by node, then by place. Two GPUs of a
//                 node that no NVLink joins, and ranks with no route between them, go through a third GPU of the
//                 sender's node, as NCCL does it on such machines
//   ring, double_tree, recursive_doubling     of this library (algorithm/algorithm.hpp), which knows no topology
// NCCL's protocol Simple has 8 slots of 512 KB: that is the tile its programs ask for. Its protocols for small messages
// only save what is not modelled: the time of a step. Programs pass check(); those without routes are left out.
#pragma once

#include <string>
#include <vector>

#include "algorithm/layout.hpp"
#include "program/program.hpp"
#include "topology/routes.hpp"

namespace tutti {

struct Reference {
  std::string name;
  Program program;  // with the tile it is run with
};

/// Which ranks share a host, as the library's algorithms are told: those of a node; a GPU of no node has one of its
/// own.
Layout layout_of(const Topology& topology);

std::vector<Reference> reference_programs(Routes& routes, Collective collective, int root = 0);

}  // namespace tutti
