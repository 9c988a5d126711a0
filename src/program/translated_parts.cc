#include "program/translated_parts.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

namespace tutti {

namespace {

/// Chunks of a block, where the buffer holds one for every rank; else 0.
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

bool is_within_block(const Cells& cells, const Shape& shape) {
  const int block = chunks_of_block(shape, cells.buffer);
  return block == 0 || cells.first / block == (cells.first + cells.count - 1) / block;
}

}  // namespace

Status check_translatable(const RankProgram& part, const Shape& shape) {
  if (has_root(shape.collective) || shape.collective == Collective::point_to_point)
    return fail(ErrorCode::invalid_argument,
                fmt::format("ranks of a {} do not all do the same", name_of(shape.collective)));
  if (shape.collective == Collective::all_reduce && shape.chunks % shape.ranks != 0)
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} chunks are no blocks of {} ranks", shape.chunks, shape.ranks));
  for (std::size_t worker = 0; worker < part.workers.size(); ++worker)
    for (std::size_t step = 0; step < part.workers[worker].steps.size(); ++step)
      for (const auto* cells : {&part.workers[worker].steps[step].sources, &part.workers[worker].steps[step].targets})
        for (const Cells& cell : *cells)
          if (!is_within_block(cell, shape))
            return fail(
                ErrorCode::invalid_argument,
                fmt::format("worker {}, step {}: {} chunks from {} on are not of one block, and cannot be moved",
                            worker, step, cell.count, cell.first));
  return {};
}

RankProgram translated(RankProgram part, const Shape& shape, const Translations& translations, int by) {
  const auto move_rank = [&](int& rank) {
    if (rank >= 0) rank = translations.translated(rank, by);
  };
  const auto move_cells = [&](std::vector<Cells>& all) {
    for (Cells& cells : all) {
      move_rank(cells.rank);
      if (const int block = chunks_of_block(shape, cells.buffer); block > 0)
        cells.first = translations.translated(cells.first / block, by) * block + cells.first % block;
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

}  // namespace tutti
