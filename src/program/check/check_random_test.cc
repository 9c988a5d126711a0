// What the checker accepts must come out right in a run, whatever the schedule. Correct programs are damaged at random;
// those that still pass run on a small simulated machine with random schedules, and must deliver.
#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "program/check/check.hpp"
#include "program/check/check_programs_test_kit.hpp"

namespace tutti {
namespace {

using namespace check_programs;  // NOLINT(google-build-using-namespace)
using Random = std::mt19937_64;

int below(Random& random, std::size_t limit) { return static_cast<int>(random() % limit); }

/// Ranks, workers and channels with numbers for chunks: a reduction adds, undefined memory is noise.
class Machine {
 public:
  Machine(const Program& program, bool in_place, Random& random)
      : shape_(program.shape), in_place_(in_place), random_(random), slots_(2 + random() % 3) {
    for (int rank = 0; rank < shape_.ranks; ++rank) {
      parts_.push_back(program.part(rank));
      positions_.emplace_back(parts_.back().workers.size());
      for (const Worker& worker : parts_.back().workers) running_ += worker.steps.empty() ? 0 : 1;
      for (int chunk = 0; chunk < input_chunks(shape_, rank); ++chunk)
        cell(rank, input(chunk), 0) = contribution(rank, chunk);
    }
  }

  /// Empty, or what went wrong.
  std::string run() {
    for (int idle = 0; idle < 10'000 && running_ > 0; ++idle) {
      const int rank = below(random_, parts_.size());
      if (positions_[at(rank)].empty()) continue;
      if (advance(rank, below(random_, positions_[at(rank)].size()))) idle = 0;
      if (!fault_.empty()) return fault_;
    }
    return running_ > 0 ? std::to_string(running_) + " workers are stuck" : check_outputs();
  }

 private:
  struct Position {
    std::size_t step = 0;
    int chunk = 0;
  };
  using Channel = std::tuple<bool, int, int, int>;  // data or signal, from, to, channel

  static std::size_t at(int index) { return static_cast<std::size_t>(index); }
  static std::uint64_t contribution(int rank, int chunk) {
    return Random(static_cast<std::uint64_t>(rank) * 1000 + static_cast<std::uint64_t>(chunk))();
  }

  std::uint64_t& cell(int self, const Cells& cells, int chunk) {
    const int rank = cells.rank == kSelf ? self : cells.rank;
    if (rank != self && is_finished(rank)) fault_ = "rank " + std::to_string(rank) + " has returned";
    int index = cells.first + chunk;
    Buffer buffer = cells.buffer;
    if (in_place_ && buffer == Buffer::input && output_chunks(shape_, rank) > 0) {
      const bool gathers = output_chunks(shape_, rank) > input_chunks(shape_, rank);
      const int own = index - rank * shape_.chunks;
      const bool scatters = output_chunks(shape_, rank) < input_chunks(shape_, rank);
      if (gathers) index += rank * shape_.chunks;
      if (scatters && own >= 0 && own < shape_.chunks) index = own;
      if (!scatters || (own >= 0 && own < shape_.chunks)) buffer = Buffer::output;
    }
    return memory_.try_emplace({rank, buffer, index}, random_()).first->second;
  }

  bool is_finished(int rank) const {
    for (std::size_t worker = 0; worker < positions_[at(rank)].size(); ++worker)
      if (positions_[at(rank)][worker].step < parts_[at(rank)].workers[worker].steps.size()) return false;
    return true;
  }

  /// Lets a worker do one chunk, if it can.
  bool advance(int rank, int number) {
    const Worker& worker = parts_[at(rank)].workers[at(number)];
    Position& position = positions_[at(rank)][at(number)];
    if (position.step == worker.steps.size()) return false;
    const Step& step = worker.steps[position.step];
    for (const Dependency& dependency : step.after)
      if (positions_[at(rank)][at(dependency.worker)].step <= at(dependency.step)) return false;
    auto& incoming = channels_[{true, worker.recv_peer, rank, worker.channel}];
    auto& outgoing = channels_[{true, rank, worker.send_peer, worker.channel}];
    if (receives(step.kind) && incoming.empty()) return false;
    if (sends(step.kind) && outgoing.size() >= slots_) return false;
    if (step.kind == StepKind::wait) {
      auto& signals = channels_[{false, step.peer, rank, worker.channel}];
      if (signals.empty()) return false;
      signals.pop_front();
    }
    if (step.kind == StepKind::signal) channels_[{false, rank, step.peer, worker.channel}].push_back(0);
    const bool chunkwise = sends(step.kind) || receives(step.kind);
    const int count = step.sources.empty() ? (step.targets.empty() ? 1 : step.targets[0].count) : step.sources[0].count;
    const int begin = position.chunk;
    const int end = chunkwise ? begin + 1 : count;
    for (int chunk = begin; chunk < end; ++chunk) move(rank, step, chunk, incoming, outgoing);
    position.chunk = end;
    if (end == count) position = {position.step + 1, 0};
    if (position.step == worker.steps.size()) --running_;
    return true;
  }

  void move(int rank, const Step& step, int chunk, std::deque<std::uint64_t>& incoming,
            std::deque<std::uint64_t>& outgoing) {
    std::uint64_t value = 0;
    if (receives(step.kind)) {
      value = incoming.front();
      incoming.pop_front();
    }
    for (const Cells& source : step.sources) value += cell(rank, source, chunk);
    for (const Cells& target : step.targets) cell(rank, target, chunk) = value;
    if (sends(step.kind)) outgoing.push_back(value);
  }

