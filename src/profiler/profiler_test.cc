#include "profiler/profiler.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

#include "profiler/plugin.hpp"

namespace tutti::profiler {
namespace {

/// A plugin that remembers what it was told, as lines.
struct Witness {
  int wanted = 0;
  int init_fails = 0;
  std::vector<std::string> lines;
  std::deque<std::string> events;  // a handle points to its name
  int* mask = nullptr;
  abi::Description last{};

  static Witness& instance() {
    static Witness witness;
    return witness;
  }
};

Witness& seen() { return Witness::instance(); }

std::string name_of(const void* event) {
  return event == nullptr ? "nothing" : *static_cast<const std::string*>(event);
}

std::string kind_of(std::uint64_t kind) {
  switch (kind) {
    case abi::group:
      return "group";
    case abi::collective:
      return "collective";
    case abi::point_to_point:
      return "point_to_point";
    case abi::kernel_channel:
      return "channel";
    case abi::group_call:
      return "group_call";
    case abi::collective_call:
      return "collective_call";
    case abi::point_to_point_call:
      return "point_to_point_call";
    default:
      return fmt::format("kind {}", kind);
  }
}

int on_init(void** context, std::uint64_t id, int* mask, const char* name, int hosts, int ranks, int rank,
            abi::Logger log) {
  log(static_cast<int>(abi::LogLevel::trace), 0, "", 0, "%s %d", "hello", 1);
  seen().lines.push_back(fmt::format("init {:x} {} {} {} {}", id, name == nullptr ? "null" : name, hosts, ranks, rank));
  *context = &seen();
  *mask = seen().wanted;
  seen().mask = mask;
  return seen().init_fails;
}
int on_start(void* context, void** event, abi::Description* description) {
  EXPECT_EQ(context, &seen());
  seen().last = *description;
  *event = &seen().events.emplace_back(kind_of(description->kind));
  seen().lines.push_back(fmt::format("start {} under {}", name_of(*event), name_of(description->parent)));
  return 0;
}
int on_stop(void* event) {
  seen().lines.push_back(fmt::format("stop {}", name_of(event)));
  return 0;
}
int on_state(void* event, int state, abi::StateArguments*) {
  seen().lines.push_back(fmt::format("state {} of {}", state, name_of(event)));
  return 0;
}
int on_finalize(void* context) {
  EXPECT_EQ(context, &seen());
  seen().lines.push_back("finalize");
  return 0;
}

constexpr abi::Plugin kPlugin = {"witness", on_init, on_start, on_stop, on_state, on_finalize};

class ProfilerOf : public testing::Test {
 protected:
  ProfilerOf() { seen() = {}; }

  /// One operation of a communicator, told to a plugin with this mask.
  static std::vector<std::string> tell(int mask, const ProfiledCall& call) {
    seen().wanted = mask;
    Profiler profiler(kPlugin);
    auto communicator = profiler.open({0xabc, "world", 2, 4, 3});
    ProfiledOperation operation = communicator->begin(call);
    communicator->end(operation);
    communicator->end(operation);  // a second time: nothing
    communicator.reset();
    return seen().lines;
  }

