#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "documents/xml_text.hpp"
#include "program/draw/show.hpp"
#include "program/formats/format_msccl.hpp"

namespace tutti {
namespace {

// What the runtimes' structures hold.
constexpr std::size_t kMaxName = 63;
constexpr int kMaxBlocks = 216;
constexpr int kMaxAwaitedBlock = 127;  // a dependency's block is an int8
constexpr std::size_t kMaxSteps = 256;
constexpr int kMaxCount = 71;
constexpr int kMaxChannels = 32;
constexpr std::size_t kMaxPeersOfChannel = 32;
constexpr int kMaxOffset = 32767;
constexpr std::uint64_t kUnlimitedBytes = std::uint64_t{1} << 40;  // where 0 does not mean it

struct XmlStep {
  std::string_view type;
  Cells source;
  Cells target;
  int count = 0;
  std::optional<Dependency> after;
  bool awaited = false;
};

tl::unexpected<Error> beyond(std::string message) { return fail(ErrorCode::unsupported, std::move(message)); }

Result<std::string_view> collective_name(Collective collective, MscclDialect dialect) {
  const bool executor = dialect == MscclDialect::executor;
  switch (collective) {
    case Collective::all_reduce:
      return "allreduce";
    case Collective::reduce:
      return "reduce";
    case Collective::broadcast:
      return "broadcast";
    case Collective::all_gather:
      return "allgather";
    case Collective::reduce_scatter:
      return executor ? "reducescatter" : "reduce_scatter";
    case Collective::all_to_all:
      return "alltoall";
    case Collective::gather:
    case Collective::scatter:
      if (executor) return collective == Collective::gather ? "gather" : "scatter";
      return beyond(fmt::format("MSCCL's first dialect has no {}; the executor's has", name_of(collective)));
    case Collective::barrier:
    case Collective::point_to_point:
      break;
  }
  return beyond(fmt::format("MSCCL files hold no {}", name_of(collective)));
}

/// Lowers one rank's part.
class RankWriter {
 public:
  RankWriter(const Shape& shape, const RankProgram& part, int rank) : shape_(shape), part_(part), rank_(rank) {}

  Status lower() {
    for (std::size_t w = 0; w < part_.workers.size(); ++w)
      for (std::size_t s = 0; s < part_.workers[w].steps.size(); ++s)
        if (Status status = check_dependencies(part_.workers[w].steps[s], static_cast<int>(w), s); !status)
          return status;
    last_.resize(part_.workers.size());
    blocks_.resize(part_.workers.size());
    for (std::size_t w = 0; w < part_.workers.size(); ++w)
      if (Status status = lower_worker(static_cast<int>(w)); !status) return status;
    if (Status status = resolve_dependencies(); !status) return status;
    return check_limits();
  }

  void write(std::string& out) const {
    for (std::size_t w = 0; w < blocks_.size(); ++w) {
      const Worker& worker = part_.workers[w];
      out += fmt::format("    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", w, worker.send_peer,
                         worker.recv_peer, worker.channel);
      for (std::size_t s = 0; s < blocks_[w].size(); ++s) write_step(blocks_[w][s], s, out);
      out += "    </tb>\n";
    }
  }

 private:
  std::string place(int worker, std::size_t step) const {
    return fmt::format("rank {} worker {} step {}", rank_, worker, step);
  }

  Status lower_worker(int w) {
    const Worker& worker = part_.workers[static_cast<std::size_t>(w)];
    std::vector<XmlStep>& block = blocks_[static_cast<std::size_t>(w)];
    std::map<int, int> pending;  // worker -> the latest of its steps to wait for, in the program's numbers
    for (std::size_t s = 0; s < worker.steps.size(); ++s) {
      const Step& step = worker.steps[s];
      collect(w, step, pending);
      if (step.kind != StepKind::nop) {
        // All but the last dependency go ahead as nops: the runtimes take the last from the step itself.
        for (auto at = pending.begin(); at != pending.end() && std::next(at) != pending.end(); ++at)
          block.push_back({"nop", {}, {}, 0, Dependency{at->first, at->second}});
        const std::size_t first = block.size();
        if (Status status = lower_step(step, w, s, block); !status) return status;
        if (!pending.empty()) block[first].after = Dependency{pending.rbegin()->first, pending.rbegin()->second};
        pending.clear();
      }
      last_[static_cast<std::size_t>(w)].push_back(static_cast<int>(block.size()) - 1);
    }
    return {};
  }

