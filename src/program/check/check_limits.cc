// The rule `limits`.
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "program/check/check_parts.hpp"
#include "program/translated_parts.hpp"

namespace tutti::checking {
namespace {

using Found = std::optional<Violation>;

Violation out_of_limits(StepPosition place, std::string message) {
  return broken(Violation::Rule::limits, place, std::move(message));
}

Violation too_large(StepPosition place, std::string message) {
  Violation violation = out_of_limits(place, std::move(message));
  violation.too_large = true;
  return violation;
}

constexpr int kMany = std::numeric_limits<int>::max();

struct Arity {
  int min_sources, max_sources, min_targets, max_targets;
};

constexpr Arity kArities[] = {
    {0, 0, 0, 0},          // nop
    {1, 1, 0, 0},          // send
    {0, 0, 1, 1},          // recv
    {1, 1, 1, 1},          // recv_reduce
    {0, 0, 1, 1},          // recv_copy_send
    {1, 1, 0, 0},          // recv_reduce_send
    {1, 1, 1, 1},          // recv_reduce_copy_send
    {1, 1, 1, 1},          // copy
    {1, kMany, 1, kMany},  // reduce
    {0, 0, 0, 0},          // signal
    {0, 0, 0, 0},          // wait
};

std::string expected_number(int low, int high) {
  return high == kMany ? fmt::format("at least {}", low) : fmt::format("{}", low);
}

/// Looks through the parts once all of them are at hand, since cells may lie on other ranks.
class Limits {
 public:
  Limits(const Program& program, const ProgramParts& parts, const CheckOptions& options)
      : program_(program), parts_(parts), options_(options) {}

  Found check() {
    for (const int rank : parts_.orbits.representatives()) {
      const RankProgram& part = parts_.part_of(rank);
      for (std::size_t worker = 0; worker < part.workers.size(); ++worker) {
        place_ = {rank, static_cast<int>(worker), -1};
        if (Found found = check_worker(part, part.workers[worker])) return found;
      }
    }
    return std::nullopt;
  }

 private:
  Violation here(std::string message) const { return out_of_limits(place_, std::move(message)); }

  Found check_worker(const RankProgram& part, const Worker& worker) {
    if (worker.channel < 0 || worker.channel >= options_.max_channels)
      return here(fmt::format("channel {} is not within 0 to {}", worker.channel, options_.max_channels - 1));
    if (worker.send_peer != kNobody)
      if (Found found = check_peer(worker.send_peer, "the rank it sends to")) return found;
    if (worker.recv_peer != kNobody)
      if (Found found = check_peer(worker.recv_peer, "the rank it receives from")) return found;
    if (worker.steps.size() > static_cast<std::size_t>(options_.max_steps))
      return here(fmt::format("{} steps are more than the limit of {}", worker.steps.size(), options_.max_steps));
    for (std::size_t step = 0; step < worker.steps.size(); ++step) {
      place_.step = static_cast<int>(step);
      if (Found found = check_step(part, worker, worker.steps[step])) return found;
    }
    return std::nullopt;
  }

  Found check_peer(int peer, const char* role) const {
    if (peer < 0 || peer >= parts_.shape.ranks)
      return here(fmt::format("{} is {}, but ranks go from 0 to {}", role, peer, parts_.shape.ranks - 1));
    if (peer == place_.rank) return here(fmt::format("{} is the rank itself", role));
    return std::nullopt;
  }

  Found check_step(const RankProgram& part, const Worker& worker, const Step& step) {
    if (static_cast<std::size_t>(step.kind) >= std::size(kArities))
      return here(fmt::format("step kind {} is unknown", static_cast<int>(step.kind)));
    if (Found found = check_peers(worker, step)) return found;
    if (Found found = check_arity(step)) return found;
    for (const Cells& cells : step.sources)
      if (Found found = check_cells(step, cells)) return found;
    for (const Cells& cells : step.targets)
      if (Found found = check_cells(step, cells)) return found;
    if (Found found = check_counts(step)) return found;
    for (const Dependency& dependency : step.after)
      if (Found found = check_dependency(part, dependency)) return found;
    return std::nullopt;
  }

