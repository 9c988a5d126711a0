// Where the vertices of a topology stand in its picture. Nodes are boxes in a row; in a node GPUs stand in a row with
// the switch that joins them as a bar above, or where they are linked directly, on a circle or a grid; PCIe bridges and
// NICs below. Switches of no node are bars below all nodes. Pure.
#pragma once

#include <vector>

#include "topology/topology.hpp"

namespace tutti {

/// A rectangle by its middle, in pixels.
struct PictureSpot {
  double x = 0, y = 0;
  double width = 0, height = 0;
  bool shown = false;

  double left() const { return x - width / 2; }
  double right() const { return x + width / 2; }
  double top() const { return y - height / 2; }
  double bottom() const { return y + height / 2; }
};

struct TopologyPicture {
  double width = 0, height = 0;
  std::vector<PictureSpot> vertices;  // [vertex]
  std::vector<PictureSpot> nodes;     // [node]
  int nodes_shown = 0;
};

/// Shows as many nodes as make 64 GPUs, at least one; of a node at most 256 GPUs. `top`: where the drawing starts.
TopologyPicture lay_out(const Topology& topology, double top);

}  // namespace tutti
