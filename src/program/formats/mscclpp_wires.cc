#include "program/formats/mscclpp_wires.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "program/check/check_cells.hpp"

namespace tutti::mscclpp {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Chunks that a step passes to or takes from its peer.
int chunks_moved(const Step& step) { return step.targets.empty() ? step.sources[0].count : step.targets[0].count; }

}  // namespace

Result<WireTable> WireTable::of(const checking::ProgramParts& parts, const MscclppOptions& options) {
  WireTable wiring;
  wiring.number_steps(parts);
  wiring.connect(parts, options);
  if (const Status status = wiring.order(parts, options.landing_cells); !status) return tl::unexpected(status.error());
  wiring.choose_landings(parts, options);
  return wiring;
}

void WireTable::number_steps(const checking::ProgramParts& parts) {
  for (int worker = 0; worker < static_cast<int>(parts.workers.size()); ++worker) {
    first_step_.push_back(static_cast<int>(steps_.size()));
    for (const Step& step : parts.worker(worker).steps) {
      steps_.push_back(&step);
      rank_of_step_.push_back(parts.rank_of(worker));
    }
  }
  of_step_.resize(steps_.size());
}

int WireTable::wire_between(int source, int target, int channel, const MscclppOptions& options) {
  const auto [found, is_new] = by_ends_.try_emplace({source, target, channel}, static_cast<int>(wires_.size()));
  if (is_new) {
    const auto& nodes = options.node_of_rank;
    const bool together = nodes.empty() || nodes[at(source)] == nodes[at(target)];
    wires_.push_back({{source, target, channel, together ? Medium::memory : Medium::port}, {}, {}, {}, 0, 0, 0, 0});
  }
  return found->second;
}

void WireTable::connect(const checking::ProgramParts& parts, const MscclppOptions& options) {
  for (int w = 0; w < static_cast<int>(parts.workers.size()); ++w) {
    const Worker& worker = parts.worker(w);
    const int rank = parts.rank_of(w);
    for (int s = 0; s < static_cast<int>(worker.steps.size()); ++s) {
      const int number = step_number(w, s);
      StepWires& ends = of_step_[at(number)];
      if (sends(worker.steps[at(s)].kind)) {
        ends.send = wire_between(rank, worker.send_peer, worker.channel, options);
        ends.send_index = static_cast<int>(wires_[at(ends.send)].sends.size());
        wires_[at(ends.send)].sends.push_back(number);
      }
      if (receives(worker.steps[at(s)].kind)) {
        ends.receive = wire_between(worker.recv_peer, rank, worker.channel, options);
        ends.receive_index = static_cast<int>(wires_[at(ends.receive)].receives.size());
        wires_[at(ends.receive)].receives.push_back(number);
      }
    }
  }
}

/// Steps happen after the one before them, after those they name, a receive after its send, and a send after the
/// receive that left it a cell.
Status WireTable::order(const checking::ProgramParts& parts, int landing_cells) {
  std::vector<std::vector<int>> followers(steps_.size());
  std::vector<int> missing(steps_.size());
  const auto add = [&](int first, int then) {
    followers[at(first)].push_back(then);
    ++missing[at(then)];
  };
  for (int w = 0; w < static_cast<int>(parts.workers.size()); ++w) {
    const int first_of_rank = parts.first_worker[at(parts.rank_of(w))];
    for (int s = 0; s < static_cast<int>(parts.worker(w).steps.size()); ++s) {
      if (s > 0) add(step_number(w, s - 1), step_number(w, s));
      for (const Dependency& on : parts.worker(w).steps[at(s)].after)
        add(step_number(first_of_rank + on.worker, on.step), step_number(w, s));
    }
  }
  for (const Wire& wire : wires_)
    for (std::size_t i = 0; i < wire.sends.size(); ++i) {
      add(wire.sends[i], wire.receives[i]);
      if (i >= at(landing_cells)) add(wire.receives[i - at(landing_cells)], wire.sends[i]);
    }
  std::deque<int> ready;
  for (int step = 0; step < static_cast<int>(steps_.size()); ++step)
    if (missing[at(step)] == 0) ready.push_back(step);
  position_.assign(steps_.size(), kNone);
  int next = 0;
  for (; !ready.empty(); ready.pop_front()) {
    position_[at(ready.front())] = next++;
    for (const int follower : followers[at(ready.front())])
      if (--missing[at(follower)] == 0) ready.push_back(follower);
  }
  if (next == static_cast<int>(steps_.size())) return {};
  return fail(ErrorCode::unsupported, fmt::format("the program deadlocks where senders are at most {} steps ahead of "
                                                  "their receivers, as landing cells allow",
                                                  landing_cells));
}

/// A receive goes straight to its place if it is the first step to touch it.
void WireTable::choose_landings(const checking::ProgramParts& parts, const MscclppOptions& options) {
  using checking::Placement;
  const checking::CellMap cells(parts, options.in_place ? Placement::in_place : Placement::out_of_place);
  std::vector<int> first_touch(at(cells.size()), std::numeric_limits<int>::max());
  const auto touch = [&](int number, const Cells& touched) {
    const int first = cells.first_cell(rank_of_step_[at(number)], touched);
    for (int i = 0; i < touched.count; ++i)
      first_touch[at(first + i)] = std::min(first_touch[at(first + i)], position(number));
  };
  for (int number = 0; number < static_cast<int>(steps_.size()); ++number) {
    if (cells.moves_onto_itself(rank_of_step_[at(number)], step(number))) continue;
    for (const Cells& source : step(number).sources) touch(number, source);
    for (const Cells& target : step(number).targets) touch(number, target);
  }
  const auto goes_straight = [&](int number) {
    if (step(number).kind != StepKind::recv && step(number).kind != StepKind::recv_copy_send) return false;
    const Cells& target = step(number).targets[0];
    const int first = cells.first_cell(rank_of_step_[at(number)], target);
    for (int i = 0; i < target.count; ++i)
      if (first_touch[at(first + i)] < position(number)) return false;
    return true;
  };
  for (const RankProgram& part : parts.ranks) scratch_chunks_.push_back(part.scratch_chunks);
  for (Wire& wire : wires_) {
    for (const int receive : wire.receives) {
      wire.landing.push_back(goes_straight(receive) ? kNone : wire.landed++);
      if (wire.landing.back() != kNone) wire.cell_chunks = std::max(wire.cell_chunks, chunks_moved(step(receive)));
    }
    wire.cells = std::min(options.landing_cells, wire.landed);
    wire.first_chunk = scratch_chunks_[at(wire.connection.target)];
    scratch_chunks_[at(wire.connection.target)] += wire.cells * wire.cell_chunks;
  }
}

}  // namespace tutti::mscclpp
