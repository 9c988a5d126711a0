// Hand-made programs, and checks that tests of formats and pictures share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

inline Cells cells(Buffer buffer, int first, int count = 1) { return {kSelf, buffer, first, count}; }

inline Step make(StepKind kind, std::vector<Cells> sources, std::vector<Cells> targets) {
  Step step;
  step.kind = kind;
  step.sources = std::move(sources);
  step.targets = std::move(targets);
  return step;
}

inline int wrap(int value, int ranks) { return ((value % ranks) + ranks) % ranks; }

/// `chunks` consecutive chunks of a block travel as one.
inline Program ring_all_gather(int ranks, int chunks = 1) {
  Program program;
  program.name = "ring";
  program.shape = {Collective::all_gather, ranks, 0, chunks};
  program.part = [=](int rank) {
    const auto block = [=](int b) { return cells(Buffer::output, wrap(b, ranks) * chunks, chunks); };
    Worker copy, move;
    copy.steps.push_back(make(StepKind::copy, {cells(Buffer::input, 0, chunks)}, {block(rank)}));
    move.send_peer = wrap(rank + 1, ranks);
    move.recv_peer = wrap(rank - 1, ranks);
    move.steps.push_back(make(StepKind::send, {block(rank)}, {}));
    move.steps.back().after.push_back({1, 0});
    for (int i = 1; i < ranks - 1; ++i) move.steps.push_back(make(StepKind::recv_copy_send, {}, {block(rank - i)}));
    move.steps.push_back(make(StepKind::recv, {}, {block(rank + 1)}));
    return RankProgram{0, {move, copy}};
  };
  return program;
}

/// Each of the ring's blocks is `parts` chunks, sent one by one.
inline Program ring_all_reduce(int ranks, int parts = 1) {
  Program program;
  program.name = "ring";
  program.shape = {Collective::all_reduce, ranks, 0, ranks * parts};
  program.part = [=](int rank) {
    Worker worker;
    worker.send_peer = wrap(rank + 1, ranks);
    worker.recv_peer = wrap(rank - 1, ranks);
    const auto round = [&](StepKind kind, int block, bool reads, bool writes) {
      for (int p = 0; p < parts; ++p) {
        const int chunk = wrap(block, ranks) * parts + p;
        worker.steps.push_back(make(kind, {}, {}));
        if (reads) worker.steps.back().sources.push_back(cells(Buffer::input, chunk));
        if (writes) worker.steps.back().targets.push_back(cells(Buffer::output, chunk));
        worker.steps.back().completes = reads && writes;
      }
    };
    round(StepKind::send, rank, true, false);
    for (int i = 1; i < ranks - 1; ++i) round(StepKind::recv_reduce_send, rank - i, true, false);
    round(StepKind::recv_reduce_copy_send, rank + 1, true, true);
    for (int i = 0; i < ranks - 2; ++i) round(StepKind::recv_copy_send, rank - i, false, true);
    round(StepKind::recv, rank + 2, false, true);
    return RankProgram{0, {worker}};
  };
  return program;
}

/// Rank 0's vector goes down the line: ends differ, so ranks share no pattern.
inline Program chain_broadcast(int ranks, int chunks) {
  Program program;
  program.name = "chain";
  program.shape = {Collective::broadcast, ranks, 0, chunks};
  program.part = [=](int rank) {
    Worker worker;
    if (rank + 1 < ranks) worker.send_peer = rank + 1;
    if (rank > 0) worker.recv_peer = rank - 1;
    for (int c = 0; c < chunks; ++c) {
      if (rank == 0) {
        worker.steps.push_back(make(StepKind::copy, {cells(Buffer::input, c)}, {cells(Buffer::output, c)}));
        worker.steps.push_back(make(StepKind::send, {cells(Buffer::output, c)}, {}));
      } else {
        const StepKind kind = rank + 1 < ranks ? StepKind::recv_copy_send : StepKind::recv;
        worker.steps.push_back(make(kind, {}, {cells(Buffer::output, c)}));
      }
    }
    return RankProgram{0, {worker}};
  };
  return program;
}

/// Everyone reads everyone's input: one-sided.
inline Program one_shot_all_reduce(int ranks) {
  Program program;
  program.name = "one shot";
  program.shape = {Collective::all_reduce, ranks, 0, 1};
  program.one_sided = true;
  program.part = [=](int rank) {
    Worker worker;
    Step sum = make(StepKind::reduce, {}, {cells(Buffer::scratch, 0)});
    sum.completes = true;
    for (int peer = 0; peer < ranks; ++peer) sum.sources.push_back({peer, Buffer::input, 0, 1});
    worker.steps.push_back(sum);
    for (int i = 1; i < ranks; ++i) {
      worker.steps.push_back(make(StepKind::signal, {}, {}));
      worker.steps.back().peer = wrap(rank + i, ranks);
    }
    for (int i = 1; i < ranks; ++i) {
      worker.steps.push_back(make(StepKind::wait, {}, {}));
      worker.steps.back().peer = wrap(rank - i, ranks);
    }
    worker.steps.push_back(make(StepKind::copy, {cells(Buffer::scratch, 0)}, {cells(Buffer::output, 0)}));
    return RankProgram{1, {worker}};
  };
  return program;
}

inline void expect_same_program(const Program& a, const Program& b) {
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.in_place, b.in_place);
  EXPECT_EQ(a.out_of_place, b.out_of_place);
  EXPECT_EQ(a.one_sided, b.one_sided);
  EXPECT_EQ(a.min_bytes, b.min_bytes);
  EXPECT_EQ(a.max_bytes, b.max_bytes);
  EXPECT_EQ(a.tile, b.tile);
  for (int rank = 0; rank < a.shape.ranks; ++rank) ASSERT_EQ(a.part(rank), b.part(rank)) << "rank " << rank;
}

struct BadInput {
  std::string text;
  std::vector<std::string> message;  // pieces that must appear
};

inline void expect_errors(const std::vector<BadInput>& inputs, Result<Program> (*load)(std::string_view)) {
  for (const BadInput& input : inputs) {
    const Result<Program> program = load(input.text);
    ASSERT_FALSE(program) << input.text;
    for (const std::string& piece : input.message)
      EXPECT_NE(program.error().message.find(piece), std::string::npos)
          << "'" << piece << "' is not in '" << program.error().message << "'";
  }
}

}  // namespace tutti
