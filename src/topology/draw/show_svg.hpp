// A topology for people's eyes.
#pragma once

#include <string>

#include "topology/topology.hpp"

namespace tutti {

/// An SVG document: nodes as boxes, switches as bars, links as lines, the thicker the faster, with a legend of what
/// they are called, how fast and how many. Large topologies are shown in part (picture.hpp), and it says so.
std::string show_svg(const Topology& topology);

/// A few lines: how many of what, and the kinds of links.
std::string show_text(const Topology& topology);

}  // namespace tutti