  /// A nop is no step that others can wait for: whoever waits for it waits for what it waits for, and for the step
  /// before it.
  void collect(int waiter, const Step& step, std::map<int, int>& pending) const {
    std::vector<Dependency> open = step.after;
    std::set<std::pair<int, int>> seen;
    while (!open.empty()) {
      const Dependency on = open.back();
      open.pop_back();
      if (on.worker == waiter || on.step < 0 || !seen.insert({on.worker, on.step}).second) continue;
      const Step& awaited =
          part_.workers.at(static_cast<std::size_t>(on.worker)).steps.at(static_cast<std::size_t>(on.step));
      if (awaited.kind == StepKind::nop) {
        open.insert(open.end(), awaited.after.begin(), awaited.after.end());
        open.push_back({on.worker, on.step - 1});
      } else {
        int& latest = pending.try_emplace(on.worker, on.step).first->second;
        latest = std::max(latest, on.step);
      }
    }
  }

  Status check_dependencies(const Step& step, int w, std::size_t s) const {
    for (const Dependency& on : step.after) {
      const auto worker = static_cast<std::size_t>(on.worker);
      if (worker >= part_.workers.size() || static_cast<std::size_t>(on.step) >= part_.workers[worker].steps.size())
        return fail(ErrorCode::invalid_argument,
                    fmt::format("{} waits for worker {} step {}, which is not there", place(w, s), on.worker, on.step));
      if (on.worker == w && static_cast<std::size_t>(on.step) >= s)
        return fail(ErrorCode::invalid_argument,
                    fmt::format("{} waits for itself or a later step of its worker", place(w, s)));
    }
    return {};
  }

  Status lower_step(const Step& step, int w, std::size_t s, std::vector<XmlStep>& block) const {
    const auto local = [](const Cells& cells) { return cells.rank == kSelf; };
    const bool own = std::all_of(step.sources.begin(), step.sources.end(), local) &&
                     std::all_of(step.targets.begin(), step.targets.end(), local);
    if (step.kind == StepKind::signal || step.kind == StepKind::wait)
      return beyond(fmt::format("step kinds only the native file can hold: {} at {}", name_of(step.kind), place(w, s)));
    if (!own)
      return beyond(
          fmt::format("only the native file can hold cells of other ranks: {} at {}", name_of(step.kind), place(w, s)));
    for (const auto* cells : {&step.sources, &step.targets})
      for (const Cells& cell : *cells)
        if (cell.first < 0 || cell.count < 1 || cell.first + cell.count > chunks_in(cell.buffer))
          return fail(ErrorCode::invalid_argument,
                      fmt::format("{} goes past the end of its buffer: {}", show_cells(cell), place(w, s)));
    if (step.kind == StepKind::reduce) return lower_reduce(step, w, s, block);
    static constexpr std::string_view kTypes[] = {"nop", "s", "r", "rrc", "rcs", "rrs", "rrcs", "cpy"};
    if (step.sources.empty() && step.targets.empty())
      return fail(ErrorCode::invalid_argument, fmt::format("{} without cells at {}", name_of(step.kind), place(w, s)));
    // Cells that only the peer knows are informational; the runtimes want them filled.
    const Cells& source = step.sources.empty() ? step.targets.front() : step.sources.front();
    const Cells& target = step.targets.empty() ? source : step.targets.front();
    return push(kTypes[static_cast<std::size_t>(step.kind)], source, target, block);
  }

