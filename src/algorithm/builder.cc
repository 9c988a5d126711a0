#include "algorithm/builder.hpp"

#include <algorithm>
#include <utility>

namespace tutti::generate {

namespace {

Step make_step(StepKind kind, std::vector<Cells> sources, std::vector<Cells> targets, Fold fold = {}) {
  Step step;
  step.kind = kind;
  step.sources = std::move(sources);
  step.targets = std::move(targets);
  step.local_first = fold.local_first;
  step.completes = fold.completes;
  return step;
}

}  // namespace

template <typename Visit>
void PartBuilder::for_own(const std::vector<Cells>& cells, Visit visit) {
  for (const Cells& range : cells) {
    if (range.rank != kSelf && range.rank != rank_) continue;
    for (int i = 0; i < range.count; ++i) visit(history_of(range.buffer, range.first + i));
  }
}

void WorkerRef::send(Cells source) const { builder_->add(index_, make_step(StepKind::send, {source}, {})); }

void WorkerRef::recv(Cells target) const { builder_->add(index_, make_step(StepKind::recv, {}, {target})); }

void WorkerRef::recv_reduce(Cells source, Cells target, Fold fold) const {
  builder_->add(index_, make_step(StepKind::recv_reduce, {source}, {target}, fold));
}

void WorkerRef::recv_copy_send(Cells target) const {
  builder_->add(index_, make_step(StepKind::recv_copy_send, {}, {target}));
}

void WorkerRef::recv_reduce_send(Cells source, Fold fold) const {
  builder_->add(index_, make_step(StepKind::recv_reduce_send, {source}, {}, fold));
}

void WorkerRef::recv_reduce_copy_send(Cells source, Cells target, Fold fold) const {
  builder_->add(index_, make_step(StepKind::recv_reduce_copy_send, {source}, {target}, fold));
}

void WorkerRef::copy(Cells source, Cells target) const {
  builder_->add(index_, make_step(StepKind::copy, {source}, {target}));
}

void WorkerRef::reduce(std::vector<Cells> sources, std::vector<Cells> targets, bool completes) const {
  builder_->add(index_, make_step(StepKind::reduce, std::move(sources), std::move(targets), {.completes = completes}));
}

void WorkerRef::await(Cells cells) const {
  Step step;
  builder_->for_own({cells},
                    [&](PartBuilder::History& cell) { builder_->order_after(index_, cell.writer, step.after); });
  builder_->part_.workers[static_cast<std::size_t>(index_)].steps.push_back(std::move(step));
}

void WorkerRef::signal(int peer) const { builder_->add_notice(index_, StepKind::signal, peer); }

void WorkerRef::wait(int peer) const { builder_->add_notice(index_, StepKind::wait, peer); }

void WorkerRef::reserve(int steps) const {
  std::vector<Step>& all = builder_->part_.workers[static_cast<std::size_t>(index_)].steps;
  all.reserve(all.size() + static_cast<std::size_t>(steps));
}

PartBuilder::PartBuilder(const Shape& shape, int rank, bool in_place)
    : shape_(shape),
      rank_(rank),
      input_(static_cast<std::size_t>(input_chunks(shape, rank))),
      output_(static_cast<std::size_t>(output_chunks(shape, rank))) {
  aliases_.reserve(input_.size());
  for (int chunk = 0; chunk < static_cast<int>(input_.size()); ++chunk)
    aliases_.push_back(in_place ? aliased_output(shape, rank, chunk) : -1);
}

WorkerRef PartBuilder::worker(int send_peer, int recv_peer, int channel) {
  const auto same = [&](const Worker& w) {
    return w.send_peer == send_peer && w.recv_peer == recv_peer && w.channel == channel;
  };
  const auto found = std::find_if(part_.workers.begin(), part_.workers.end(), same);
  const int index = static_cast<int>(found - part_.workers.begin());
  if (found == part_.workers.end()) part_.workers.push_back({send_peer, recv_peer, channel, {}});
  return {*this, index};
}

Cells PartBuilder::scratch(int count) {
  const int first = part_.scratch_chunks;
  part_.scratch_chunks += count;
  scratch_.resize(static_cast<std::size_t>(part_.scratch_chunks));
  return {kSelf, Buffer::scratch, first, count};
}

RankProgram PartBuilder::finish() && { return std::move(part_); }

PartBuilder::History& PartBuilder::history_of(Buffer buffer, int chunk) {
  if (buffer == Buffer::scratch) return scratch_.at(static_cast<std::size_t>(chunk));
  if (buffer == Buffer::output) return output_.at(static_cast<std::size_t>(chunk));
  const int alias = aliases_.at(static_cast<std::size_t>(chunk));
  return alias >= 0 ? output_[static_cast<std::size_t>(alias)] : input_[static_cast<std::size_t>(chunk)];
}

/// A worker's last reading comes after its earlier ones.
void PartBuilder::add_reader(History& cell, const Dependency& reader) {
  const auto last = static_cast<std::size_t>(cell.last_reader);
  if (cell.last_reader >= 0 && readers_[last].step.worker == reader.worker) {
    readers_[last].step = reader;
    return;
  }
  const int added = static_cast<int>(readers_.size());
  readers_.push_back({reader});
  (cell.last_reader < 0 ? cell.first_reader : readers_[last].next) = added;
  cell.last_reader = added;
}

void PartBuilder::order_after(int worker, const Dependency& earlier, std::vector<Dependency>& after) {
  if (earlier.worker < 0 || earlier.worker == worker) return;
  for (Dependency& known : after) {
    if (known.worker != earlier.worker) continue;
    known.step = std::max(known.step, earlier.step);
    return;
  }
  after.push_back(earlier);
}

void PartBuilder::add(int worker, Step step) {
  Dependency writer{-1, -1}, reader{-1, -1};  // of the cell before, which are often those of the next, too
  const auto order_after_new = [&](const Dependency& earlier, Dependency& before) {
    if (earlier == before) return;
    order_after(worker, earlier, step.after);
    before = earlier;
  };
  for_own(step.sources, [&](History& cell) { order_after_new(cell.writer, writer); });
  for_own(step.targets, [&](History& cell) {
    order_after_new(cell.writer, writer);
    for (int next = cell.first_reader; next >= 0; next = readers_[static_cast<std::size_t>(next)].next)
      order_after_new(readers_[static_cast<std::size_t>(next)].step, reader);
  });

  auto& steps = part_.workers[static_cast<std::size_t>(worker)].steps;
  const Dependency here{worker, static_cast<int>(steps.size())};
  for_own(step.sources, [&](History& cell) { add_reader(cell, here); });
  for_own(step.targets, [&](History& cell) { cell = {here}; });
  steps.push_back(std::move(step));
}

void PartBuilder::add_notice(int worker, StepKind kind, int peer) {
  Step& notice = part_.workers[static_cast<std::size_t>(worker)].steps.emplace_back();
  notice.kind = kind;
  notice.peer = peer;
}

int aliased_output(const Shape& shape, int rank, int input_chunk) {
  const int own_block = rank * shape.chunks;
  switch (shape.collective) {
    case Collective::all_gather:
      return own_block + input_chunk;
    case Collective::gather:
      return rank == shape.root ? own_block + input_chunk : -1;
    case Collective::reduce_scatter:
    case Collective::scatter: {
      const int offset = input_chunk - own_block;
      return offset >= 0 && offset < shape.chunks ? offset : -1;
    }
    default:
      return input_chunk < output_chunks(shape, rank) ? input_chunk : -1;
  }
}

namespace {

/// Finds the place of each step of one instance among those of all of them.
class Replicator {
 public:
  Replicator(const Shape& shape, int channels, int instances)
      : chunks_(shape.chunks), channels_(channels), instances_(instances) {}

