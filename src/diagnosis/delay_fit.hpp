// Which sender, receiver, path or link explains the delays that were measured? Delays are taken as products: what is
// usual for the medium, times a factor for each part that is slow. Works on sparse matrices, too, such as those of
// rings and trees, where each rank talks to a few neighbours only. Pure.
//
// Parts are tried from the largest (a path, which many share) to the smallest (one path between two processes). A part
// is slow if most of what it carries is, so that a slow link does not make its sender slow; what is explained is taken
// off before smaller parts are looked at, so that a slow link is also found within the row of a slow sender.
#pragma once

#include <span>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

/// A part that is slow. What does not apply is -1.
struct SlowPart {
  enum class Kind : std::uint8_t { path, sender, receiver, sender_port, receiver_port, link, path_of_link };

  Kind kind{};
  int source = -1, destination = -1, path = -1;
  bool local = false;
  double factor = 1;                                      // times the usual
  int entries = 0;                                        // that it explains
  double significance = 0;                                // the excess over its standard error
  bool sender_cleared = false, receiver_cleared = false;  // of links: the end does well elsewhere
};

/// The slow parts. `processes`: sources and destinations are below it.
std::vector<SlowPart> fit_delays(std::span<const DelayFacts> delays, int processes, double least_slowdown);

}  // namespace tutti::diagnosis
