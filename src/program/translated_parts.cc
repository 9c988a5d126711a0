#include "program/translated_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
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
                fmt::format("worker {}, step {}: {} chunks from {} on are not of one block, and cannot be translated",
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

/// Whether the step copies several chunks that cannot overlap: scratch is nobody's input or output.
bool splits(const Step& step) {
  constexpr int kMost = 1 << 16;
  if (step.kind != StepKind::copy || step.sources.size() != 1 || step.targets.size() != 1) return false;
  const Cells& source = step.sources[0];
  const Cells& target = step.targets[0];
  return source.count == target.count && source.count > 1 && source.count <= kMost && source.rank == kSelf &&
         target.rank == kSelf && (source.buffer == Buffer::scratch) != (target.buffer == Buffer::scratch);
}

/// Nothing else happens in a worker between the chunks of a copy, so that neither order nor values change.
void split_copies(RankProgram& part) {
  std::vector<std::vector<int>> last_piece(part.workers.size());  // of each step
  for (std::size_t worker = 0; worker < part.workers.size(); ++worker) {
    std::vector<Step> pieces;
    for (const Step& step : part.workers[worker].steps) {
      const int count = splits(step) ? step.sources[0].count : 1;
      for (int i = 0; i < count; ++i) {
        Step& piece = pieces.emplace_back(step);
        if (count == 1) break;
        piece.sources[0] = {kSelf, step.sources[0].buffer, step.sources[0].first + i, 1};
        piece.targets[0] = {kSelf, step.targets[0].buffer, step.targets[0].first + i, 1};
        if (i > 0) piece.after.clear();
      }
      last_piece[worker].push_back(static_cast<int>(pieces.size()) - 1);
    }
    part.workers[worker].steps = std::move(pieces);
  }
  for (Worker& worker : part.workers)
    for (Step& step : worker.steps)
      for (Dependency& earlier : step.after) {
        const auto of = static_cast<std::size_t>(earlier.worker), at = static_cast<std::size_t>(earlier.step);
        if (of < last_piece.size() && at < last_piece[of].size()) earlier.step = last_piece[of][at];
      }
}

/// Whoever comes after a step comes after the earlier ones of its worker, too.
void drop_known_dependencies(RankProgram& part) {
  for (Worker& worker : part.workers) {
    std::map<int, int> known;  // by worker, the last step that this one comes after
    for (Step& step : worker.steps) {
      const auto is_known = [&](const Dependency& earlier) {
        const auto found = known.find(earlier.worker);
        return found != known.end() && found->second >= earlier.step;
      };
      step.after.erase(std::remove_if(step.after.begin(), step.after.end(), is_known), step.after.end());
      for (const Dependency& earlier : step.after)
        known[earlier.worker] = std::max(known[earlier.worker], earlier.step);
    }
  }
}

std::vector<int> inverse_of(const std::vector<int>& position_of, int ranks) {
  std::vector<int> rank_at(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    rank_at[static_cast<std::size_t>(position_of.empty() ? rank : position_of[static_cast<std::size_t>(rank)])] = rank;
  return rank_at;
}

}  // namespace

Program by_position(const Program& program) {
  Program by_position = program;
  const bool renumbers = !program.likeness.position_of.empty();
  if (!renumbers && !program.likeness.chunk_by_chunk) return by_position;
  if (has_root(program.shape.collective)) by_position.shape.root = position_in(program, program.shape.root);
  by_position.part = [program, renumbers,
                      rank_at = inverse_of(program.likeness.position_of, program.shape.ranks)](int position) {
    RankProgram part = program.part(rank_at[static_cast<std::size_t>(position)]);
    if (program.likeness.chunk_by_chunk) {
      split_copies(part);
      drop_known_dependencies(part);
    }
    const bool whole_vector = program.shape.collective == Collective::all_reduce;
    if (renumbers)
      renumber(
          part, [&](int rank) { return position_in(program, rank); },
          [&](Buffer buffer) { return whole_vector ? 0 : chunks_of_block(program.shape, buffer); });
    return part;
  };
  return by_position;
}

}  // namespace tutti
