// The native file of a topology: JSON, with units.
//
//   {
//     "format": "tutti topology 1",
//     "name": "two boxes",
//     "units": {"bandwidth": "GB/s", "latency": "us"},        of plain numbers; without it every figure needs its unit
//     "vertices": [
//       {"gpu": "a", "node": 0}, {"gpu": "b", "node": 0},     in this order they are ranks 0, 1, ...
//       {"switch": "s", "node": 0, "multicasts": true, "reduces": false},   no "node": of no single node
//       {"nic": "n", "node": 0}
//     ],
//     "links": [
//       {"from": "a", "to": "s", "bandwidth": "25 GB/s", "latency": "1.3 us", "name": "nvlink", "duplex": true},
//       {"from": "a", "to": "n", "bandwidth": 12.5, "latency": 0.7}
//     ]
//   }
//
// Figures are kept exactly: decimals as decimals, "1000/23 GB/s" as a fraction. "duplex" stands for the link and the
// same in the other direction. Reading is strict: what is unknown, missing, of the wrong type or out of range is an
// error that names the place and the value ("links[3].bandwidth: '25 Gbps' has an unknown unit; ...").
#pragma once

#include <string>
#include <string_view>

#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// A valid topology. Input may be hostile: at most 64 MiB of text and a million vertices.
Result<Topology> topology_from_json(std::string_view text);

/// topology_from_json gives back the same topology, vertices and links in the same order.
std::string topology_to_json(const Topology& topology);

}  // namespace tutti
