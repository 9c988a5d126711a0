#include "transport/fake/network.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "transport/fake/conversation_test_kit.hpp"

namespace tutti {
namespace {

// Lanes are lost by the thousand here; each would be a line in the log.
[[maybe_unused]] const int kQuiet = ::setenv("TUTTI_LOG", "off", 1);

const LinkId kThere{77, 0, 1, 2};
const LinkId kBack{77, 1, 0, 2};

std::shared_ptr<Peer> make_peer() {
  PeerOptions options;
  options.limits = small_limits();
  return std::make_shared<Peer>("peer", std::move(options));
}

Conversation::Draw drawing(FakeNetwork& network) {
  return [&network](std::uint64_t bound) { return network.draw(bound); };
}

struct Totals {
  std::uint64_t replays = 0;
  std::uint64_t cuts = 0;
  std::uint64_t returns = 0;
};

void run_seed(std::uint64_t seed, bool cuts_lanes, Totals& totals) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  FakeFaults faults;
  faults.max_delay = seed % 5 == 0 ? 2000 : 100;
  faults.replay_percent = seed % 3 == 0 ? 20 : 0;
  FakeNetwork network(seed, faults);
  const auto one = make_peer();
  const auto other = make_peer();
  Conversation there(drawing(network), *one, *other, kThere, 30);
  Conversation back(drawing(network), *other, *one, kBack, seed % 2 == 0 ? 30 : 0);
  std::vector<std::uint32_t> epochs(1 + network.draw(4), 1);
  for (std::uint32_t lane = 0; lane < epochs.size(); ++lane) ASSERT_TRUE(network.connect(*one, *other, lane, 1));
  std::uint64_t idle = 0;
  while ((!there.done() || !back.done()) && !testing::Test::HasFatalFailure()) {
    const bool happened = network.step();
    for (Conversation* each : {&there, &back}) {
      each->act();
      each->check();
    }
    idle = happened ? 0 : idle + 1;
    ASSERT_LT(idle, 1000u) << "nothing is under way, and nothing gets on: " << there.progress()
                           << "; back: " << back.progress();
    if (!cuts_lanes || network.draw(40) != 0) continue;
    const auto living = network.living();
    if (living.size() > 1) {
      network.cut(living[network.draw(living.size())]);
      ++totals.cuts;
    }
    const auto lane = static_cast<std::uint32_t>(network.draw(epochs.size()));
    if (std::find(living.begin(), living.end(), lane) == living.end() &&
        network.connect(*one, *other, lane, ++epochs[lane]))
      ++totals.returns;
  }
  totals.replays += network.replays();
}

TEST(FakeLanes, BytesArriveOnceAndInOrderWhateverLanesDo) {
  Totals totals;
  for (std::uint64_t seed = 1; seed <= 1500 && !HasFatalFailure(); ++seed) run_seed(seed, false, totals);
  EXPECT_GT(totals.replays, 500u);
}

TEST(FakeLanes, NothingIsLostOrAppliedTwiceWhenLanesBreakAndReturn) {
  Totals totals;
  for (std::uint64_t seed = 1; seed <= 1500 && !HasFatalFailure(); ++seed) run_seed(seed, true, totals);
  EXPECT_GT(totals.cuts, 500u);
  EXPECT_GT(totals.returns, 100u);
  EXPECT_GT(totals.replays, 500u);
}

TEST(FakeLanes, TheSameSeedTakesTheSameCourse) {
  const auto course = [](std::uint64_t seed) {
    FakeNetwork network(seed, {});
    const auto one = make_peer();
    const auto other = make_peer();
    Conversation conversation(drawing(network), *one, *other, kThere, 20);
    network.connect(*one, *other, 0, 1);
    while (!conversation.done()) {
      network.step();
      conversation.act();
    }
    return network.now();
  };
  EXPECT_EQ(course(5), course(5));
  EXPECT_NE(course(5), course(6));
}

TEST(FakeLanes, WithoutALaneLinksWait) {
  FakeNetwork network(1, {});
  const auto one = make_peer();
  const auto other = make_peer();
  Conversation conversation(drawing(network), *one, *other, kThere, 20);
  network.connect(*one, *other, 0, 1);
  network.connect(*one, *other, 1, 1);
  for (int step = 0; step < 20; ++step) {
    network.step();
    conversation.act();
  }
  network.cut(0);
  network.cut(1);
  for (int step = 0; step < 500; ++step) {
    network.step();
    conversation.act();
    conversation.check();
  }
  ASSERT_FALSE(conversation.done());
  ASSERT_TRUE(network.connect(*one, *other, 1, 2));
  for (int step = 0; step < 5000 && !conversation.done(); ++step) {
    network.step();
    conversation.act();
    conversation.check();
  }
  EXPECT_TRUE(conversation.done()) << conversation.progress();
}

}  // namespace
}  // namespace tutti