  Status lower_reduce(const Step& step, int w, std::size_t s, std::vector<XmlStep>& block) const {
    if (step.targets.size() != 1 || step.sources.empty())
      return beyond(
          fmt::format("only the native file can hold a reduce into {} targets: {}", step.targets.size(), place(w, s)));
    const Cells& target = step.targets.front();
    const auto in_target = std::count(step.sources.begin(), step.sources.end(), target);
    for (const Cells& source : step.sources) {
      const bool apart = source.buffer != target.buffer || source.first + source.count <= target.first ||
                         target.first + target.count <= source.first;
      if (in_target > 1 || (!apart && source != target))
        return beyond(
            fmt::format("only the native file can hold a reduce whose target overlaps a source: {}", place(w, s)));
    }
    bool started = in_target == 1;
    for (const Cells& source : step.sources) {
      if (source == target) continue;
      if (Status status = push(started ? "re" : "cpy", source, target, block); !status) return status;
      started = true;
    }
    if (step.sources.size() == 1 && in_target == 1) return push("cpy", target, target, block);
    return {};
  }

  int chunks_in(Buffer buffer) const {
    if (buffer == Buffer::scratch) return part_.scratch_chunks;
    return buffer == Buffer::input ? input_chunks(shape_, rank_) : output_chunks(shape_, rank_);
  }

  static Status push(std::string_view type, Cells source, Cells target, std::vector<XmlStep>& block) {
    if (source.count != target.count)
      return fail(ErrorCode::invalid_argument,
                  fmt::format("{} of {} chunks into {}", type, source.count, target.count));
    for (int left = source.count; left > 0; left -= kMaxCount) {
      const int count = std::min(left, kMaxCount);
      block.push_back({type, source, target, count, std::nullopt});
      source.first += count;
      target.first += count;
    }
    return {};
  }

  /// From the program's step numbers to the file's.
  Status resolve_dependencies() {
    for (auto& block : blocks_) {
      for (XmlStep& step : block) {
        if (!step.after) continue;
        const int worker = step.after->worker;
        step.after->step = last_[static_cast<std::size_t>(worker)][static_cast<std::size_t>(step.after->step)];
        blocks_[static_cast<std::size_t>(worker)][static_cast<std::size_t>(step.after->step)].awaited = true;
        if (worker > kMaxAwaitedBlock)
          return beyond(fmt::format("rank {}: worker {} is waited for; MSCCL files allow it up to worker {}", rank_,
                                    worker, kMaxAwaitedBlock));
      }
    }
    return {};
  }

  Status check_limits() const {
    if (blocks_.size() > static_cast<std::size_t>(kMaxBlocks))
      return beyond(fmt::format("rank {} has {} workers; MSCCL files hold {}", rank_, blocks_.size(), kMaxBlocks));
    std::map<int, std::set<int>> to, from;
    if (part_.scratch_chunks > kMaxOffset)
      return beyond(
          fmt::format("rank {} has {} scratch chunks; MSCCL files hold {}", rank_, part_.scratch_chunks, kMaxOffset));
    for (std::size_t w = 0; w < blocks_.size(); ++w) {
      const Worker& worker = part_.workers[w];
      if (worker.send_peer == rank_ || worker.recv_peer == rank_)
        return beyond(fmt::format("rank {} worker {} is its own peer; MSCCL files hold no such transfers", rank_, w));
      if (blocks_[w].size() > kMaxSteps)
        return beyond(fmt::format("rank {} worker {} needs {} steps; MSCCL files hold {}", rank_, w, blocks_[w].size(),
                                  kMaxSteps));
      if (worker.channel >= kMaxChannels)
        return beyond(fmt::format("rank {} worker {} uses channel {}; MSCCL files hold {} channels", rank_, w,
                                  worker.channel, kMaxChannels));
      to[worker.channel].insert(worker.send_peer);
      from[worker.channel].insert(worker.recv_peer);
    }
    for (const auto* peers : {&to, &from})
      for (const auto& [channel, ranks] : *peers)
        if (ranks.size() - ranks.count(kNobody) > kMaxPeersOfChannel)
          return beyond(fmt::format("rank {} has {} peers on channel {}; MSCCL files hold {}", rank_, ranks.size(),
                                    channel, kMaxPeersOfChannel));
    return {};
  }

