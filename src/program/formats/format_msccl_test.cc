#include "program/formats/format_msccl.hpp"

#include <gtest/gtest.h>

#include "program/program_test_kit.hpp"

namespace tutti {
namespace {

// The three-GPU ring all-gather that MSCCL's public simulator accepts.
std::string msccl_ring(const std::string& coll = "allgather") {
  std::string text =
      "<algo name=\"ring_ag3\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"3\" ngpus=\"3\" coll=\"" + coll +
      "\" inplace=\"0\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"1073741824\">\n";
  const auto number = [](int n) { return "\"" + std::to_string(n) + "\""; };
  const auto step = [&](int s, const std::string& type, int chunk, const std::string& source, int source_chunk,
                        const std::string& dependency) {
    return "<step s=" + number(s) + " type=\"" + type + "\" srcbuf=\"" + source + "\" srcoff=" + number(source_chunk) +
           " dstbuf=\"o\" dstoff=" + number(chunk) + " cnt=\"1\" " + dependency + "/>\n";
  };
  const std::string none = "depid=\"-1\" deps=\"-1\" hasdep=\"0\"";
  for (int rank = 0; rank < 3; ++rank) {
    const int before = wrap(rank - 1, 3), next = wrap(rank + 1, 3);
    text += "<gpu id=" + number(rank) +
            " i_chunks=\"1\" o_chunks=\"3\" s_chunks=\"0\">\n<tb id=\"0\" send=" + number(next) +
            " recv=" + number(before) + " chan=\"0\">\n";
    text += step(0, "s", rank, "o", rank, "depid=\"1\" deps=\"0\" hasdep=\"0\"");
    text += step(1, "rcs", before, "o", before, none) + step(2, "r", next, "o", next, none);
    text += "</tb>\n<tb id=\"1\" send=\"-1\" recv=\"-1\" chan=\"0\">\n";
    text += step(0, "cpy", rank, "i", 0, "depid=\"-1\" deps=\"-1\" hasdep=\"1\"") + "</tb>\n</gpu>\n";
  }
  return text + "</algo>\n";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

TEST(MscclFile, RingAllGatherLoads) {
  const Result<Program> program = load_msccl(msccl_ring());
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->shape, (Shape{Collective::all_gather, 3, 0, 1}));
  EXPECT_FALSE(program->in_place);
  EXPECT_EQ(program->max_bytes, 1u << 30);
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(program->part(rank), ring_all_gather(3).part(rank)) << rank;
}

TEST(MscclFile, WrittenFilesReadBackTheSame) {
  for (const Program& program : {ring_all_gather(4), ring_all_gather(3, 5), chain_broadcast(4, 3)}) {
    for (const MscclDialect dialect : {MscclDialect::msccl, MscclDialect::executor}) {
      const Result<std::string> text = save_msccl(program, {dialect, "LL"});
      ASSERT_TRUE(text) << text.error().message;
      const Result<Program> loaded = load_msccl(*text);
      ASSERT_TRUE(loaded) << loaded.error().message << *text;
      EXPECT_EQ(loaded->shape, program.shape);
      for (int rank = 0; rank < program.shape.ranks; ++rank) EXPECT_EQ(loaded->part(rank), program.part(rank));
    }
  }
}

TEST(MscclFile, DialectsDifferInReduceScatter) {
  Program program = ring_all_gather(3);
  program.shape.collective = Collective::reduce_scatter;
  program.part = [](int) { return RankProgram{}; };
  EXPECT_NE(save_msccl(program, {MscclDialect::msccl, "Simple"})->find("\"reduce_scatter\""), std::string::npos);
  EXPECT_NE(save_msccl(program, {MscclDialect::executor, "Simple"})->find("\"reducescatter\""), std::string::npos);
  for (const MscclDialect dialect : {MscclDialect::msccl, MscclDialect::executor}) {
    const Result<Program> loaded = load_msccl(*save_msccl(program, {dialect, "Simple"}));
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->shape, program.shape);
  }
  program.shape.collective = Collective::gather;
  EXPECT_FALSE(save_msccl(program, {MscclDialect::msccl, "Simple"}));
}

TEST(MscclFile, InPlaceFilesMayNameACellThroughEitherBuffer) {
  // A broadcast in place, all in buffer i: away from the root that is the output.
  const Result<Program> program = load_msccl(R"(
    <algo name="b" nchannels="1" nchunksperloop="1" ngpus="2" coll="broadcast" inplace="1">
      <gpu id="1" i_chunks="1" o_chunks="0" s_chunks="0"><tb id="0" send="-1" recv="0" chan="0">
        <step s="0" type="r" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      </tb></gpu>
      <gpu id="0" i_chunks="1" o_chunks="0" s_chunks="0"><tb id="0" send="1" recv="-1" chan="0">
        <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      </tb></gpu>
    </algo>)");
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->shape.root, 0);
  EXPECT_TRUE(program->in_place);
  EXPECT_FALSE(program->out_of_place);
  EXPECT_EQ(program->part(0).workers[0].steps[0].sources[0], cells(Buffer::input, 0));
  EXPECT_EQ(program->part(1).workers[0].steps[0].targets[0], cells(Buffer::output, 0));
}

