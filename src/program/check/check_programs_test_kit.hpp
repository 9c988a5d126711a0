// Programs written by hand for the checker's tests, and short words to write them with. Independent of the generators.
#pragma once

#include <utility>
#include <vector>

#include "program/program.hpp"

namespace tutti::check_programs {

inline Cells input(int first, int count = 1) { return {kSelf, Buffer::input, first, count}; }
inline Cells output(int first, int count = 1) { return {kSelf, Buffer::output, first, count}; }
inline Cells scratch(int first, int count = 1) { return {kSelf, Buffer::scratch, first, count}; }
inline Cells at(int rank, Cells cells) {
  cells.rank = rank;
  return cells;
}

inline Step make_step(StepKind kind, std::vector<Cells> sources, std::vector<Cells> targets, int peer = kNobody) {
  Step step;
  step.kind = kind;
  step.sources = std::move(sources);
  step.targets = std::move(targets);
  step.peer = peer;
  return step;
}
inline Step nop() { return make_step(StepKind::nop, {}, {}); }
inline Step send(Cells source) { return make_step(StepKind::send, {source}, {}); }
inline Step recv(Cells target) { return make_step(StepKind::recv, {}, {target}); }
inline Step recv_reduce(Cells source, Cells target) { return make_step(StepKind::recv_reduce, {source}, {target}); }
inline Step recv_copy_send(Cells target) { return make_step(StepKind::recv_copy_send, {}, {target}); }
inline Step recv_reduce_send(Cells source) { return make_step(StepKind::recv_reduce_send, {source}, {}); }
inline Step recv_reduce_copy_send(Cells source, Cells target) {
  return make_step(StepKind::recv_reduce_copy_send, {source}, {target});
}
inline Step copy(Cells source, Cells target) { return make_step(StepKind::copy, {source}, {target}); }
inline Step reduce(std::vector<Cells> sources, std::vector<Cells> targets) {
  return make_step(StepKind::reduce, std::move(sources), std::move(targets));
}
inline Step signal(int peer) { return make_step(StepKind::signal, {}, {}, peer); }
inline Step wait(int peer) { return make_step(StepKind::wait, {}, {}, peer); }

inline Step completing(Step step) {
  step.completes = true;
  return step;
}
inline Step local_first(Step step) {
  step.local_first = true;
  return step;
}
inline Step after(Step step, int worker, int at_step) {
  step.after.push_back({worker, at_step});
  return step;
}

/// A worker that exchanges with one peer.
inline Worker with(int peer, std::vector<Step> steps, int channel = 0) {
  return {peer, peer, channel, std::move(steps)};
}
inline Worker between(int from, int to, std::vector<Step> steps) { return {to, from, 0, std::move(steps)}; }
inline Worker alone(std::vector<Step> steps) { return {kNobody, kNobody, 0, std::move(steps)}; }
inline RankProgram part(std::vector<Worker> workers, int scratch_chunks = 0) {
  return {scratch_chunks, std::move(workers)};
}

inline Program out_of_place_only(Program program) {
  program.in_place = false;
  return program;
}
inline Program in_place_only(Program program) {
  program.out_of_place = false;
  return program;
}

/// Two ranks swap their inputs; the lower rank's operand stands on the left.
inline Program exchange() {
  return make_flat("exchange", {Collective::all_reduce, 2, 0, 1},
                   {part({with(1, {send(input(0)), completing(local_first(recv_reduce(input(0), output(0))))})}),
                    part({with(0, {send(input(0)), completing(recv_reduce(input(0), output(0)))})})});
}

inline Program ring_all_gather(int ranks, int chunks = 1) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto block = [&](int back) { return output((rank - back + ranks) % ranks * chunks, chunks); };
    std::vector<Step> steps = {copy(input(0, chunks), block(0)), send(block(0))};
    for (int back = 1; back < ranks - 1; ++back) steps.push_back(recv_copy_send(block(back)));
    steps.push_back(recv(block(ranks - 1)));
    parts.push_back(part({between((rank + ranks - 1) % ranks, (rank + 1) % ranks, std::move(steps))}));
  }
  return make_flat("ring", {Collective::all_gather, ranks, 0, chunks}, std::move(parts));
}

inline Program ring_all_reduce(int ranks) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto chunk = [&](int back) { return (rank - back + 2 * ranks) % ranks; };
    std::vector<Step> steps = {send(input(rank))};
    for (int back = 1; back < ranks - 1; ++back) steps.push_back(recv_reduce_send(input(chunk(back))));
    const int own = chunk(ranks - 1);
    steps.push_back(completing(recv_reduce_copy_send(input(own), output(own))));
    for (int back = 0; back < ranks - 2; ++back) steps.push_back(recv_copy_send(output(chunk(back))));
    steps.push_back(recv(output(chunk(ranks - 2))));
    parts.push_back(part({between((rank + ranks - 1) % ranks, (rank + 1) % ranks, std::move(steps))}));
  }
  return make_flat("ring", {Collective::all_reduce, ranks, 0, ranks}, std::move(parts));
}

/// Each rank reduces its share of all inputs into all outputs, and leaves when all others have.
inline Program direct_all_reduce(int ranks) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Cells> sources;
    std::vector<Cells> targets;
    for (int peer = 0; peer < ranks; ++peer) {
      sources.push_back(at(peer, input(rank)));
      targets.push_back(at(peer, output(rank)));
    }
    std::vector<Step> steps = {completing(reduce(std::move(sources), std::move(targets)))};
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) steps.push_back(signal(peer));
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) steps.push_back(wait(peer));
    parts.push_back(part({alone(std::move(steps))}));
  }
  return make_flat("direct", {Collective::all_reduce, ranks, 0, ranks}, std::move(parts));
}

/// A worker for each peer, out of place only.
inline Program pairwise_all_to_all(int ranks) {
  std::vector<RankProgram> parts;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Worker> workers = {alone({copy(input(rank), output(rank))})};
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) workers.push_back(with(peer, {send(input(peer)), recv(output(peer))}));
    parts.push_back(part(std::move(workers)));
  }
  return out_of_place_only(make_flat("pairwise", {Collective::all_to_all, ranks, 0, 1}, std::move(parts)));
}

}  // namespace tutti::check_programs
