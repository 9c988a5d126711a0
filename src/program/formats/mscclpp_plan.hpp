// A program as operations of MSCCL++'s executor, before it is text. Internal to format_mscclpp.
#pragma once

#include <string_view>
#include <vector>

#include "program/formats/format_mscclpp.hpp"
#include "program/program.hpp"

namespace tutti::mscclpp {

enum class Medium { memory, port };

std::string_view name_of(Medium medium);

/// What goes from one rank to another on one of the program's channels. It is a channel of both: signals of the one
/// wake waits of the other, either way.
struct PlanConnection {
  int source = 0;
  int target = 0;
  int channel = 0;
  Medium medium = Medium::memory;

  int peer_of(int rank) const { return rank == source ? target : source; }
};

struct PlanOperation {
  std::string_view name;
  std::vector<Cells> sources;
  std::vector<Cells> targets;  // a put's are the peer's
  int connection = -1;
  std::vector<int> semaphores;
};

struct RankPlan {
  int scratch_chunks = 0;
  int semaphores = 0;
  std::vector<std::vector<PlanOperation>> blocks;
};

struct ExecutionPlan {
  std::vector<PlanConnection> connections;
  std::vector<RankPlan> ranks;
};

inline constexpr int kMostOperations = 64;  // of a block
inline constexpr int kMostChannels = 16;    // of a medium, in a block; also memories of peers
inline constexpr int kMostSemaphores = 16;  // of a rank
inline constexpr int kMostBlocks = 108;     // of a rank: each needs a multiprocessor of its own (A100)
inline constexpr int kMostOperands = 10;    // of a reduction

Result<ExecutionPlan> make_plan(const Program& program, const MscclppOptions& options);

}  // namespace tutti::mscclpp
