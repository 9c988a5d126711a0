#include "program/check/check_cells.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tutti::checking {

CellMap::CellMap(const ProgramParts& parts, Placement placement) : orbits_(parts.orbits) {
  const Shape& shape = parts.shape;
  for (const int rank : orbits_.representatives()) {
    const int inputs = input_chunks(shape, rank);
    const int outputs = output_chunks(shape, rank);
    const bool aliased = placement == Placement::in_place && inputs > 0 && outputs > 0;
    Bases bases{};
    bases.outputs = outputs;
    bases.first_shared = inputs < outputs ? rank * shape.chunks : outputs < inputs ? -rank * shape.chunks : 0;
    int& input = bases.buffer[static_cast<std::size_t>(Buffer::input)];
    int& output = bases.buffer[static_cast<std::size_t>(Buffer::output)];
    if (aliased) {
      input = size_ + std::max(bases.first_shared, 0);
      output = size_ + std::max(-bases.first_shared, 0);
      size_ += std::max(inputs, outputs);
    } else {
      input = size_;
      output = size_ + inputs;
      size_ += inputs + outputs;
    }
    bases.buffer[static_cast<std::size_t>(Buffer::scratch)] = size_;
    size_ += parts.part_of(rank).scratch_chunks;
    bases_.push_back(bases);
  }
}

bool CellMap::is_output(int owner, int cell) const {
  const int first = base(owner, Buffer::output);
  return cell >= first && cell < first + bases_of(owner).outputs;
}

std::string describe_extent(const Shape& shape, int extent) {
  const int block = extent / shape.chunks;
  const int chunk = extent % shape.chunks;
  switch (shape.collective) {
    case Collective::all_gather:
    case Collective::gather:
    case Collective::reduce_scatter:
    case Collective::scatter:
      return fmt::format("chunk {} of block {}", chunk, block);
    case Collective::all_to_all:
      return fmt::format("chunk {} from rank {} to rank {}", chunk, block / shape.ranks, block % shape.ranks);
    default:
      return fmt::format("chunk {}", extent);
  }
}

}  // namespace tutti::checking
