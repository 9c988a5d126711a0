#include "program/file/format_json.hpp"

#include <gtest/gtest.h>

#include "program/check/check.hpp"
#include "program/program_test_kit.hpp"
#include "program/translated_parts.hpp"

namespace tutti {
namespace {

/// Saves, loads, compares; returns the text.
std::string round_trip(const Program& program) {
  const Result<std::string> text = save_json(program);
  if (!text) {
    ADD_FAILURE() << text.error().message;
    return "";
  }
  const Result<Program> loaded = load_json(*text);
  if (!loaded) {
    ADD_FAILURE() << loaded.error().message << "\n" << *text;
    return *text;
  }
  expect_same_program(program, *loaded);
  return *text;
}

TEST(NativeFile, RingsRoundTripAtEverySmallSize) {
  for (int ranks = 2; ranks <= 17; ++ranks) {
    for (int parts = 1; parts <= 3; ++parts) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << parts << " parts");
      EXPECT_NE(round_trip(ring_all_gather(ranks, parts)).find("every_rank"), std::string::npos);
      EXPECT_NE(round_trip(ring_all_reduce(ranks, parts)).find("every_rank"), std::string::npos);
    }
  }
}

TEST(NativeFile, RingOf1024RanksIsAFewLines) {
  EXPECT_LT(round_trip(ring_all_gather(1024)).size(), 1000u);
  EXPECT_LT(round_trip(ring_all_reduce(128, 6)).size(), 4096u);
  const Result<std::string> text = save_json(ring_all_reduce(1024));
  ASSERT_TRUE(text);
  EXPECT_LT(text->size(), 4096u);
  const Result<Program> loaded = load_json(*text);
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (const int rank : {0, 1, 511, 1022, 1023}) EXPECT_EQ(loaded->part(rank), ring_all_reduce(1024).part(rank));
}

TEST(NativeFile, RanksThatDifferAreHeldOneByOneWithLoops) {
  const std::string text = round_trip(chain_broadcast(5, 200));
  EXPECT_NE(text.find("\"ranks\": ["), std::string::npos);
  EXPECT_NE(text.find("\"repeat\": 200"), std::string::npos);
  EXPECT_LT(text.size(), 2000u);
}

TEST(NativeFile, OneSidedProgramsRoundTrip) { round_trip(one_shot_all_reduce(6)); }

TEST(NativeFile, HeadRoundTrips) {
  Program program = ring_all_reduce(4);
  program.name = "a \"quoted\" name";
  program.in_place = false;
  program.min_bytes = 64 << 10;
  program.max_bytes = (1 << 20) + 1;
  program.tile = 4000;
  EXPECT_NE(round_trip(program).find("\"64K\""), std::string::npos);
}

TEST(NativeFile, IrregularNumbersRoundTrip) {
  // Scratch behind an offset, strides that do not divide, and a number that follows no rule over the ranks.
  Program program;
  program.name = "odd";
  program.shape = {Collective::all_reduce, 7, 0, 40};
  for (const int seed : {1, 2, 3}) {
    program.part = [seed](int rank) {
      Worker worker;
      for (int i = 0; i < 30; ++i) {
        worker.steps.push_back(make(StepKind::copy, {cells(Buffer::scratch, 10 + wrap(3 * rank - i, 11))},
                                    {cells(Buffer::output, seed == 1 ? wrap(5 * rank + 2 * i, 40) : rank * i % 40)}));
        if (seed == 3) worker.steps.back().sources[0].first = (rank * rank * 7 + i * i) % 20;
      }
      return RankProgram{30, {worker}};
    };
    round_trip(program);
  }
}

TEST(NativeFile, HandWrittenTemplateExpands) {
  const Result<Program> program = load_json(R"({
    "format": "tutti program 1", "name": "hand", "min_bytes": "1K", "max_bytes": 2048,
    "shape": {"collective": "all_gather", "ranks": 4, "chunks": 2},
    "every_rank": {"workers": [{"send": {"relative": 1}, "recv": {"relative": -1}, "steps": [
      {"repeat": 3, "steps": [
        {"repeat": 2, "as": "chunk", "steps": [
          {"kind": "recv_copy_send", "to": {"output": {"base": -2, "rank": 2, "i": -2, "chunk": 1, "mod": 8}}}]}]}]}]}})");
  ASSERT_TRUE(program) << program.error().message;
  EXPECT_EQ(program->min_bytes, 1024u);
  const RankProgram part = program->part(1);
  ASSERT_EQ(part.workers.size(), 1u);
  EXPECT_EQ(part.workers[0].send_peer, 2);
  EXPECT_EQ(part.workers[0].recv_peer, 0);
  std::vector<int> chunks;
  for (const Step& step : part.workers[0].steps) chunks.push_back(step.targets[0].first);
  EXPECT_EQ(chunks, (std::vector<int>{0, 1, 6, 7, 4, 5}));
}