  Found check_peers(const Worker& worker, const Step& step) const {
    const bool notifies = step.kind == StepKind::signal || step.kind == StepKind::wait;
    if (sends(step.kind) && worker.send_peer == kNobody)
      return here(fmt::format("a {}, but the worker has no rank to send to", name_of(step.kind)));
    if (receives(step.kind) && worker.recv_peer == kNobody)
      return here(fmt::format("a {}, but the worker has no rank to receive from", name_of(step.kind)));
    if (!notifies && step.peer != kNobody)
      return here(fmt::format("a {} names peer {}; only signal and wait name one", name_of(step.kind), step.peer));
    if (step.local_first && !(receives(step.kind) && reduces(step.kind)))
      return here(fmt::format("a {} is local_first, which means something only where a received operand is reduced",
                              name_of(step.kind)));
    if (!notifies) return std::nullopt;
    if (!program_.one_sided)
      return here(fmt::format("a {}, but the program does not say that it is one-sided", name_of(step.kind)));
    return check_peer(step.peer, step.kind == StepKind::signal ? "the rank it signals" : "the rank it waits for");
  }

  Found check_arity(const Step& step) const {
    const Arity& arity = kArities[static_cast<std::size_t>(step.kind)];
    const auto sources = static_cast<int>(step.sources.size());
    const auto targets = static_cast<int>(step.targets.size());
    if (sources < arity.min_sources || sources > arity.max_sources)
      return here(fmt::format("a {} has {} sources, expected {}", name_of(step.kind), sources,
                              expected_number(arity.min_sources, arity.max_sources)));
    if (targets < arity.min_targets || targets > arity.max_targets)
      return here(fmt::format("a {} has {} targets, expected {}", name_of(step.kind), targets,
                              expected_number(arity.min_targets, arity.max_targets)));
    return std::nullopt;
  }

  Found check_cells(const Step& step, const Cells& cells) const {
    if (cells.rank != kSelf && (cells.rank < 0 || cells.rank >= parts_.shape.ranks))
      return here(
          fmt::format("names a cell of rank {}, but ranks go from 0 to {}", cells.rank, parts_.shape.ranks - 1));
    if (static_cast<int>(cells.buffer) > static_cast<int>(Buffer::scratch))
      return here(fmt::format("buffer {} is unknown", static_cast<int>(cells.buffer)));
    const bool remote = cells.rank != kSelf && cells.rank != place_.rank;
    if (remote && step.kind != StepKind::copy && step.kind != StepKind::reduce)
      return here(fmt::format("a {} names {}; only copy and reduce touch other ranks' cells", name_of(step.kind),
                              describe(cells, 0, place_.rank)));
    if (remote && !program_.one_sided)
      return here(
          fmt::format("names {}, but the program does not say that it is one-sided", describe(cells, 0, place_.rank)));
    const int owner = remote ? cells.rank : place_.rank;
    if (cells.count < 1) return here(fmt::format("{} chunks of a cell; at least 1 is expected", cells.count));
    const int held = chunks_of(owner, cells.buffer);
    if (cells.first < 0 || cells.first > held - cells.count)
      return here(fmt::format("names {}{}, but there are {} chunks", describe(cells, 0, place_.rank),
                              cells.count > 1 ? fmt::format(" and {} more", cells.count - 1) : "", held));
    return std::nullopt;
  }

  int chunks_of(int rank, Buffer buffer) const {
    switch (buffer) {
      case Buffer::input:
        return input_chunks(parts_.shape, rank);
      case Buffer::output:
        return output_chunks(parts_.shape, rank);
      default:
        return parts_.part_of(rank).scratch_chunks;
    }
  }

  Found check_counts(const Step& step) {
    const int count = !step.sources.empty() ? step.sources[0].count : !step.targets.empty() ? step.targets[0].count : 1;
    for (const auto* side : {&step.sources, &step.targets})
      for (const Cells& cells : *side)
        if (cells.count != count)
          return here(fmt::format("names {} chunks at {}, but {} at its first cell", cells.count,
                                  describe(cells, 0, place_.rank), count));
    chunks_moved_ += count;
    if (chunks_moved_ > options_.max_cells)
      return too_large(place_, fmt::format("the program's steps translation more than {} chunks", options_.max_cells));
    return std::nullopt;
  }

  Found check_dependency(const RankProgram& part, const Dependency& dependency) const {
    if (dependency.worker < 0 || static_cast<std::size_t>(dependency.worker) >= part.workers.size())
      return here(
          fmt::format("comes after worker {}, but the rank has {} workers", dependency.worker, part.workers.size()));
    const std::size_t steps = part.workers[static_cast<std::size_t>(dependency.worker)].steps.size();
    if (dependency.step < 0 || static_cast<std::size_t>(dependency.step) >= steps)
      return here(fmt::format("comes after worker {} step {}, but that worker has {} steps", dependency.worker,
                              dependency.step, steps));
    if (dependency.worker == place_.worker && dependency.step >= place_.step)
      return here(fmt::format("comes after step {} of its own worker, which runs no earlier", dependency.step));
    return std::nullopt;
  }

