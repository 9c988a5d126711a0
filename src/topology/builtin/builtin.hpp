// Topologies by name, at any size: well-known servers behind a fabric, and regular grids.
//
// A spec is a name and its parameters, in either of two forms, which may be mixed:
//   "ndv2", "ndv2:nodes=2", "dgx-h100:nodes=4,fabric=leaf-spine,oversubscription=2", "torus2d:8x10"
//   "ndv2 --nodes 2", "torus2d --size 8x10"
// Every figure (bandwidth, latency) is documented where it stands, in the file of the builtin.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct BuiltinParameter {
  std::string_view name;
  std::string_view standard;  // its value where none is given
  std::string_view meaning;
};

class BuiltinValues;

struct Builtin {
  std::string_view name;
  std::string_view summary;
  std::vector<BuiltinParameter> parameters;
  Topology (*make)(const BuiltinValues& values);
};

std::span<const Builtin> builtin_topologies();

/// Whether the spec begins with the name of a builtin.
bool names_builtin(std::string_view spec);

/// The topology a spec names, valid. An error says which name, parameter or value is wrong and what was expected.
Result<Topology> make_builtin(std::string_view spec);

}  // namespace tutti
