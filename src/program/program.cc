#include "program/program.hpp"

#include <algorithm>
#include <memory>
#include <utility>

namespace tutti {

std::string_view name_of(Collective collective) {
  static constexpr std::string_view kNames[kCollectives] = {
      "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
      "all_to_all", "gather", "scatter",   "barrier",    "point_to_point"};
  const auto index = static_cast<std::size_t>(collective);
  return index < kCollectives ? kNames[index] : "?";
}

bool has_root(Collective collective) {
  return collective == Collective::reduce || collective == Collective::broadcast || collective == Collective::gather ||
         collective == Collective::scatter;
}

bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce ||
         collective == Collective::reduce_scatter;
}

bool leaves_together(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::barrier:
      return true;
    default:
      return false;
  }
}

std::string_view name_of(StepKind kind) {
  static constexpr std::string_view kNames[] = {
      "nop",  "send",   "recv",   "recv_reduce", "recv_copy_send", "recv_reduce_send", "recv_reduce_copy_send",
      "copy", "reduce", "signal", "wait"};
  const auto index = static_cast<std::size_t>(kind);
  return index < std::size(kNames) ? kNames[index] : "?";
}

bool hears_all(const RankProgram& part, int rank, int ranks) {
  std::vector<bool> heard(static_cast<std::size_t>(ranks));
  heard[static_cast<std::size_t>(rank)] = true;
  for (const Worker& worker : part.workers)
    for (const Step& step : worker.steps)
      if (step.kind == StepKind::wait) heard[static_cast<std::size_t>(step.peer)] = true;
  return std::find(heard.begin(), heard.end(), false) == heard.end();
}

int input_chunks(const Shape& shape, int rank) {
  switch (shape.collective) {
    case Collective::broadcast:
      return rank == shape.root ? shape.chunks : 0;
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return shape.ranks * shape.chunks;
    case Collective::scatter:
      return rank == shape.root ? shape.ranks * shape.chunks : 0;
    case Collective::point_to_point:
      return rank == 0 ? shape.chunks : 0;
    default:
      return shape.chunks;
  }
}

int output_chunks(const Shape& shape, int rank) {
  switch (shape.collective) {
    case Collective::reduce:
      return rank == shape.root ? shape.chunks : 0;
    case Collective::all_gather:
    case Collective::all_to_all:
      return shape.ranks * shape.chunks;
    case Collective::gather:
      return rank == shape.root ? shape.ranks * shape.chunks : 0;
    case Collective::point_to_point:
      return rank == 1 ? shape.chunks : 0;
    default:
      return shape.chunks;
  }
}

int chunks_of_vector(const Shape& shape) {
  switch (shape.collective) {
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return shape.ranks * shape.chunks;
    default:
      return shape.chunks;
  }
}

Program make_flat(std::string name, Shape shape, std::vector<RankProgram> parts) {
  Program program;
  program.name = std::move(name);
  program.shape = shape;
  for (const RankProgram& part : parts)
    for (const Worker& worker : part.workers)
      for (const Step& step : worker.steps)
        if (step.kind == StepKind::signal || step.kind == StepKind::wait) program.one_sided = true;
  auto held = std::make_shared<const std::vector<RankProgram>>(std::move(parts));
  program.part = [held](int rank) { return held->at(static_cast<std::size_t>(rank)); };
  return program;
}

}  // namespace tutti