  RankProgram replicate(const RankProgram& one) const {
    const auto ends = last_pieces(one);
    RankProgram all;
    all.scratch_chunks = one.scratch_chunks * instances_;
    for (int instance = 0; instance < instances_; ++instance)
      for (const Worker& worker : one.workers) {
        Worker copy{worker.send_peer, worker.recv_peer, worker.channel + instance * channels_, {}};
        const int first_worker = instance * static_cast<int>(one.workers.size());
        for (const Step& step : worker.steps) append_pieces(step, instance, first_worker, ends, copy.steps);
        all.workers.push_back(std::move(copy));
      }
    return all;
  }

 private:
  using StepEnds = std::vector<std::vector<int>>;

  static int pieces(const Step& step) {
    if (!step.sources.empty()) return step.sources.front().count;
    return step.targets.empty() ? 1 : step.targets.front().count;
  }

  /// Per worker and step, the index of its last piece.
  static StepEnds last_pieces(const RankProgram& one) {
    StepEnds ends;
    for (const Worker& worker : one.workers) {
      int next = 0;
      auto& of_worker = ends.emplace_back();
      for (const Step& step : worker.steps) of_worker.push_back((next += pieces(step)) - 1);
    }
    return ends;
  }

  int chunk_of(Buffer buffer, int chunk, int instance) const {
    if (buffer == Buffer::scratch) return chunk * instances_ + instance;
    const int block = chunk / chunks_;
    return (block * instances_ + instance) * chunks_ + chunk % chunks_;
  }

  void append_pieces(const Step& step, int instance, int first_worker, const StepEnds& ends,
                     std::vector<Step>& steps) const {
    for (int i = 0; i < pieces(step); ++i) {
      Step piece = step;
      for (auto* side : {&piece.sources, &piece.targets})
        for (Cells& cells : *side)
          cells = {cells.rank, cells.buffer, chunk_of(cells.buffer, cells.first + i, instance), 1};
      if (i > 0) piece.after.clear();
      for (Dependency& earlier : piece.after)
        earlier = {earlier.worker + first_worker,
                   ends[static_cast<std::size_t>(earlier.worker)][static_cast<std::size_t>(earlier.step)]};
      steps.push_back(std::move(piece));
    }
  }

  int chunks_;
  int channels_;
  int instances_;
};

RankProgram copy_of_own_input(const Shape& shape) {
  PartBuilder alone(shape, 0, true);
  const int chunks = input_chunks(shape, 0);
  alone.local().copy(input(0, chunks), output(0, chunks));
  return std::move(alone).finish();
}

}  // namespace

Program assemble(Recipe recipe, int instances) {
  Program program;
  program.name = recipe.name;
  program.shape = recipe.shape;
  program.shape.chunks *= instances;
  program.in_place = recipe.in_place;
  program.one_sided = recipe.one_sided && recipe.shape.ranks > 1;
  if (recipe.shape.ranks == 1) {
    program.in_place = true;
    program.part = [shape = program.shape](int) { return copy_of_own_input(shape); };
    return program;
  }
  // Instances share out chunks in a way that does not move.
  if (instances == 1) program.likeness = recipe.likeness;
  program.part = [recipe = std::move(recipe), instances](int rank) {
    PartBuilder builder(recipe.shape, rank, recipe.in_place);
    recipe.emit(builder);
    RankProgram one = std::move(builder).finish();
    if (instances == 1) return one;
    return Replicator(recipe.shape, recipe.channels, instances).replicate(one);
  };
  return program;
}

}  // namespace tutti::generate
