#include "selection/selection.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "selection/plan_folder.hpp"
#include "selection/tuning.hpp"

namespace tutti {
namespace {

TEST(Rules, ReadWhatTheyWrite) {
  const auto rules =
      parse_rules("all_reduce:0-32K:oneshot;all_gather:*:ring@256K;broadcast:1M-:staged@128K|direct_push@64K").value();
  ASSERT_EQ(rules.size(), 3u);
  EXPECT_EQ(rules[0].last, 32u << 10);
  EXPECT_EQ(rules[1].choice.tile, 256u << 10);
  EXPECT_EQ(rules[2].first, 1u << 20);
  EXPECT_EQ(rules[2].choice.tile, 128u << 10);
  EXPECT_EQ(rules[2].choice.mapped_tile, 64u << 10);
  EXPECT_EQ(parse_rules(to_string(rules)).value(), rules);
}

TEST(Rules, NameThePartThatCannotBeRead) {
  const char* const broken[][2] = {
      {"all_redcue:*:ring", "all_redcue"}, {"all_reduce:9-3:ring", "9-3"}, {"all_reduce:*", "form"},
      {"all_reduce:1X-2X:ring", "1X-2X"},  {"all_reduce:*:", "program"},   {"all_reduce:*:ring@x", "'x'"}};
  for (const auto& [text, part] : broken) {
    const auto rules = parse_rules(text);
    ASSERT_FALSE(rules) << text;
    EXPECT_NE(rules.error().message.find(part), std::string::npos) << rules.error().message;
  }
}

TEST(Tuning, IsReadAsItWasWrittenAndAbsentFilesHoldNoRules) {
  const std::string path = testing::TempDir() + "tutti-tuning-test.rules";
  const auto rules = parse_rules("all_reduce:0-32K:oneshot;all_gather:*:ring@256K").value();
  ASSERT_TRUE(save_tuning(path, rules, "made by a test"));
  EXPECT_EQ(load_tuning(path).value(), rules);
  std::remove(path.c_str());
  EXPECT_TRUE(load_tuning(path).value().empty());
}

TEST(PlanFolder, TakesProgramsOfTheRightSizeAndComparesAllOfThem) {
  const std::string folder = testing::TempDir() + "tutti-plans-test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << text;
  };
  const std::string program = R"({"format": "tutti program 1", "name": "hand", "tile": "4K",
    "shape": {"collective": "broadcast", "ranks": 2, "chunks": 1}, "ranks": [
      {"workers": [{"send": 1, "steps": [{"kind": "send", "from": {"input": 0}},
                                         {"kind": "copy", "from": {"input": 0}, "to": {"output": 0}}]}]},
      {"workers": [{"recv": 0, "steps": [{"kind": "recv", "to": {"output": 0}}]}]}]})";
  write("broadcast.0.json", program);
  write("report.json", R"({"format": "tutti synthesis 1"})");
  const PlanFolder two = load_plan_folder(folder, 2, 0).value();
  ASSERT_EQ(two.programs.size(), 1U);
  EXPECT_EQ(two.programs[0]->tile, 4096U);
  const PlanFolder three = load_plan_folder(folder, 3, 0).value();
  EXPECT_TRUE(three.programs.empty());
  EXPECT_EQ(three.digest, two.digest) << "what ranks compare does not depend on the communicator";

  std::string changed = program;
  changed.replace(changed.find("4K"), 2, "8K");
  write("broadcast.0.json", changed);
  EXPECT_NE(load_plan_folder(folder, 2, 0).value().digest, two.digest);

  std::string wrong = program;
  wrong.replace(wrong.find("\"recv\", \"to\""), 6, "\"nop\"");
  write("broadcast.0.json", wrong);
  const auto broken = load_plan_folder(folder, 2, 0);
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("broadcast.0.json"), std::string::npos) << broken.error().message;

  EXPECT_TRUE(load_plan_folder("", 2, 0).value().programs.empty());
  EXPECT_NE(load_plan_folder(folder + "/nowhere", 2, 0).error().message.find("TUTTI_PLANS"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Select, PrefersTheUsersRule) {
  CallContext context;
  context.ranks = 4;
  context.bytes = 1 << 20;
  EXPECT_EQ(select(context, {}).algorithm, "staged");
  EXPECT_EQ(select(context, {}).when_mapped, "direct_push");
  EXPECT_EQ(select(context, parse_rules("all_reduce:1M-1M:ring").value()).algorithm, "ring");
}

TEST(Select, StagesWhatIsLargeAndLetsMappedMemoryBeTouched) {
  CallContext context;
  context.ranks = 8;
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all}) {
    context.collective = collective;
    context.bytes = 64;
    EXPECT_EQ(select(context, {}).algorithm, "oneshot") << name_of(collective);
    context.bytes = 1 << 20;
    EXPECT_EQ(select(context, {}).algorithm, "staged") << name_of(collective);
    EXPECT_NE(select(context, {}).when_mapped, "") << name_of(collective);
  }
}

TEST(Select, SendsSmallMessagesOfManyRanksOfAHostAlongATree) {
  CallContext context;
  context.bytes = 24;
  for (const Collective collective : {Collective::all_reduce, Collective::barrier}) {
    context.collective = collective;
    context.rank_order = false;
    context.ranks = 32;
    EXPECT_EQ(select(context, {}).algorithm, "oneshot") << name_of(collective);
    context.ranks = 64;
    EXPECT_EQ(select(context, {}).algorithm, "binomial") << name_of(collective);
  }
  context.rank_order = true;
  EXPECT_EQ(select(context, {}).algorithm, "binomial") << "a barrier reduces nothing";
  context.collective = Collective::all_reduce;
  EXPECT_EQ(select(context, {}).algorithm, "oneshot") << "a tree does not reduce in rank order";
}

TEST(Select, ReducesInRankOrderWhereAsked) {
  CallContext context;
  context.ranks = 16;
  context.hosts = 2;
  context.bytes = 64 << 20;
  context.rank_order = true;
  EXPECT_EQ(select(context, {}).algorithm, "oneshot");
}

}  // namespace
}  // namespace tutti
