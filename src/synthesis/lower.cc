#include "synthesis/lower.hpp"

#include <fmt/format.h>

#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "algorithm/builder.hpp"
#include "program/translated_parts.hpp"
#include "synthesis/moves.hpp"

namespace tutti {

namespace {

using generate::PartBuilder;
using generate::WorkerRef;

Cells input_cell(const LoweringPurpose& purpose, int chunk, int rank) {
  const int chunks = purpose.schedule.chunks;
  switch (purpose.shape.collective) {
    case Collective::all_gather:
    case Collective::gather:
      return generate::input(chunk - rank * chunks);
    case Collective::all_to_all:
      return generate::input(chunk - rank * chunks * purpose.shape.ranks);
    default:
      return generate::input(chunk);
  }
}

Cells output_cell(const LoweringPurpose& purpose, int chunk, int rank) {
  const int chunks = purpose.schedule.chunks;
  switch (purpose.shape.collective) {
    case Collective::reduce_scatter:
    case Collective::scatter:
      return generate::output(chunk - rank * chunks);
    case Collective::all_to_all:
      return generate::output(chunk / chunks / purpose.shape.ranks * chunks + chunk % chunks);
    default:
      return generate::output(chunk);
  }
}

/// Writes one rank's part, move by move.
class PartEmitter {
 public:
  PartEmitter(PartBuilder& part, const LoweringPurpose& purpose, const Moves& moves, bool reuses_scratch)
      : part_(part), purpose_(purpose), moves_(moves), reuses_scratch_(reuses_scratch) {}

  void emit() {
    count_uses();
    keep_own();
    for (const Move& move : moves_.of(part_.rank())) {
      if (move.from == part_.rank()) {
        worker(move.to, kNobody, move.channel).send(held(move));
      } else if (move.reduces) {
        reduce(move);
      } else {
        worker(kNobody, move.from, move.channel).recv(arrival(move));
      }
      for (int i = 0; i < move.count; ++i) use(move.chunk + i);
    }
  }

 private:
  /// Where a chunk lies on this rank, once something has come, and how often it will still be touched.
  struct Standing {
    bool arrived = false;
    Cells cell;
    int uses = 0;
    int additions = 0;  // that are still to come
  };

  void count_uses() {
    for (const Move& move : moves_.of(part_.rank())) {
      for (int i = 0; i < move.count; ++i) {
        Standing& standing = standings_[move.chunk + i];
        ++standing.uses;
        if (move.reduces && move.to == part_.rank()) ++standing.additions;
      }
    }
  }

  /// What a rank sends to itself.
  void keep_own() {
    const Shape& shape = part_.shape();
    const int own_block = part_.rank() * shape.chunks;
    switch (shape.collective) {
      case Collective::all_gather:
        return part_.local().copy(generate::input(0, shape.chunks), generate::output(own_block, shape.chunks));
      case Collective::all_to_all:
        return part_.local().copy(generate::input(own_block, shape.chunks), generate::output(own_block, shape.chunks));
      case Collective::broadcast:
        if (part_.rank() != shape.root) return;
        return part_.local().copy(generate::input(0, shape.chunks), generate::output(0, shape.chunks));
      case Collective::gather:
        if (part_.rank() != shape.root) return;
        return part_.local().copy(generate::input(0, shape.chunks), generate::output(own_block, shape.chunks));
      case Collective::scatter:
        if (part_.rank() != shape.root) return;
        return part_.local().copy(generate::input(own_block, shape.chunks), generate::output(0, shape.chunks));
      default:
        return;
    }
  }

  WorkerRef worker(int send_peer, int recv_peer, int channel) {
    const auto key = std::tuple(send_peer, recv_peer, channel);
    auto known = workers_.find(key);
    if (known == workers_.end()) known = workers_.emplace(key, part_.worker(send_peer, recv_peer, channel)).first;
    return known->second;
  }

  Cells cell_of(int chunk) {
    const Standing& standing = standings_[chunk];
    return standing.arrived ? standing.cell : input_cell(purpose_, chunk, part_.rank());
  }

  /// The cells of a move's chunks, which lie side by side.
  Cells held(const Move& move) {
    Cells cells = cell_of(move.chunk);
    cells.count = move.count;
    return cells;
  }

  Cells arrival(const Move& move) {
    for (int i = 0; i < move.count; ++i) {
      Standing& standing = standings_[move.chunk + i];
      if (standing.arrived) continue;
      standing.cell = purpose_.place_of_arrival(move.chunk + i, part_.rank()) == Buffer::output
                          ? output_cell(purpose_, move.chunk + i, part_.rank())
                          : take_scratch();
      standing.arrived = true;
    }
    return held(move);
  }

  void reduce(const Move& move) {
    const Cells before = held(move);
    const Cells after = arrival(move);
    Standing& standing = standings_[move.chunk];
    const bool completes = standing.additions == 1 && home_of(purpose_.schedule, move.chunk) == part_.rank();
    for (int i = 0; i < move.count; ++i) --standings_[move.chunk + i].additions;
    worker(kNobody, move.from, move.channel).recv_reduce(before, after, {.completes = completes});
  }

  Cells take_scratch() {
    if (!reuses_scratch_ || free_.empty()) return part_.scratch(1);
    const Cells cell = free_.front();
    free_.pop_front();
    return cell;
  }

  void use(int chunk) {
    Standing& standing = standings_[chunk];
    if (--standing.uses == 0 && standing.arrived && standing.cell.buffer == Buffer::scratch)
      free_.push_back(standing.cell);  // the one free longest is taken first: its last reader has most likely gone
  }

