// Spanning trees that share the edges of a graph, exactly: as many as asked for, or a partition of the vertices that
// shows why so many do not fit (Tutte, Nash-Williams: the parties have too few edges between them). Matroid union, with
// Roskind and Tarjan's clumps. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.hpp"

namespace tutti {

/// Joins two vertices, and may be in so many trees.
struct SharedEdge {
  int one = 0;
  int other = 0;
  std::int64_t copies = 1;
};

struct SpanningTrees {
  std::vector<std::vector<int>> trees;  // each a list of edges; empty where they do not fit
  std::vector<int> party_of;            // [vertex], where they do not fit: numbered from 0 without gaps
};

/// Edges that come first are near the root of most trees where that is possible. None at the deadline.
std::optional<SpanningTrees> pack_spanning_trees(int vertices, const std::vector<SharedEdge>& edges, int trees,
                                                 Deadline deadline);

}  // namespace tutti