  static ProfiledCall all_reduce() {
    ProfiledCall call;
    call.function = "AllReduce";
    call.type = "ncclFloat32";
    call.count = 1000;
    call.number = 17;
    call.program = "ring";
    return call;
  }
};

using Lines = std::vector<std::string>;

TEST_F(ProfilerOf, ACommunicatorSaysWhoItIs) {
  EXPECT_EQ(tell(0, all_reduce()), (Lines{"init abc world 2 4 3", "finalize"}));
}

TEST_F(ProfilerOf, ACollectiveComesWithItsParents) {
  EXPECT_EQ(tell(abi::collective, all_reduce()),
            (Lines{"init abc world 2 4 3", "start group_call under nothing", "state 23 of group_call",
                   "start collective_call under group_call", "start group under nothing",
                   "start collective under collective_call", "state 24 of group_call", "stop collective", "stop group",
                   "stop collective_call", "stop group_call", "finalize"}));
  EXPECT_EQ(seen().last.rank, 3);
  const abi::CollectiveOperation& told = seen().last.collective;
  EXPECT_EQ(told.number, 17U);
  EXPECT_EQ(told.count, 1000U);
  EXPECT_STREQ(told.function, "AllReduce");
  EXPECT_STREQ(told.type, "ncclFloat32");
  EXPECT_EQ(told.channels, 1);
  EXPECT_EQ(name_of(told.group), "group");
}

TEST_F(ProfilerOf, AChannelIsStampedByTheTimeOfDayWhenItBeginsAndEnds) {
  const Lines lines = tell(abi::collective | abi::kernel_channel, all_reduce());
  EXPECT_EQ(lines[6], "start channel under collective");
  EXPECT_EQ(lines[7], "state 22 of channel");
  EXPECT_EQ(lines[9], "stop channel");
  EXPECT_GT(seen().last.kernel_channel.began, 1'000'000'000ULL * 1'000'000'000ULL);
}

TEST_F(ProfilerOf, ASendIsPointToPointWithItsPeer) {
  ProfiledCall call = all_reduce();
  call.function = "Send";
  call.point_to_point = true;
  call.root = 2;
  int buffer = 0;
  call.send = &buffer;
  const Lines lines = tell(abi::point_to_point, call);
  EXPECT_EQ(lines[3], "start point_to_point_call under group_call");
  EXPECT_EQ(lines[5], "start point_to_point under point_to_point_call");
  EXPECT_EQ(seen().last.point_to_point.peer, 2);
  EXPECT_EQ(seen().last.point_to_point.buffer, &buffer);
}

TEST_F(ProfilerOf, APluginMayChangeItsMindAtAnyTime) {
  Profiler profiler(kPlugin);
  auto communicator = profiler.open({1, "", 1, 1, 0});
  EXPECT_EQ(seen().lines.back(), "init 1 null 1 1 0");
  ProfiledOperation silent = communicator->begin(all_reduce());
  *seen().mask = abi::group_call;
  ProfiledOperation told = communicator->begin(all_reduce());
  communicator->end(silent);
  *seen().mask = 0;
  communicator->end(told);
  EXPECT_EQ(seen().lines, (Lines{"init 1 null 1 1 0", "start group_call under nothing", "state 23 of group_call",
                                 "state 24 of group_call", "stop group_call"}));
}

TEST_F(ProfilerOf, APluginThatFailsToBeginIsToldNothing) {
  seen().init_fails = 3;
  Profiler profiler(kPlugin);
  EXPECT_EQ(profiler.open({1, "", 1, 1, 0}), nullptr);
  EXPECT_EQ(seen().lines.size(), 1U);
}

TEST_F(ProfilerOf, TextsAPluginKeepsOutliveTheOperation) {
  seen().wanted = abi::collective;
  Profiler profiler(kPlugin);
  auto communicator = profiler.open({1, "", 1, 1, 0});
  ProfiledCall call = all_reduce();
  std::string program = "a program whose name is too long for a string to keep it within";
  call.program = program;
  ProfiledOperation operation = communicator->begin(call);
  const char* const kept = seen().last.collective.algorithm;
  communicator->end(operation);
  program.assign(program.size(), 'x');
  EXPECT_STREQ(kept, "a program whose name is too long for a string to keep it within");
}

TEST(Plugin, IsLookedForAsNcclDoes) {
  EXPECT_EQ(candidates("inspector"), (Lines{"inspector", "libnccl-profiler-inspector.so"}));
  EXPECT_EQ(candidates("libmine.so"), Lines{"libmine.so"});
  EXPECT_EQ(candidates("./mine"), Lines{"./mine"});
}

TEST(Plugin, ThatIsNotThereIsNamedWithAllThatWasTried) {
  const auto loaded = load_plugin("no-such-plugin");
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().message.find("no-such-plugin:"), std::string::npos) << loaded.error().message;
  EXPECT_NE(loaded.error().message.find("libnccl-profiler-no-such-plugin.so:"), std::string::npos);
}

TEST(Plugin, ThatIsAnotherLibraryIsToldSo) {
  const auto loaded = load_plugin("libm.so.6");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().message, "libm.so.6 exports no ncclProfiler_v5");
}

}  // namespace
}  // namespace tutti::profiler
