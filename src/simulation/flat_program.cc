#include "simulation/flat_program.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>

namespace tutti::simulation {
namespace {

/// One worker's end of a channel.
struct ChannelEnd {
  int from = 0;
  int to = 0;
  int number = 0;
  bool sends = false;
  std::uint32_t worker = 0;
};

bool same_channel(const ChannelEnd& one, const ChannelEnd& other) {
  return std::tie(one.from, one.to, one.number) == std::tie(other.from, other.to, other.number);
}

class Flattener {
 public:
  Flattener(const Program& program, Routes& routes) : program_(program), routes_(routes) {}

  Result<FlatProgram> run() {
    if (program_.one_sided)
      return fail(ErrorCode::unsupported,
                  fmt::format("program {} is one-sided: it needs all ranks on one host, and no network to simulate",
                              program_.name));
    for (int rank = 0; rank < program_.shape.ranks; ++rank)
      if (const Status added = add_part(rank, program_.part(rank)); !added) return tl::unexpected(added.error());
    flat_.steps.push_back({.first_dependency = static_cast<std::uint32_t>(flat_.dependencies.size())});
    if (const Status connected = connect(); !connected) return tl::unexpected(connected.error());
    return std::move(flat_);
  }

 private:
  tl::unexpected<Error> wrong(int rank, std::size_t worker, std::size_t step, const std::string& what) const {
    return fail(ErrorCode::invalid_argument,
                fmt::format("program {}: rank {}, worker {}, step {}: {}", program_.name, rank, worker, step, what));
  }

  Status add_part(int rank, const RankProgram& part) {
    std::size_t steps = flat_.steps.size();
    for (const Worker& worker : part.workers) steps += worker.steps.size();
    if (steps >= std::numeric_limits<std::uint32_t>::max())
      return fail(ErrorCode::unsupported, fmt::format("program {} has more than 2^32 steps", program_.name));
    first_worker_ = flat_.workers.size();
    std::uint32_t first_step = static_cast<std::uint32_t>(flat_.steps.size());
    for (std::size_t index = 0; index < part.workers.size(); ++index) {
      const auto count = static_cast<std::uint32_t>(part.workers[index].steps.size());
      flat_.workers.push_back(
          {.first_step = first_step, .steps = count, .rank = rank, .index = static_cast<std::int32_t>(index)});
      first_step += count;
    }
    for (std::size_t index = 0; index < part.workers.size(); ++index)
      if (Status added = add_worker(rank, part, index); !added) return added;
    return {};
  }

  Status add_worker(int rank, const RankProgram& part, std::size_t index) {
    const Worker& worker = part.workers[index];
    bool sends_some = false, receives_some = false;
    for (std::size_t at = 0; at < worker.steps.size(); ++at) {
      const Step& step = worker.steps[at];
      if (Status added = add_step(rank, part, index, at); !added) return added;
      sends_some |= sends(step.kind);
      receives_some |= receives(step.kind);
    }
    const auto known = [&](int peer) { return peer >= 0 && peer < program_.shape.ranks && peer != rank; };
    if ((sends_some && !known(worker.send_peer)) || (receives_some && !known(worker.recv_peer)))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("program {}: rank {}, worker {} sends to {} and receives from {}; expected other ranks",
                              program_.name, rank, index, worker.send_peer, worker.recv_peer));
    const auto flat_index = static_cast<std::uint32_t>(first_worker_ + index);
    if (sends_some) ends_.push_back({rank, worker.send_peer, worker.channel, true, flat_index});
    if (receives_some) ends_.push_back({worker.recv_peer, rank, worker.channel, false, flat_index});
    return {};
  }

