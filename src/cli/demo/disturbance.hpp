// The scene of `tutti demo` in which a rail between two hosts is slow for some milliseconds, under running all-reduces:
// what the monitor of its lane has seen, drawn around that time, and what its detector said.
#pragma once

#include <string>
#include <vector>

#include "monitor/layout.hpp"

namespace tutti::cli {

/// Plays it; returns the exit status. Where real rails are not to be had it says so, and plays it on simulated ones.
int play_disturbance(bool simulated);

/// Throughput of a lane's window when a chunk was done; seconds of the scene, bytes per second.
struct LanePoint {
  double seconds = 0;
  double rate = 0;
};

struct Observed {
  std::string title;
  std::vector<std::vector<LanePoint>> lanes;  // by rail
  double from = 0;                            // the disturbance
  double to = 0;
  // What was told of it last: a drop that is over.
  bool told = false;
  int lane = 0;
  double began = 0;
  double ended = 0;
  double usual = 0;  // bytes per second
  double rate = 0;
  monitor::Cause cause{};
  std::string shares;
};

/// The picture and what was told, in lines.
std::vector<std::string> describe(const Observed& observed, bool color);

}  // namespace tutti::cli