std::string native(const std::string& steps, const std::string& worker = R"("send": 1, "recv": 1)") {
  return R"({"format": "tutti program 1", "name": "x", "shape": {"collective": "all_reduce", "ranks": 2, "chunks": 4},
    "every_rank": {"scratch": 2, "workers": [{)" +
         worker + R"(, "steps": [)" + steps + "]}]}}";
}

TEST(NativeFile, ManyRanksOfManyStepsWithoutAPatternAreRefusedAfterAFew) {
  int made = 0;
  const auto part = [&](int rank) {
    ++made;
    RankProgram program;
    program.workers.emplace_back().steps.resize(16'384 + static_cast<std::size_t>(rank));
    return program;
  };
  const Result<std::string> text =
      save_json({.name = "long", .shape = {Collective::barrier, 1024, 0, 1}, .part = part});
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::unsupported);
  EXPECT_NE(text.error().message.find("share no pattern"), std::string::npos) << text.error().message;
  EXPECT_LT(made, 32);
}

/// Every rank sends every other its block. Six ranks are two rows of three; a representative does what all others do,
/// moved.
Program translated_exchange() {
  const Shape shape{Collective::all_to_all, 6, 0, 1};
  RankProgram representative;
  representative.workers.emplace_back().steps = {
      make(StepKind::copy, {cells(Buffer::input, 0)}, {cells(Buffer::output, 0)})};
  for (int peer = 1; peer < shape.ranks; ++peer) {
    representative.workers.push_back({peer, kNobody, 0, {make(StepKind::send, {cells(Buffer::input, peer)}, {})}});
    representative.workers.push_back({kNobody, peer, 0, {make(StepKind::recv, {}, {cells(Buffer::output, peer)})}});
  }
  Program program;
  program.name = "translated";
  program.shape = shape;
  program.in_place = false;
  program.symmetry = Translations({{1, 3, true}, {3, 2, true}});
  program.part = translated_parts({representative}, shape, program.symmetry);
  return program;
}

TEST(NativeFile, HoldsOnePartOfRanksThatDifferByATranslation) {
  const Program program = translated_exchange();
  const CheckReport report = check(program);
  EXPECT_TRUE(report.ok()) << report.violation->to_string();
  const auto text = save_json(program);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_NE(text->find("\"moved_by\": [[1, 3], [3, 2]]"), std::string::npos) << *text;
  const auto loaded = load_json(*text);
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(loaded->part(rank), program.part(rank)) << rank;
  EXPECT_EQ(program.part(4).workers[1].send_peer, 5);
  EXPECT_EQ(program.part(5).workers[1].send_peer, 3);
}

TEST(NativeFile, RefusesPartsThatCannotBeMoved) {
  const auto file = [](const std::string& digits, const std::string& from, const std::string& collective = "all_to_all",
                       const std::string& homes = "") {
    return R"({"format": "tutti program 1", "name": "x", "shape": {"collective": ")" + collective +
           R"(", "ranks": 6, "chunks": 2}, "moved_by": [)" + digits + R"(],
      "homes": [{"workers": [{"send": 1, "steps": [{"kind": "send", "from": )" +
           from + "}]}]}" + homes + "]}";
  };
  const std::string two = R"({"input": 2, "count": 2})";
  EXPECT_TRUE(load_json(file("[1, 3], [3, 2]", two)));
  expect_errors({{file("[1, 3], [3, 2]", R"({"input": 3, "count": 2})"),
                  {"line 2", "homes[0]: worker 0, step 0: 2 chunks from 3 on are not of one block"}},
                 {file("[1, 3]", two), {"homes: 1 entries; moved_by leaves 2 homes of 6 ranks"}},
                 {file("[1, 4]", two), {"moved_by[0]: [1,4] is no digit of 6 ranks"}},
                 {file("[1, 3], [2, 2]", two), {"moved_by[1]: [2,2] is no digit of 6 ranks above a stride of 3"}},
                 {file("[1]", two), {"moved_by[0]: [1] is no pair"}},
                 {file("", two), {"moved_by: is empty"}}},
                load_json);
}

/// Worker 3 waits for every second step of the loop's worker; worker 1 has one step only.
std::string waiting_for(const std::string& worker) {
  const std::string two = R"({"steps": [{"kind": "nop"}, {"kind": "nop"}]})";
  return R"({"format": "tutti program 1", "name": "x", "shape": {"collective": "all_reduce", "ranks": 1, "chunks": 1},
    "every_rank": {"workers": [)" +
         two + R"(, {"steps": [{"kind": "nop"}]}, )" + two + R"(, {"steps": [{"repeat": 2, "steps": [
    {"kind": "nop", "after": [{"worker": )" +
         worker + R"(, "step": 1}]}]}]}]}})";
}

TEST(NativeFile, LoopsMaySkipWorkersThatLackTheStepTheyWaitFor) {
  const auto program = load_json(waiting_for(R"({"i": 2})"));
  ASSERT_TRUE(program) << program.error().message;
  const RankProgram part = program->part(0);
  EXPECT_EQ(part.workers[3].steps[1].after[0].worker, 2);
  EXPECT_EQ(part.workers[3].steps[1].after[0].step, 1);
  expect_errors({{waiting_for(R"({"i": 1})"), {"after[0].step: 1 is out of range", "0 to 0"}}}, load_json);
}

TEST(NativeFile, ErrorsNameThePlaceAndTheValue) {
  const std::string first = "every_rank.workers[0].steps[0]";
  const std::string deep(100000, '[');
  expect_errors(
      {
          {"{", {"line 1", "column"}},
          {deep, {"nested deeper than 32"}},
          {R"({"a": 1, "a": 2})", {"key 'a' stands twice"}},
          {R"({"formt": 1})", {"formt: unknown key", "format"}},
          {R"({"format": "tutti program 9"})", {"format: 'tutti program 9'"}},
          {R"([1])", {"is no object"}},
          {native(R"({"kind": "sned"})"), {first + ".kind: 'sned' is no step kind", "recv_reduce_copy_send"}},
          {native(R"({"kind": "send", "from": {"input": 4}})"), {first + ".from.input: 4 is out of range", "0 to 3"}},
          {native(R"({"kind": "send", "from": {"input": 3, "count": 2}})"), {"2 chunks from 3 on; the buffer has 4"}},
          {native(R"({"kind": "send", "from": {"input": 1.5}})"), {first + ".from.input: 1.5 is no whole number"}},
          {native(R"({"kind": "send", "from": {"input": 99999999999999999999}})"), {first + ".from.input"}},
          {native(R"({"kind": "send", "from": {"inptu": 1}})"), {"inptu: unknown key"}},
          {native(R"({"kind": "send", "from": {"count": 1}})"), {"names no buffer"}},
          {native(R"({"kind": "send", "from": {"input": 1, "scratch": 1}})"), {"both 'input' and 'scratch'"}},
          {native(R"({"kind": "send"})"), {first + ": 0 cells in 'from'; send takes 1"}},
          {native(R"({"kind": "nop", "peer": 1})"), {"nop takes no 'peer'"}},
          {native(R"({"kind": "signal"})"), {"signal needs a 'peer'"}},
          {native(R"({"kind": "signal", "peer": 2})"), {first + ".peer: 2 is out of range"}},
          {native(R"({"kind": "signal", "peer": {"rank": 1}})") + " x", {"line"}},
          {native(R"({"kind": "signal", "peer": {"base": 1, "rank": 1}})"), {"2 at rank 1 is out of range"}},
          {native(R"({"kind": "nop", "after": [{"worker": 1, "step": 0}]})"), {"after[0].worker: 1 is out of range"}},
          {native(R"({"kind": "nop", "after": [{"worker": 0, "step": 1}]})"), {"after[0].step: 1 is out of range"}},
          {native(R"({"kind": "nop", "completes": 1})"), {"completes: 1 is neither true nor false"}},
          {native(R"({"kind": "send", "from": {"input": 0}})", R"("recv": 1)"), {"no 'send' peer"}},
          {native(R"({"repeat": 0, "steps": []})"), {first + ".repeat: 0 is out of range"}},
          {native(R"({"repeat": 9, "steps": []})"), {"a loop without steps"}},
          {native(R"({"repeat": 4000000, "steps": [{"repeat": 2, "steps": [{"kind": "nop"}]}]})"), {"more than"}},
          {native(R"({"repeat": 9, "steps": [{"kind": "send", "from": {"input": {"i": 1}}}]})"),
           {"steps[0].steps[0].from.input: 4 at i = 4 is out of range"}},
          {native(R"({"kind": "send", "from": {"input": {"i": 1}}})"), {".i: unknown key"}},
          {native(R"({"kind": "send", "from": {"input": {"mod": 0}}})"), {".from.input.mod: 0 is out of range"}},
          {native(R"({"kind": "nop"})", R"("channel": 5000)"), {"channel: 5000 is out of range"}},
          {R"({"format": "tutti program 1", "name": "x", "shape": {"collective": "all_reduce", "ranks": 70000,
            "chunks": 1}, "every_rank": {"workers": []}})",
           {"shape.ranks: 70000"}},
          {R"({"format": "tutti program 1", "name": "x", "shape": {"collective": "all_reduce", "ranks": 2, "root": 1,
            "chunks": 1}, "every_rank": {"workers": []}})",
           {"shape.root: all_reduce has no root"}},
          {R"({"format": "tutti program 1", "name": "x", "shape": {"collective": "all_reduce", "ranks": 2,
            "chunks": 1}, "ranks": [{"workers": []}]})",
           {"ranks: 1 entries; the shape has 2"}},
          {R"({"format": "tutti program 1", "name": "x", "min_bytes": "64Q", "shape": {"collective": "all_reduce",
            "ranks": 1, "chunks": 1}, "ranks": [{"workers": []}]})",
           {"min_bytes: '64Q' is no size"}},
          {R"({"format": "tutti program 1", "name": "x", "shape": {"collective": "all_reduce", "ranks": 1,
            "chunks": 1}})",
           {"one of 'every_rank', 'ranks' and 'homes'"}},
      },
      load_json);
}

}  // namespace
}  // namespace tutti