  Status add_step(int rank, const RankProgram& part, std::size_t worker, std::size_t at) {
    const Step& step = part.workers[worker].steps[at];
    const auto foreign = [&](const Cells& cells) { return cells.rank != kSelf && cells.rank != rank; };
    if (step.kind == StepKind::signal || step.kind == StepKind::wait ||
        std::any_of(step.sources.begin(), step.sources.end(), foreign) ||
        std::any_of(step.targets.begin(), step.targets.end(), foreign))
      return wrong(rank, worker, at, "a one-sided step has no network to simulate");
    FlatStep flat;
    flat.kind = step.kind;
    flat.first_dependency = static_cast<std::uint32_t>(flat_.dependencies.size());
    if (step.kind != StepKind::nop) {
      const std::vector<Cells>& moved = step.targets.empty() ? step.sources : step.targets;
      if (moved.empty() || moved[0].count < 0) return wrong(rank, worker, at, "names no cells");
      flat.chunks = static_cast<std::uint32_t>(moved[0].count);
    }
    if (step.kind == StepKind::reduce)
      flat.passes = static_cast<std::uint8_t>(std::clamp<std::size_t>(step.sources.size(), 2, 255) - 1);
    else if (reduces(step.kind) || step.kind == StepKind::copy)
      flat.passes = 1;
    for (const Dependency& needed : step.after) {
      if (needed.worker < 0 || static_cast<std::size_t>(needed.worker) >= part.workers.size() || needed.step < 0 ||
          static_cast<std::size_t>(needed.step) >= part.workers[static_cast<std::size_t>(needed.worker)].steps.size())
        return wrong(rank, worker, at, fmt::format("waits for worker {}, step {}: none", needed.worker, needed.step));
      const std::size_t other = first_worker_ + static_cast<std::size_t>(needed.worker);
      flat_.dependencies.push_back({static_cast<std::uint32_t>(other),
                                    flat_.workers[other].first_step + static_cast<std::uint32_t>(needed.step)});
    }
    flat_.steps.push_back(flat);
    return {};
  }

  /// Ends that name the same channel become one.
  Status connect() {
    std::sort(ends_.begin(), ends_.end(), [](const ChannelEnd& a, const ChannelEnd& b) {
      return std::tie(a.from, a.to, a.number, a.sends, a.worker) < std::tie(b.from, b.to, b.number, b.sends, b.worker);
    });
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      const ChannelEnd& end = ends_[i];
      const bool follows = i > 0 && same_channel(ends_[i - 1], end);
      if (follows && ends_[i - 1].sends == end.sends)
        return fail(ErrorCode::invalid_argument,
                    fmt::format("program {}: two workers {} from rank {} to rank {} on channel {}", program_.name,
                                end.sends ? "send" : "receive", end.from, end.to, end.number));
      if (!follows) flat_.channels.push_back({.from = end.from, .to = end.to, .number = end.number});
      const auto channel = static_cast<std::int32_t>(flat_.channels.size() - 1);
      FlatWorker& worker = flat_.workers[end.worker];
      (end.sends ? worker.sends_on : worker.receives_on) = channel;
      if (end.sends)
        if (Status routed = route(flat_.channels.back()); !routed) return routed;
    }
    return {};
  }

  Status route(FlatChannel& channel) {
    const std::vector<int> links = routes_.links(channel.from, channel.to, channel.number);
    if (links.empty())
      return fail(ErrorCode::unsupported,
                  fmt::format("program {}: rank {} sends to rank {}, but {} has no route from {} to {} that passes "
                              "through no other GPU",
                              program_.name, channel.from, channel.to, routes_.topology().name(), gpu_of(channel.from),
                              gpu_of(channel.to)));
    channel.first_link = static_cast<std::uint32_t>(flat_.links.size());
    channel.links = static_cast<std::uint32_t>(links.size());
    flat_.links.insert(flat_.links.end(), links.begin(), links.end());
    return {};
  }

  const std::string& gpu_of(int rank) const { return routes_.topology().vertex(routes_.topology().gpu(rank)).name; }

  const Program& program_;
  Routes& routes_;
  FlatProgram flat_;
  std::vector<ChannelEnd> ends_;
  std::size_t first_worker_ = 0;  // of the rank being added
};

}  // namespace

Result<FlatProgram> flatten(const Program& program, Routes& routes) { return Flattener(program, routes).run(); }

}  // namespace tutti::simulation
