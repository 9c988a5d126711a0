// Whether what a rank does is what its representative does, translated.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "program/check/check_parts.hpp"
#include "program/translated_parts.hpp"

namespace tutti {
namespace {

using checking::StepPosition;

std::vector<Cells> in_any_order(std::vector<Cells> cells, int self) {
  for (Cells& each : cells)
    if (each.rank == self) each.rank = kSelf;
  const auto key = [](const Cells& each) {
    return std::tuple(each.rank, static_cast<int>(each.buffer), each.first, each.count);
  };
  std::sort(cells.begin(), cells.end(), [&](const Cells& a, const Cells& b) { return key(a) < key(b); });
  return cells;
}

std::vector<Dependency> in_any_order(std::vector<Dependency> after) {
  std::sort(after.begin(), after.end(), [](const Dependency& a, const Dependency& b) {
    return std::tie(a.worker, a.step) < std::tie(b.worker, b.step);
  });
  return after;
}

/// local_first and the order of a reduction's sources say in which order operands are taken, and nothing else.
bool do_the_same(const Step& step, const Step& other, int self) {
  return step.kind == other.kind && step.peer == other.peer && step.completes == other.completes &&
         in_any_order(step.sources, self) == in_any_order(other.sources, self) &&
         in_any_order(step.targets, self) == in_any_order(other.targets, self) &&
         in_any_order(step.after) == in_any_order(other.after);
}

std::optional<Violation> compare(const Worker& worker, const Worker& other, StepPosition place) {
  const auto differs = [&](std::string message) {
    return checking::broken(Violation::Rule::limits, place, std::move(message));
  };
  if (std::tie(worker.send_peer, worker.recv_peer, worker.channel) !=
      std::tie(other.send_peer, other.recv_peer, other.channel))
    return differs("has other peers, or another channel, than the part of its representative, translated");
  if (worker.steps.size() != other.steps.size())
    return differs(
        fmt::format("has {} steps, but {} in the part of its representative", worker.steps.size(), other.steps.size()));
  for (std::size_t step = 0; step < worker.steps.size(); ++step) {
    place.step = static_cast<int>(step);
    if (!do_the_same(worker.steps[step], other.steps[step], place.rank))
      return differs("is not the step of its representative, translated");
  }
  return std::nullopt;
}

}  // namespace

std::optional<Violation> check_part(const Program& program, const Translations& symmetry, int rank) {
  const int representative = symmetry.representative_of(rank);
  if (representative == rank) return std::nullopt;
  const RankProgram part = program.part(rank);
  const RankProgram wanted =
      translated(program.part(representative), program.shape, symmetry, symmetry.offset_of(rank));
  StepPosition place{rank, -1, -1};
  if (part.scratch_chunks != wanted.scratch_chunks || part.workers.size() != wanted.workers.size())
    return checking::broken(
        Violation::Rule::limits, place,
        fmt::format("has {} workers and {} chunks of scratch, but its representative {} has {} and {}",
                    part.workers.size(), part.scratch_chunks, representative, wanted.workers.size(),
                    wanted.scratch_chunks));
  for (std::size_t worker = 0; worker < part.workers.size(); ++worker) {
    place.worker = static_cast<int>(worker);
    if (auto found = compare(part.workers[worker], wanted.workers[worker], place)) return found;
  }
  return std::nullopt;
}

}  // namespace tutti
