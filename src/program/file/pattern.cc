#include "program/file/pattern.hpp"

#include <algorithm>

namespace tutti {

std::int64_t evaluate(const Expression& expression, const EvaluationPoint& place) {
  std::int64_t value = expression.base + expression.rank * place.rank;
  for (std::size_t depth = 0; depth < kMaxLoopDepth; ++depth) value += expression.loop[depth] * place.loop[depth];
  if (expression.mod > 0) {
    value %= expression.mod;
    if (value < 0) value += expression.mod;
  }
  return value + expression.plus;
}

ValueRange range_of(const Expression& expression, const Domain& domain) {
  ValueRange range{expression.base, expression.base};
  const auto add = [&range](std::int64_t factor, std::int64_t first, std::int64_t last) {
    range.least += std::min(factor * first, factor * last);
    range.most += std::max(factor * first, factor * last);
  };
  add(expression.rank, domain.first_rank, domain.last_rank);
  for (std::size_t depth = 0; depth < kMaxLoopDepth; ++depth) add(expression.loop[depth], 0, domain.counts[depth] - 1);
  if (expression.mod > 0 && (range.least < 0 || range.most >= expression.mod)) range = {0, expression.mod - 1};
  return {range.least + expression.plus, range.most + expression.plus};
}

namespace {

Step expand_step(const StepPattern& pattern, const EvaluationPoint& place) {
  Step step = pattern.prototype;
  auto number = pattern.numbers.begin();
  visit_numbers(step, [&](int& slot) { slot = static_cast<int>(evaluate(*number++, place)); });
  return step;
}

void expand_nodes(const std::vector<PatternNode>& nodes, std::size_t depth, EvaluationPoint& place,
                  std::vector<Step>& steps) {
  for (const PatternNode& node : nodes) {
    if (node.body.empty()) {
      steps.push_back(expand_step(node.step, place));
      continue;
    }
    for (std::int64_t round = 0; round < node.repeat; ++round) {
      place.loop[depth] = round;
      expand_nodes(node.body, depth + 1, place, steps);
    }
    place.loop[depth] = 0;
  }
}

int expand_peer(const std::optional<Expression>& peer, const EvaluationPoint& place) {
  return peer ? static_cast<int>(evaluate(*peer, place)) : kNobody;
}

}  // namespace

RankProgram expand(const RankPattern& pattern, int rank) {
  RankProgram part;
  part.scratch_chunks = pattern.scratch_chunks;
  part.workers.reserve(pattern.workers.size());
  EvaluationPoint place;
  place.rank = rank;
  for (const WorkerPattern& from : pattern.workers) {
    Worker worker;
    worker.send_peer = expand_peer(from.send_peer, place);
    worker.recv_peer = expand_peer(from.recv_peer, place);
    worker.channel = static_cast<int>(evaluate(from.channel, place));
    expand_nodes(from.steps, 0, place, worker.steps);
    part.workers.push_back(std::move(worker));
  }
  return part;
}

}  // namespace tutti
