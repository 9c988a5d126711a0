// A verdict: what is wrong, who is suspected and how surely, and the numbers it rests on. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "diagnosis/fault.hpp"

namespace tutti::diagnosis {

/// A part of the machine or the job. What does not apply is -1, or empty.
struct Suspect {
  int process = -1;  // index in the telemetry
  int rank = -1;     // in the communicator that its job began with
  int pid = 0;
  std::string host;
  int path = -1;          // lane, port or spine, as the telemetry numbers them
  int peer = -1;          // of a link: the rank it leads to
  double confidence = 1;  // that this one is to blame; of alternatives they add up to the verdict's
  std::string position;   // in the model, as in "pipeline stage 2 of 4"; empty: not known
};

struct Evidence {
  std::string name;  // as in "waited_seconds"
  double value = 0;
};

struct Verdict {
  FaultClass fault{};
  double confidence = 1;
  std::vector<Suspect> suspects;  // the likeliest first
  std::vector<Evidence> evidence;
  double since = 0;                          // moment; 0: not known
  std::vector<std::uint64_t> communicators;  // those that suffer
  std::string place;                         // the operation, as in "all_reduce #17"; empty: none
  std::string text;                          // all of it in a sentence
};

/// Names a verdict across looks: its class and its suspects, not its numbers.
std::string key_of(const Verdict& verdict);

}  // namespace tutti::diagnosis