  PartBuilder& part_;
  const LoweringPurpose& purpose_;
  const Moves& moves_;
  bool reuses_scratch_;
  std::unordered_map<int, Standing> standings_;
  std::map<std::tuple<int, int, int>, WorkerRef> workers_;
  std::deque<Cells> free_;
};

/// Channels a schedule uses by itself, as a multiple of the period: those that differ by it take the same route.
int width_of(const Schedule& schedule, const LowerOptions& options) {
  int most = 0;
  for (const Transfer& transfer : schedule.transfers) most = std::max(most, transfer.channel);
  const int period = std::max(options.routes_period, 1);
  return (most / period + 1) * period;
}

/// Moves in order, those of all ranks or, where a symmetry moves ranks, of chunks that start at representatives.
struct Told {
  std::vector<Move> moves;
  LoweringPurpose purpose;
  Translations symmetry;
  int width = 1;   // channels that a phase has by itself
  int phases = 1;  // on channels of their own
};

Result<Program> assemble(Told told, const LowerOptions& options) {
  const LoweringPurpose& purpose = told.purpose;
  const Translations& symmetry = told.symmetry;
  if (options.channels < 1 || options.instances < 1 || options.routes_period < 1 ||
      told.phases * options.channels * options.routes_period > kMostChannels)
    return fail(ErrorCode::invalid_argument, fmt::format("a program cannot have {} channels, {} instances, {} routes",
                                                         options.channels, options.instances, options.routes_period));
  for (Move& move : told.moves) move.channel += told.width * (move.chunk % options.channels);
  const bool moves_ranks = symmetry.order() > 1;
  if (options.merges && !moves_ranks) told.moves = merged(std::move(told.moves), purpose);
  const auto kept =
      std::make_shared<const Moves>(moves_ranks ? by_representative(told.moves, purpose.schedule, symmetry)
                                                : by_rank(told.moves, purpose.shape.ranks));
  Program program =
      generate::assemble({.name = options.name,
                          .shape = purpose.shape,
                          .in_place = purpose.shape.collective != Collective::all_to_all,
                          .channels = told.phases * options.channels * told.width,
                          .emit = [kept, purpose, reuses = options.reuses_scratch](
                                      PartBuilder& part) { PartEmitter(part, purpose, *kept, reuses).emit(); }},
                         options.instances);
  if (!moves_ranks) return program;
  std::vector<RankProgram> representatives;
  for (int rank = 0; rank < program.shape.ranks; ++rank)
    if (symmetry.representative_of(rank) == rank) representatives.push_back(program.part(rank));
  program.part = translated_parts(std::move(representatives), program.shape, symmetry);
  program.symmetry = symmetry;
  return program;
}

/// With all transfers, unless there are very many ranks.
Schedule ready(const Schedule& schedule, const LowerOptions& options) {
  const bool moves_ranks = schedule.symmetry.order() > 1;
  return moves_ranks && schedule.shape.ranks <= options.most_ranks_written_out ? written_out(schedule) : schedule;
}

Result<Collective> reversal_of(Collective collective) {
  switch (collective) {
    case Collective::all_gather:
      return Collective::reduce_scatter;
    case Collective::broadcast:
      return Collective::reduce;
    case Collective::scatter:
      return Collective::gather;
    case Collective::gather:
      return Collective::scatter;
    default:
      return fail(ErrorCode::unsupported, fmt::format("{} backwards is no collective", name_of(collective)));
  }
}

}  // namespace

Result<Program> lower(const Schedule& given, const LowerOptions& options) {
  const Schedule schedule = ready(given, options);
  return assemble(
      {forwards(schedule, 0), {schedule.shape, schedule.shape}, schedule.symmetry, width_of(schedule, options)},
      options);
}

Result<Program> lower_reversed(const Schedule& given, const LowerOptions& options) {
  const Schedule schedule = ready(given, options);
  const auto collective = reversal_of(schedule.shape.collective);
  if (!collective) return tl::unexpected(collective.error());
  LoweringPurpose purpose{schedule.shape, schedule.shape};
  purpose.shape.collective = *collective;
  if (!reduces(*collective)) purpose.schedule.collective = *collective;
  return assemble(
      {backwards(schedule, 0, reduces(*collective)), purpose, schedule.symmetry, width_of(schedule, options)}, options);
}

Result<Program> lower_all_reduce(const Schedule& up, const Schedule& down, const LowerOptions& options) {
  if (up.shape != down.shape ||
      (up.shape.collective != Collective::all_gather && up.shape.collective != Collective::broadcast))
    return fail(ErrorCode::invalid_argument, "an all_reduce is made of two all_gathers or two broadcasts alike");
  const bool alike = up.symmetry == down.symmetry && options.instances == 1;  // of which each has a part of the vector
  const Schedule reduction = alike ? ready(up, options) : written_out(up);
  const Schedule distribution = alike ? ready(down, options) : written_out(down);
  LoweringPurpose purpose{reduction.shape, reduction.shape};
  purpose.shape.collective = Collective::all_reduce;
  purpose.shape.root = 0;
  purpose.shape.chunks = chunks_of(reduction.shape);
  // The phases have channels of their own, or what is to be distributed would wait for the last that is to be reduced.
  const int width = std::max(width_of(reduction, options), width_of(distribution, options));
  std::vector<Move> moves = backwards(reduction, 0, true);
  const auto second = forwards(distribution, options.channels * width);
  moves.insert(moves.end(), second.begin(), second.end());
  return assemble({std::move(moves), purpose, reduction.symmetry, width, 2}, options);
}

}  // namespace tutti