  static void write_step(const XmlStep& step, std::size_t number, std::string& out) {
    static constexpr std::string_view kBuffers = "ios";
    const bool nop = step.type == "nop";
    const Dependency after = step.after.value_or(Dependency{-1, -1});
    out += fmt::format(
        "      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" cnt=\"{}\" "
        "depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n",
        number, step.type, kBuffers[static_cast<std::size_t>(step.source.buffer)], nop ? -1 : step.source.first,
        kBuffers[static_cast<std::size_t>(nop ? Buffer::output : step.target.buffer)], nop ? -1 : step.target.first,
        step.count, after.worker, after.step, step.awaited ? 1 : 0);
  }

  const Shape& shape_;
  const RankProgram& part_;
  int rank_;
  std::vector<std::vector<XmlStep>> blocks_;
  std::vector<std::vector<int>> last_;  // worker, step of the program -> its last step in the file
};

int chunks_of_whole_buffer(const Shape& shape) {
  int whole = 0;
  for (int rank = 0; rank < shape.ranks; ++rank)
    whole = std::max({whole, input_chunks(shape, rank), output_chunks(shape, rank)});
  return whole;
}

std::string head_of(const Program& program, std::string_view collective, int channels, const MscclOptions& options) {
  const Shape& shape = program.shape;
  // The first dialect takes a missing limit for 128 MiB, and 0 for never.
  const std::uint64_t most =
      program.max_bytes == 0 && options.dialect == MscclDialect::msccl ? kUnlimitedBytes : program.max_bytes;
  std::string head = fmt::format(
      "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" coll=\"{}\" inplace=\"{}\" "
      "outofplace=\"{}\" minBytes=\"{}\" maxBytes=\"{}\"",
      escape_xml(program.name), options.protocol, channels, chunks_of_whole_buffer(shape), shape.ranks, collective,
      program.in_place ? 1 : 0, program.out_of_place ? 1 : 0, program.min_bytes, most);
  if (has_root(shape.collective)) head += fmt::format(" root=\"{}\"", shape.root);
  return head + ">\n";
}

}  // namespace

Result<std::string> save_msccl(const Program& program, const MscclOptions& options) {
  const Result<std::string_view> collective = collective_name(program.shape.collective, options.dialect);
  if (!collective) return tl::unexpected(collective.error());
  if (program.name.size() > kMaxName)
    return beyond(fmt::format("the name has {} characters; MSCCL files hold {}", program.name.size(), kMaxName));
  if (options.protocol != "Simple" && options.protocol != "LL" && options.protocol != "LL128")
    return fail(ErrorCode::invalid_argument,
                fmt::format("'{}' is no protocol; expected Simple, LL or LL128", options.protocol));
  if (const int whole = chunks_of_whole_buffer(program.shape); whole > kMaxOffset)
    return beyond(fmt::format("the buffer has {} chunks; MSCCL files hold {}", whole, kMaxOffset));
  std::string gpus;
  int channels = 1;
  for (int rank = 0; rank < program.shape.ranks; ++rank) {
    const RankProgram part = program.part(rank);
    RankWriter writer(program.shape, part, rank);
    if (Status status = writer.lower(); !status) return tl::unexpected(status.error());
    gpus += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", rank,
                        input_chunks(program.shape, rank), output_chunks(program.shape, rank), part.scratch_chunks);
    writer.write(gpus);
    gpus += "  </gpu>\n";
    for (const Worker& worker : part.workers) channels = std::max(channels, worker.channel + 1);
  }
  return head_of(program, *collective, channels, options) + gpus + "</algo>\n";
}

}  // namespace tutti