/// One rank whose second worker's first step waits for `awaited` workers and then does `last`.
Program joining(int awaited, Step last) {
  RankProgram part;
  part.scratch_chunks = 300;
  for (int w = 0; w < awaited; ++w) {
    part.workers.emplace_back();
    part.workers.back().steps = {make(StepKind::copy, {cells(Buffer::input, 0)}, {cells(Buffer::scratch, w)})};
    last.after.push_back({w, 0});
  }
  part.workers.emplace_back();
  part.workers.back().steps = {std::move(last)};
  return make_flat("join", {Collective::all_reduce, 1, 0, 1}, {part});
}

std::vector<std::string> step_types(const RankProgram& part, std::size_t worker) {
  std::vector<std::string> types;
  for (const Step& step : part.workers.at(worker).steps) types.emplace_back(name_of(step.kind));
  return types;
}

TEST(MscclFile, FurtherDependenciesBecomeNops) {
  const Program program = joining(3, make(StepKind::copy, {cells(Buffer::scratch, 2)}, {cells(Buffer::output, 0)}));
  const Result<std::string> text = save_msccl(program);
  ASSERT_TRUE(text) << text.error().message;
  const Result<Program> loaded = load_msccl(*text);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const RankProgram part = loaded->part(0);
  EXPECT_EQ(step_types(part, 3), (std::vector<std::string>{"nop", "nop", "copy"}));
  EXPECT_EQ(part.workers[3].steps[2].after, (std::vector<Dependency>{{2, 0}}));
  EXPECT_NE(text->find("hasdep=\"1\""), std::string::npos);
}

TEST(MscclFile, NopsOfTheProgramDissolveIntoTheStepsBehindThem) {
  RankProgram part;
  part.scratch_chunks = 2;
  part.workers.resize(3);
  part.workers[0].steps = {make(StepKind::copy, {cells(Buffer::input, 0)}, {cells(Buffer::scratch, 0)})};
  part.workers[1].steps = {make(StepKind::copy, {cells(Buffer::input, 0)}, {cells(Buffer::scratch, 1)}),
                           make(StepKind::nop, {}, {})};
  part.workers[1].steps[1].after = {{0, 0}};
  part.workers[2].steps = {make(StepKind::copy, {cells(Buffer::scratch, 1)}, {cells(Buffer::output, 0)})};
  part.workers[2].steps[0].after = {{1, 1}};
  const Result<Program> loaded = load_msccl(*save_msccl(make_flat("nops", {Collective::all_reduce, 1, 0, 1}, {part})));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const std::vector<Step> steps = loaded->part(0).workers[2].steps;
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].after, (std::vector<Dependency>{{0, 0}}));
  EXPECT_EQ(steps[1].after, (std::vector<Dependency>{{1, 0}}));
}

TEST(MscclFile, ManyOperandReductionsAndLongCellsAreSplit) {
  const Step sum =
      make(StepKind::reduce,
           {cells(Buffer::scratch, 0, 100), cells(Buffer::scratch, 100, 100), cells(Buffer::scratch, 200, 100)},
           {cells(Buffer::output, 0, 100)});
  Program program = joining(1, sum);
  program.shape.chunks = 100;
  const Result<Program> loaded = load_msccl(*save_msccl(program));
  ASSERT_TRUE(loaded) << loaded.error().message;
  const RankProgram part = loaded->part(0);
  EXPECT_EQ(step_types(part, 1), (std::vector<std::string>{"copy", "copy", "reduce", "reduce", "reduce", "reduce"}));
  EXPECT_EQ(part.workers[1].steps[1].targets[0], cells(Buffer::output, 71, 29));
  EXPECT_EQ(part.workers[1].steps[5].sources[1], cells(Buffer::scratch, 271, 29));
}

