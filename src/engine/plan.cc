#include "engine/plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace tutti {
namespace {

/// A chunk of this rank's own memory; input and output are one where the call is in place.
using OwnChunk = std::tuple<int, int>;

class Compiler {
 public:
  Compiler(const Program& program, int rank, bool in_place, Links& links, const std::vector<int>& ranks)
      : program_(program), part_(program.part(rank)), rank_(rank), in_place_(in_place), links_(links), ranks_(ranks) {}

  Result<std::unique_ptr<Plan>> run() {
    auto plan = std::make_unique<Plan>();
    plan->name = program_.name;
    plan->shape = program_.shape;
    plan->rank = rank_;
    plan->link_window = links_.window();
    plan->one_sided = program_.one_sided;
    plan->scratch_chunks = part_.scratch_chunks;
    for (int peer = 0; program_.one_sided && peer < program_.shape.ranks; ++peer) {
      const RankProgram part = program_.part(peer);
      plan->stage_chunks = std::max(plan->stage_chunks, part.scratch_chunks);
      plan->all_hear = plan->all_hear && hears_all(part, peer, program_.shape.ranks);
    }
    plan->scratch_like.assign(static_cast<std::size_t>(part_.scratch_chunks), Cells{kSelf, Buffer::input, 0, 0});
    for (const Worker& worker : part_.workers) {
      Result<PlanWorker> ready = resolve(worker);
      if (!ready) return tl::unexpected(ready.error());
      plan->workers.push_back(std::move(*ready));
    }
    for (PlanWorker& worker : plan->workers) worker_cells_to_ranks(worker, *plan);
    add_guards(*plan);
    while (size_scratch(*plan)) {
    }
    for_each_step(*plan, [&](int, int, PlanStep& ready) {
      ready.conditional =
          plan->one_sided || ready.forwards_unstored || !ready.step.after.empty() || !ready.guards.empty();
      ready.first_chunk = plan->chunks;
      for (const auto* cells : {&ready.step.sources, &ready.step.targets})
        for (const Cells& cell : *cells) plan->chunks += cell.count;
    });
    return plan;
  }

 private:
  int communicator_rank(int rank) const {
    return ranks_.empty() || rank < 0 ? rank : ranks_[static_cast<std::size_t>(rank)];
  }

  Result<PlanWorker> resolve(const Worker& worker) {
    PlanWorker ready;
    ready.channel = worker.channel;
    ready.send_rank = communicator_rank(worker.send_peer);
    ready.recv_rank = communicator_rank(worker.recv_peer);
    if (ready.send_rank != kNobody) {
      Result<SendLink*> link = links_.send_link(ready.send_rank, worker.channel);
      if (!link) return tl::unexpected(link.error());
      ready.send = *link;
    }
    if (ready.recv_rank != kNobody) {
      Result<RecvLink*> link = links_.recv_link(ready.recv_rank, worker.channel);
      if (!link) return tl::unexpected(link.error());
      ready.recv = *link;
    }
    for (const Step& step : worker.steps) {
      PlanStep& added = ready.steps.emplace_back();
      added.step = step;
      added.copies = added.forwards_unstored = receives(step.kind) && sends(step.kind) && step.targets.empty();
    }
    return ready;
  }

  /// Cells of this rank by number become kSelf; others are collected as touched. A rank that is only waited for may
  /// have left the operation, and its entry with it, before we look.
  void worker_cells_to_ranks(PlanWorker& worker, Plan& plan) const {
    std::set<int> touched(plan.touched.begin(), plan.touched.end());
    std::set<int> neighbours(plan.neighbours.begin(), plan.neighbours.end());
    for (PlanStep& ready : worker.steps) {
      for (auto* cells : {&ready.step.sources, &ready.step.targets})
        for (Cells& cell : *cells) {
          if (cell.rank == rank_) cell.rank = kSelf;
          if (cell.rank == kSelf) continue;
          touched.insert(cell.rank);
          plan.reaches |= cell.buffer != Buffer::scratch;
        }
      ready.pushes = std::any_of(ready.step.targets.begin(), ready.step.targets.end(), [](const Cells& cell) {
        return cell.rank != kSelf && cell.buffer != Buffer::scratch;
      });
      if (ready.step.peer != kNobody) neighbours.insert(ready.step.peer);
    }
    neighbours.insert(touched.begin(), touched.end());
    plan.touched.assign(touched.begin(), touched.end());
    plan.neighbours.assign(neighbours.begin(), neighbours.end());
  }

