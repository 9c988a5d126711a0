#include "program/translated_parts.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

namespace tutti {

int chunks_of_block(const Shape& shape, Buffer buffer) {
  if (buffer == Buffer::scratch) return 0;
  const bool input = buffer == Buffer::input;
  switch (shape.collective) {
    case Collective::all_reduce:
      return shape.chunks % shape.ranks == 0 ? shape.chunks / shape.ranks : 0;
    case Collective::all_to_all:
      return shape.chunks;
    case Collective::all_gather:
      return input ? 0 : shape.chunks;
    case Collective::reduce_scatter:
      return input ? shape.chunks : 0;
    default:
      return 0;
  }
}

namespace {

bool stays_together(const Cells& cells, const Shape& shape, const Translations& translations) {
  const int block = chunks_of_block(shape, cells.buffer);
  if (block == 0) return true;
  const int first = cells.first / block;
  const int last = (cells.first + cells.count - 1) / block;
  for (int other = first + 1; other <= last; ++other)
    if (translations.offset_of(other) != translations.offset_of(first)) return false;
  return true;
}

}  // namespace

Status check_translatable(const RankProgram& part, const Shape& shape, const Translations& translations) {
  if (has_root(shape.collective) || shape.collective == Collective::point_to_point)
    return fail(ErrorCode::invalid_argument,
                fmt::format("ranks of a {} do not all do the same", name_of(shape.collective)));
  for (std::size_t worker = 0; worker < part.workers.size(); ++worker)
    for (std::size_t step = 0; step < part.workers[worker].steps.size(); ++step)
      for (const auto* cells : {&part.workers[worker].steps[step].sources, &part.workers[worker].steps[step].targets})
        for (const Cells& cell : *cells)
          if (!stays_together(cell, shape, translations))
            return fail(
                ErrorCode::invalid_argument,
                fmt::format("worker {}, step {}: {} chunks from {} on are not of one block, and cannot be moved",
                            worker, step, cell.count, cell.first));
  return {};
}

namespace {

/// Ranks become what `rank_to` says, and so do the blocks of buffers of which `block_of` says the size. Blocks that a
/// step names at once must stay side by side; if they do not, they become cells that no program may name.
template <typename RankTo, typename BlockOf>
void renumber(RankProgram& part, RankTo rank_to, BlockOf block_of) {
  const auto move_rank = [&](int& rank) {
    if (rank >= 0) rank = rank_to(rank);
  };
  const auto move_cells = [&](std::vector<Cells>& all) {
    for (Cells& cells : all) {
      move_rank(cells.rank);
      const int block = block_of(cells.buffer);
      if (block == 0) continue;
      const int first = cells.first / block;
      const int last = (cells.first + cells.count - 1) / block;
      const int to = rank_to(first);
      bool together = true;
      for (int other = first + 1; other <= last; ++other) together = together && rank_to(other) == to + other - first;
      cells.first = together ? to * block + cells.first % block : -1;
    }
  };
  for (Worker& worker : part.workers) {
    move_rank(worker.send_peer);
    move_rank(worker.recv_peer);
    for (Step& step : worker.steps) {
      move_rank(step.peer);
      move_cells(step.sources);
      move_cells(step.targets);
    }
  }
}

}  // namespace

RankProgram translated(RankProgram part, const Shape& shape, const Translations& translations, int by) {
  renumber(
      part, [&](int rank) { return translations.translated(rank, by); },
      [&](Buffer buffer) { return chunks_of_block(shape, buffer); });
  return part;
}

std::function<RankProgram(int rank)> translated_parts(std::vector<RankProgram> representatives, const Shape& shape,
                                                      const Translations& translations) {
  auto part_of = std::make_shared<std::map<int, RankProgram>>();
  for (int rank = 0; rank < shape.ranks; ++rank)
    if (translations.representative_of(rank) == rank)
      part_of->emplace(rank, std::move(representatives[part_of->size()]));
  return [part_of, shape, translations](int rank) {
    return translated(part_of->at(translations.representative_of(rank)), shape, translations,
                      translations.offset_of(rank));
  };
}

namespace {

/// A number that is no rank stays one.
int position_in(const Program& program, int rank) {
  const std::vector<int>& position_of = program.likeness.position_of;
  return rank >= 0 && static_cast<std::size_t>(rank) < position_of.size() ? position_of[static_cast<std::size_t>(rank)]
                                                                          : rank;
}

}  // namespace

Program by_position(const Program& program) {
  const std::vector<int>& position_of = program.likeness.position_of;
  if (position_of.empty()) return program;
  std::vector<int> rank_at(position_of.size());
  for (std::size_t rank = 0; rank < position_of.size(); ++rank)
    rank_at[static_cast<std::size_t>(position_of[rank])] = static_cast<int>(rank);
  Program by_position = program;
  if (has_root(program.shape.collective))
    by_position.shape.root = position_of[static_cast<std::size_t>(program.shape.root)];
  by_position.part = [program, rank_at](int position) {
    RankProgram part = program.part(rank_at[static_cast<std::size_t>(position)]);
    const bool whole_vector = program.shape.collective == Collective::all_reduce;
    renumber(
        part, [&](int rank) { return position_in(program, rank); },
        [&](Buffer buffer) { return whole_vector ? 0 : chunks_of_block(program.shape, buffer); });
    return part;
  };
  return by_position;
}

}  // namespace tutti