  std::uint64_t expected(int rank, int chunk) const {
    std::uint64_t sum = 0;
    switch (shape_.collective) {
      case Collective::all_gather:
        return contribution(chunk / shape_.chunks, chunk % shape_.chunks);
      case Collective::all_to_all:
        return contribution(chunk / shape_.chunks, rank * shape_.chunks + chunk % shape_.chunks);
      default:
        for (int other = 0; other < shape_.ranks; ++other) sum += contribution(other, chunk);
        return sum;
    }
  }

  std::string check_outputs() {
    for (int rank = 0; rank < shape_.ranks; ++rank)
      for (int chunk = 0; chunk < output_chunks(shape_, rank); ++chunk)
        if (cell(rank, at_rank(rank, output(chunk)), 0) != expected(rank, chunk))
          return "output " + std::to_string(chunk) + " of rank " + std::to_string(rank) + " is wrong";
    return "";
  }
  static Cells at_rank(int rank, const Cells& cells) { return check_programs::at(rank, cells); }

  const Shape shape_;
  const bool in_place_;
  Random& random_;
  const std::size_t slots_;
  std::vector<RankProgram> parts_;
  std::vector<std::vector<Position>> positions_;
  std::map<std::tuple<int, Buffer, int>, std::uint64_t> memory_;
  std::map<Channel, std::deque<std::uint64_t>> channels_;
  int running_ = 0;  // workers with steps left
  std::string fault_;
};

void damage_step(Step& step, Random& random) {
  auto& cells = below(random, 2) == 0 && !step.sources.empty() ? step.sources : step.targets;
  switch (below(random, 5)) {
    case 0:
      step.after.clear();
      break;
    case 1:
      if (!cells.empty()) cells[random() % cells.size()].first += 1;
      break;
    case 2:
      if (!cells.empty()) cells[0].buffer = static_cast<Buffer>(below(random, 3));
      break;
    case 3:
      step.completes = !step.completes;
      break;
    default:
      step.after.push_back({below(random, 2), below(random, 3)});
      break;
  }
}

Program damaged(const Program& program, Random& random) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < program.shape.ranks; ++rank) parts.push_back(program.part(rank));
  RankProgram& part = parts[random() % parts.size()];
  Worker& worker = part.workers[random() % part.workers.size()];
  if (worker.steps.empty()) return program;
  const auto index = static_cast<std::ptrdiff_t>(random() % worker.steps.size());
  const auto other = static_cast<std::ptrdiff_t>(random() % worker.steps.size());
  switch (below(random, 4)) {
    case 0:
      worker.steps.erase(worker.steps.begin() + index);
      break;
    case 1:
      std::swap(worker.steps[static_cast<std::size_t>(index)], worker.steps[static_cast<std::size_t>(other)]);
      break;
    case 2:
      part.scratch_chunks += 1;
      [[fallthrough]];
    default:
      damage_step(worker.steps[static_cast<std::size_t>(index)], random);
      break;
  }
  Program result = program;
  result.part = make_flat("", program.shape, std::move(parts)).part;
  return result;
}

/// An all_reduce that uses scratch and several workers, so that damage finds something to break.
Program staged_all_reduce() {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < 2; ++rank) {
    const int peer = 1 - rank;
    Worker sender = with(peer, {copy(input(0, 2), scratch(0, 2)), send(scratch(0)), send(scratch(1))});
    Worker receiver = with(peer, {recv(scratch(2)), recv(scratch(3))});
    Worker adder = alone({after(completing(reduce({input(0), scratch(2)}, {output(0)})), 1, 0),
                          after(completing(reduce({input(1), scratch(3)}, {output(1)})), 1, 1)});
    sender.recv_peer = kNobody;
    receiver.send_peer = kNobody;
    // In place, the sum replaces the input: it must be in scratch by then.
    adder.steps[0].after.push_back({0, 0});
    parts.push_back(part({sender, receiver, adder}, 4));
  }
  return make_flat("staged", {Collective::all_reduce, 2, 0, 2}, std::move(parts));
}

TEST(CheckAgainstRuns, what_passes_delivers_under_any_schedule) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  const std::vector<Program> programs = {exchange(),           ring_all_gather(3),     ring_all_reduce(3),
                                         direct_all_reduce(3), pairwise_all_to_all(3), staged_all_reduce()};
  for (const Program& program : programs) {
    ASSERT_TRUE(check(program).ok()) << check(program).violation->to_string();
    int passed = 0;
    int refused = 0;
    for (int round = 0; round < 400; ++round) {
      Program candidate = program;
      for (int damages = below(random, 3); damages > 0; --damages) candidate = damaged(candidate, random);
      if (!check(candidate).ok()) {
        ++refused;
        continue;
      }
      ++passed;
      for (const bool in_place : {false, true}) {
        if (in_place ? !candidate.in_place : !candidate.out_of_place) continue;
        ASSERT_EQ(Machine(candidate, in_place, random).run(), "") << program.name << (in_place ? " in place" : "");
      }
    }
    EXPECT_GT(passed, 100) << program.name;
    EXPECT_GT(refused, 100) << program.name;
  }
}

}  // namespace
}  // namespace tutti