  OwnChunk own_chunk(Buffer buffer, int chunk) const {
    if (in_place_ && buffer != Buffer::scratch) return aliased(buffer, chunk);
    return {static_cast<int>(buffer), chunk};
  }

  /// In place, input and output are the same bytes; blocks collectives have one of them inside the other.
  OwnChunk aliased(Buffer buffer, int chunk) const {
    const Shape& shape = program_.shape;
    const bool gathers = shape.collective == Collective::all_gather || shape.collective == Collective::gather;
    const bool scatters = shape.collective == Collective::reduce_scatter || shape.collective == Collective::scatter;
    const bool inner = (gathers && buffer == Buffer::input) || (scatters && buffer == Buffer::output);
    return {static_cast<int>(Buffer::output), inner ? rank_ * shape.chunks + chunk : chunk};
  }

  template <typename Visit>
  void each_own(const std::vector<Cells>& cells, Visit visit) const {
    for (const Cells& cell : cells)
      if (cell.rank == kSelf)
        for (int i = 0; i < cell.count; ++i) visit(own_chunk(cell.buffer, cell.first + i));
  }

  void add_guards(Plan& plan) const {
    std::map<OwnChunk, std::vector<Dependency>> sent;
    for_each_step(plan, [&](int worker, int index, PlanStep& ready) {
      if (!sends(ready.step.kind)) return;
      // What is forwarded lies in the target, where it is stored.
      const auto& memory = ready.step.kind == StepKind::send ? ready.step.sources : ready.step.targets;
      each_own(memory, [&](OwnChunk chunk) { sent[chunk].push_back({worker, index}); });
    });
    for_each_step(plan, [&](int worker, int index, PlanStep& ready) {
      each_own(ready.step.targets, [&](OwnChunk chunk) {
        const auto found = sent.find(chunk);
        if (found == sent.end()) return;
        for (const Dependency& by : found->second)
          if (by != Dependency{worker, index} &&
              std::find(ready.guards.begin(), ready.guards.end(), by) == ready.guards.end())
            ready.guards.push_back(by);
      });
      for (const Dependency& by : ready.guards)
        plan.workers[static_cast<std::size_t>(by.worker)].steps[static_cast<std::size_t>(by.step)].copies = true;
    });
  }

  /// A scratch chunk is as large as the input or output chunk it meets in some step; spread that by one round.
  bool size_scratch(Plan& plan) const {
    bool learned = false;
    for_each_step(plan, [&](int, int, PlanStep& ready) {
      int chunks = 0;
      for (const auto* cells : {&ready.step.sources, &ready.step.targets})
        for (const Cells& cell : *cells) chunks = std::max(chunks, cell.count);
      for (int index = 0; index < chunks; ++index)
        if (size_scratch_of(plan, ready.step, index)) learned = true;
    });
    return learned;
  }

  /// The same for the chunks that one step takes in hand together: the index-th of each of its cells.
  static bool size_scratch_of(Plan& plan, const Step& step, int index) {
    Cells size{kSelf, Buffer::input, 0, 0};
    std::vector<Cells*> unknown;
    for (const auto* cells : {&step.sources, &step.targets})
      for (const Cells& cell : *cells) {
        if (index >= cell.count) continue;
        const int chunk = cell.first + index;
        if (cell.buffer != Buffer::scratch) {
          size = Cells{cell.rank, cell.buffer, chunk, 1};
        } else if (cell.rank == kSelf) {
          Cells& like = plan.scratch_like[static_cast<std::size_t>(chunk)];
          if (like.count > 0)
            size = like;
          else
            unknown.push_back(&like);
        }
      }
    if (size.count == 0) return false;
    for (Cells* const like : unknown) *like = size;
    return !unknown.empty();
  }

  template <typename Visit>
  static void for_each_step(Plan& plan, Visit visit) {
    for (std::size_t worker = 0; worker < plan.workers.size(); ++worker)
      for (std::size_t index = 0; index < plan.workers[worker].steps.size(); ++index)
        visit(static_cast<int>(worker), static_cast<int>(index), plan.workers[worker].steps[index]);
  }

  const Program& program_;
  RankProgram part_;
  int rank_;
  bool in_place_;
  Links& links_;
  const std::vector<int>& ranks_;
};

}  // namespace

bool Plan::fits_uneven() const {
  return std::all_of(scratch_like.begin(), scratch_like.end(), [](const Cells& like) { return like.count > 0; });
}

Result<std::unique_ptr<Plan>> compile(const Program& program, int rank, bool in_place, Links& links,
                                      const std::vector<int>& ranks) {
  return Compiler(program, rank, in_place, links, ranks).run();
}

}  // namespace tutti
