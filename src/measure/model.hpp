// Findings as a topology: ranks are GPUs, and whatever they share is a link of its own (topology/topology.hpp).
//
// Ranks of one host are joined by what they measured among themselves; hosts by NICs, one for each rank, or one for all
// ranks of a host where they were seen to share it. In either, a port that peers share is a link to a vertex behind
// which the peers part; those that reach each other as fast as their ports allow meet in a switch; every other pair has
// a link of its own behind the ports; and a trunk is two vertices with one link between them. Pure.
#pragma once

#include "measure/findings.hpp"
#include "topology/topology.hpp"

namespace tutti {

/// Figures are rounded to four digits: measurements have no more.
Topology topology_of(const Findings& findings, const std::string& name);

}  // namespace tutti