TEST(MscclFile, WhatXmlCannotHoldIsSaid) {
  const auto reason = [](const Program& program) {
    const Result<std::string> text = save_msccl(program);
    return text ? "written" : text.error().message;
  };
  const auto expect_piece = [&](const Program& program, const std::string& piece) {
    EXPECT_NE(reason(program).find(piece), std::string::npos) << reason(program);
  };
  expect_piece(one_shot_all_reduce(3), "cells of other ranks: reduce at rank 0 worker 0 step 0");
  Program signals = one_shot_all_reduce(3);
  signals.part = [inner = signals.part](int rank) {
    RankProgram part = inner(rank);
    part.workers[0].steps.erase(part.workers[0].steps.begin());
    return part;
  };
  expect_piece(signals, "step kinds only the native file can hold: signal at rank 0 worker 0 step 0");
  expect_piece(ring_all_gather(300), "needs 300 steps; MSCCL files hold 256");
  Program named = ring_all_gather(3);
  named.name = std::string(64, 'x');
  expect_piece(named, "64 characters; MSCCL files hold 63");
  expect_piece(joining(130, make(StepKind::copy, {cells(Buffer::scratch, 0)}, {cells(Buffer::output, 0)})),
               "allow it up to worker 127");
  expect_piece(joining(1, make(StepKind::reduce, {cells(Buffer::scratch, 0)},
                               {cells(Buffer::output, 0), cells(Buffer::scratch, 1)})),
               "reduce into 2 targets");
  Program barrier = ring_all_gather(3);
  barrier.shape.collective = Collective::barrier;
  expect_piece(barrier, "hold no barrier");
}

TEST(MscclFile, ErrorsNameTheElementAndTheValue) {
  const std::string good = msccl_ring();
  expect_errors(
      {
          {"", {"not XML"}},
          {"<algo", {"line 1", "not XML"}},
          {"<algos/>", {"<algos>", "<algo>"}},
          {"<algo/>", {"attribute 'coll' is missing"}},
          {msccl_ring("custom"), {"coll='custom' is not supported"}},
          {msccl_ring("allgahter"), {"coll='allgahter'", "reducescatter"}},
          {replaced(good, "ngpus=\"3\"", "ngpus=\"4\""), {"nchunksperloop='3' is no multiple of the 4 gpus"}},
          {replaced(good, "ngpus=\"3\"", "ngpus=\"x\""), {"ngpus='x' is no whole number"}},
          {replaced(good, "ngpus=\"3\"", "ngpus=\"99999999999999999999\""), {"out of range"}},
          {replaced(good, "inplace=\"0\"", "inplace=\"2\""), {"inplace='2'"}},
          {replaced(good, "gpu id=\"1\"", "gpu id=\"0\""), {"gpu 0: id='0' stands twice"}},
          {replaced(good, "gpu id=\"2\"", "gpu id=\"7\""), {"gpu 7: id='7' is out of range; expected 0 to 2"}},
          {replaced(good, "i_chunks=\"1\"", "i_chunks=\"2\""), {"i_chunks='2'", "expected 1"}},
          {replaced(good, "tb id=\"1\"", "tb id=\"2\""), {"tb 2: id='2' is out of range"}},
          {replaced(good, "recv=\"2\"", "recv=\"0\""), {"gpu 0, tb 0: recv='0' is the gpu itself"}},
          {replaced(good, "send=\"1\"", "send=\"-1\""), {"type='s' in a tb whose send is -1"}},
          {replaced(good, "chan=\"0\"", "chan=\"1\""), {"chan='1' is out of range"}},
          {replaced(good, "type=\"rcs\"", "type=\"rsc\""), {"line 5: gpu 0, tb 0, step 1: type='rsc'"}},
          {replaced(good, "srcbuf=\"o\"", "srcbuf=\"q\""), {"srcbuf='q' is no buffer"}},
          {replaced(good, "dstoff=\"2\"", "dstoff=\"3\""), {"dstoff='3' cnt='1' goes past the end", "3 chunks"}},
          {replaced(good, "cnt=\"1\"", "cnt=\"0\""), {"cnt='0' is out of range"}},
          {replaced(good, "depid=\"1\" deps=\"0\"", "depid=\"1\" deps=\"1\""), {"deps='1' is out of range"}},
          {replaced(good, "depid=\"1\" deps=\"0\"", "depid=\"0\" deps=\"0\""), {"waits for itself"}},
          {replaced(good, "<tb id=\"1\"", "<tc/><tb id=\"1\""), {"unknown element <tc>"}},
          {replaced(good, "minBytes=\"0\"", "minBytes=\"2000000000\""), {"less than minBytes"}},
          {replaced(good, "coll=\"allgather\"", "coll=\"broadcast\""), {"root cannot be told: 0 gpus receive nothing"}},
      },
      load_msccl);
}

}  // namespace
}  // namespace tutti
