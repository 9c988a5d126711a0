// The generators as the synthesizer tries them: each makes programs for a collective on a topology, some for all sizes,
// some for one. What only copies is made on the topology itself, reductions on the reversed one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "bound/bound.hpp"
#include "program/program.hpp"
#include "synthesis/synthesize.hpp"
#include "topology/routes.hpp"
#include "topology/sketch/sketch.hpp"
#include "topology/topology.hpp"

namespace tutti {

/// What generators work on. Refers to the topology.
struct SynthesisTask {
  SynthesisTask(const Topology& given, const SynthesisRequest& request);

  const Topology& topology;
  Topology backwards;  // the same with every link turned round
  bool even;           // every link has its like in the other direction: schedules serve both ways
  Routes routes;
  Routes backward_routes;
  Collective collective;
  int root;
  const SketchedNode* sketch;  // may be null
  const SketchPlan* plan;      // of the sketch; may be null
  SketchPlan backward_plan;    // what it demands of the reversed topology; where there is a plan

  /// The plan for one of the two topologies; may be null.
  const SketchPlan* plan_for(const Routes& of) const {
    return plan == nullptr || &of == &routes ? plan : &backward_plan;
  }
  LoweringWishes lowering;
  const Bound* bound = nullptr;
};

/// A program someone proposes.
struct Proposal {
  std::string generator;
  Program program;
  double model_seconds = 0;  // what the model it was made with says it takes; 0: the simulator is the model
};

/// Where proposals go; false: enough.
using Propose = std::function<bool(Proposal)>;

struct Generator {
  std::string_view name;
  std::string_view help;
  bool for_each_size = false;  // else `make` is called once, with the largest size
  bool in_any_case = false;    // also where others were good enough, unless they have met the bound
  bool (*fits)(const SynthesisTask& task);
  /// Proposes what it can until `deadline`; what fails is left out.
  void (*make)(SynthesisTask& task, std::uint64_t bytes, Deadline deadline, const Propose& propose);
};

/// Cheapest first.
std::span<const Generator> generators();

}  // namespace tutti
