// Programs in compact form: one text for all ranks, numbers as expressions over the rank and the loop counters,
// repeated steps as loops. This is what the native file holds; ranks' parts are expanded from it on demand.
// Plain values; safe to read from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "program/program.hpp"

namespace tutti {

inline constexpr int kMaxLoopDepth = 4;
inline constexpr std::int64_t kMaxStepsOfRank = 1 << 22;  // after expansion

/// ((base + rank * r + loop[0] * i + loop[1] * j + ...) mod `mod`) + plus. The remainder is never negative;
/// mod 0: no remainder is taken.
struct Expression {
  std::int64_t base = 0;
  std::int64_t rank = 0;
  std::array<std::int64_t, kMaxLoopDepth> loop{};
  std::int64_t mod = 0;
  std::int64_t plus = 0;

  bool operator==(const Expression&) const = default;
};

/// Where an expression is evaluated.
struct EvaluationPoint {
  std::int64_t rank = 0;
  std::array<std::int64_t, kMaxLoopDepth> loop{};
};
std::int64_t evaluate(const Expression& expression, const EvaluationPoint& place);

/// The values a rank and the loop counters take: ranks [first, last], loop d in [0, counts[d] - 1].
struct Domain {
  std::int64_t first_rank = 0;
  std::int64_t last_rank = 0;
  std::array<std::int64_t, kMaxLoopDepth> counts{1, 1, 1, 1};
};
struct ValueRange {
  std::int64_t least = 0;
  std::int64_t most = 0;
};
/// Bounds of an expression; exact where no remainder is taken, else never too narrow.
ValueRange range_of(const Expression& expression, const Domain& domain);

/// A step whose numbers, in the order of visit_numbers, are expressions.
struct StepPattern {
  Step prototype;  // numbers that are present are 0
  std::vector<Expression> numbers;
};

/// A step, or where `body` is not empty, `repeat` rounds of it.
struct PatternNode {
  StepPattern step;
  std::int64_t repeat = 1;
  std::vector<PatternNode> body;
};

struct WorkerPattern {
  std::optional<Expression> send_peer;
  std::optional<Expression> recv_peer;
  Expression channel;
  std::vector<PatternNode> steps;
};

struct RankPattern {
  int scratch_chunks = 0;
  std::vector<WorkerPattern> workers;
};

/// `parts` holds one pattern for all ranks, or one for each.
struct ProgramPattern {
  std::vector<RankPattern> parts;

  const RankPattern& of(int rank) const { return parts.size() == 1 ? parts.front() : parts.at(std::size_t(rank)); }
};

RankProgram expand(const RankPattern& pattern, int rank);

/// Calls `visit` with each number of a step: the peer, each cell's rank, first and count, each dependency's worker and
/// step. Absent peers and ranks (kNobody, kSelf) are no numbers.
template <typename StepType, typename Visitor>
void visit_numbers(StepType& step, Visitor&& visit) {
  const auto visit_cells = [&](auto& cells) {
    for (auto& cell : cells) {
      if (cell.rank != kSelf) visit(cell.rank);
      visit(cell.first);
      visit(cell.count);
    }
  };
  if (step.peer != kNobody) visit(step.peer);
  visit_cells(step.sources);
  visit_cells(step.targets);
  for (auto& dependency : step.after) {
    visit(dependency.worker);
    visit(dependency.step);
  }
}

}  // namespace tutti
