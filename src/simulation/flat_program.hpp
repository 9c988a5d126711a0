// A program of all ranks as a few arrays, for the simulator: what takes part in time, and nothing else.
//
// Each rank's part is asked for once and dropped; what stays is 16 bytes a step and 8 a dependency, so that tens of
// millions of steps fit. Workers of all ranks are numbered through, as are their steps, and the channels between ranks
// with the links they take. What would make no sense in time is refused here: peers and dependencies out of range,
// steps without cells, two workers at one end of a channel, sends without a route, one-sided steps. Plain values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.hpp"
#include "topology/routes.hpp"
#include "tutti/error.hpp"

namespace tutti::simulation {

inline constexpr std::int32_t kNone = -1;

struct FlatStep {
  std::uint32_t chunks = 0;            // sent, received or worked on
  std::uint32_t first_dependency = 0;  // up to the next step's
  std::int32_t waiting = kNone;        // the first of the workers that wait for this step
  StepKind kind = StepKind::nop;
  std::uint8_t passes = 0;  // over the chunks by the arithmetic, or by a copy
};

struct FlatDependency {
  std::uint32_t worker = 0;
  std::uint32_t step = 0;
};

struct FlatWorker {
  std::uint32_t first_step = 0;
  std::uint32_t steps = 0;
  std::int32_t rank = 0;
  std::int32_t index = 0;  // in its rank
  std::int32_t sends_on = kNone;
  std::int32_t receives_on = kNone;
};

struct FlatChannel {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t number = 0;
  std::uint32_t first_link = 0;
  std::uint32_t links = 0;
};

struct FlatProgram {
  std::vector<FlatStep> steps;  // and one more, where the last dependency ends
  std::vector<FlatDependency> dependencies;
  std::vector<FlatWorker> workers;
  std::vector<FlatChannel> channels;
  std::vector<int> links;  // of channels

  std::span<const FlatDependency> dependencies_of(std::uint32_t step) const {
    return std::span(dependencies)
        .subspan(steps[step].first_dependency, steps[step + 1].first_dependency - steps[step].first_dependency);
  }
  std::span<const int> links_of(const FlatChannel& channel) const {
    return std::span(links).subspan(channel.first_link, channel.links);
  }
};

Result<FlatProgram> flatten(const Program& program, Routes& routes);

}  // namespace tutti::simulation