  const Program& program_;
  const ProgramParts& parts_;
  const CheckOptions& options_;
  StepPosition place_;
  std::int64_t chunks_moved_ = 0;
};

/// `share`: one in so many ranks is looked at.
Found check_shape(const Program& program, const CheckOptions& options, int share) {
  const Shape& shape = program.shape;
  const StepPosition whole;
  if (options.slots < 1) return out_of_limits(whole, fmt::format("{} slots; a channel has at least 1", options.slots));
  if (static_cast<int>(shape.collective) >= kCollectives)
    return out_of_limits(whole, fmt::format("collective {} is unknown", static_cast<int>(shape.collective)));
  if (shape.ranks < 1) return out_of_limits(whole, fmt::format("{} ranks; at least 1 is expected", shape.ranks));
  if (shape.chunks < 1) return out_of_limits(whole, fmt::format("{} chunks; at least 1 is expected", shape.chunks));
  if (shape.collective == Collective::point_to_point && shape.ranks != 2)
    return out_of_limits(whole, fmt::format("{} ranks; point_to_point has 2", shape.ranks));
  if (has_root(shape.collective) && (shape.root < 0 || shape.root >= shape.ranks))
    return out_of_limits(whole, fmt::format("root {} is not within 0 to {}", shape.root, shape.ranks - 1));
  if (!program.in_place && !program.out_of_place)
    return out_of_limits(whole, "the program allows neither in place nor out of place");
  if (!program.part) return out_of_limits(whole, "the program has no parts");
  // In floating point: the product of three file-given numbers may leave any integer.
  const double all_blocks = static_cast<double>(shape.ranks) * shape.ranks * shape.chunks;
  const bool blocks_everywhere = shape.collective == Collective::all_gather ||
                                 shape.collective == Collective::reduce_scatter ||
                                 shape.collective == Collective::all_to_all;
  const double cells = (blocks_everywhere ? all_blocks : static_cast<double>(shape.ranks) * shape.chunks) / share;
  if (cells > static_cast<double>(options.max_cells))
    return too_large(whole, fmt::format("{} ranks with {} chunks make more than {} cells", shape.ranks, shape.chunks,
                                        options.max_cells));
  return std::nullopt;
}

Found check_part_sizes(const RankProgram& part, int rank, std::int64_t& scratch, const CheckOptions& options) {
  const StepPosition place{rank, -1, -1};
  if (part.scratch_chunks < 0)
    return out_of_limits(place, fmt::format("{} scratch chunks; at least 0 is expected", part.scratch_chunks));
  scratch += part.scratch_chunks;
  if (scratch > options.max_cells)
    return too_large(place, fmt::format("scratch of ranks 0 to {} has more than {} cells", rank, options.max_cells));
  if (part.workers.size() > static_cast<std::size_t>(options.max_workers))
    return out_of_limits(
        place, fmt::format("{} workers are more than the limit of {}", part.workers.size(), options.max_workers));
  return std::nullopt;
}

}  // namespace

Checked<ProgramParts> gather_parts(const Program& program, const CheckOptions& options, const Translations& symmetry) {
  if (Found found = check_shape(program, options, symmetry.order())) return tl::unexpected(*std::move(found));
  ProgramParts parts;
  parts.shape = program.shape;
  parts.one_sided = program.one_sided;
  parts.orbits = Orbits(symmetry, program.shape);
  std::int64_t scratch = 0;
  for (const int rank : parts.orbits.representatives()) {
    parts.first_worker.push_back(static_cast<int>(parts.workers.size()));
    parts.ranks.push_back(program.part(rank));
    if (Found found = check_part_sizes(parts.ranks.back(), rank, scratch, options))
      return tl::unexpected(*std::move(found));
    const auto workers = static_cast<int>(parts.ranks.back().workers.size());
    for (int worker = 0; worker < workers; ++worker) parts.workers.push_back({rank, worker});
  }
  if (Found found = Limits(program, parts, options).check()) return tl::unexpected(*std::move(found));
  for (const int representative : parts.orbits.representatives())
    if (parts.orbits.translations() > 1)
      if (const Status movable = check_translatable(parts.part_of(representative), parts.shape, symmetry); !movable)
        return tl::unexpected(out_of_limits({representative, -1, -1}, movable.error().message));
  return parts;
}

}  // namespace tutti::checking
