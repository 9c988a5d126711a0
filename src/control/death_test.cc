// Real processes that are killed, stopped and orphaned.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "control/control_test_kit.hpp"

namespace tutti {
namespace {

using namespace testing_support;

class KilledIn : public testing::TestWithParam<int> {};

TEST_P(KilledIn, AProcessOfThisHostIsKnownDeadToAllWithinASecond) {
  Child child(on_loopback());
  Cast cast(GetParam() - 1, {&child});
  const auto killed = Clock::now();
  child.signal(SIGKILL);
  for (auto& deaths : cast.deaths) ASSERT_TRUE(deaths.wait_for_count(1));
  EXPECT_LT(seconds_since(killed), 1.0);
  for (std::size_t process = 0; process < cast.controls.size(); ++process) {
    EXPECT_EQ(cast.deaths[process].items(), std::vector<int>{GetParam() - 1});
    const auto death = cast.controls[process]->death_of(GetParam() - 1);
    ASSERT_TRUE(death);
    EXPECT_EQ(death->error.code, ErrorCode::rank_died);
    EXPECT_EQ(death->error.peer, GetParam() - 1);
    EXPECT_EQ(death->certainty, Certainty::known);
    EXPECT_FALSE(cast.controls[process]->alive(GetParam() - 1));
  }
}

TEST_P(KilledIn, AProcessOfAnotherHostIsKnownDeadToAllWithinASecond) {
  Child child(on_loopback("another host"));
  Cast cast(GetParam() - 1, {&child});
  const auto killed = Clock::now();
  child.signal(SIGKILL);
  for (auto& deaths : cast.deaths) ASSERT_TRUE(deaths.wait_for_count(1));
  EXPECT_LT(seconds_since(killed), 1.0);
}

INSTANTIATE_TEST_SUITE_P(Worlds, KilledIn, testing::Values(2, 5, 16));

TEST(Death, KnownBeforeTheSubscriptionIsTold) {
  Child child(on_loopback());
  Cast cast(1, {&child});
  child.signal(SIGKILL);
  ASSERT_TRUE(cast.deaths[0].wait_for_count(1));
  Record<int> later;
  const auto subscription = cast.controls[0]->on_death([&](int who, const Death&) { later.add(who); });
  EXPECT_TRUE(later.wait_for_count(1));
  cast.controls[0]->unsubscribe(subscription);
  EXPECT_EQ(later.items(), std::vector<int>{1});
}

TEST(Death, OfSeveralAtOnceIsKnownToAllAndBroadcastsStillReachEveryoneOnce) {
  std::vector<std::unique_ptr<Child>> children;
  std::vector<Child*> pointers;
  for (int child = 0; child < 6; ++child) {
    children.push_back(
        std::make_unique<Child>(on_loopback(child % 2 == 0 ? "" : "another host"), [](Control& control, const auto&) {
          for (int number = 0; number < 200; ++number)
            (void)control.broadcast(kTopic, bytes_of(fmt::format("{}", number)));
        }));
    pointers.push_back(children.back().get());
  }
  Cast cast(10, pointers);
  cast.listen();
  for (int number = 0; number < 50; ++number) {
    for (auto& control : cast.controls) ASSERT_TRUE(control->broadcast(kTopic, bytes_of(fmt::format("{}", number))));
    if (number < 6) children[static_cast<std::size_t>(number)]->signal(SIGKILL);
  }
  for (std::size_t process = 0; process < 10; ++process) {
    ASSERT_TRUE(cast.deaths[process].wait_for_count(6));
    ASSERT_TRUE(cast.messages[process].wait([](const auto& items) {
      return std::count_if(items.begin(), items.end(), [](const auto& item) { return item.first < 10; }) >= 9 * 50;
    }));
    const auto items = cast.messages[process].items();
    const std::set<Cast::Message> unique(items.begin(), items.end());
    EXPECT_EQ(items.size(), unique.size()) << "something came twice";
  }
}

TEST(Death, OfAProcessWhoseOwnChildLivesOnIsSeen) {
  Child child(on_loopback("another host"), [](Control&, const auto& report) {
    const pid_t loader = fork();
    if (loader == 0) {
      pause();
      _exit(0);
    }
    report('r');
    // Killed with the parent only by hand: the pid goes up as bytes.
    for (std::size_t at = 0; at < sizeof loader; ++at) report(reinterpret_cast<const char*>(&loader)[at]);
  });
  Cast cast(2, {&child});
  ASSERT_EQ(child.next_report(), 'r');
  pid_t loader = 0;
  for (std::size_t at = 0; at < sizeof loader; ++at) reinterpret_cast<char*>(&loader)[at] = child.next_report();
  ASSERT_GT(loader, 1);
  const auto killed = Clock::now();
  child.signal(SIGKILL);
  EXPECT_TRUE(cast.deaths[0].wait_for_count(1));
  EXPECT_TRUE(cast.deaths[1].wait_for_count(1));
  EXPECT_LT(seconds_since(killed), 1.0);
  EXPECT_EQ(kill(loader, SIGKILL), 0) << "the loader was to outlive its parent";
}

TEST(Death, BySilenceIsForOtherHostsOnlyAndTheSilentOneLearnsOfIt) {
  const double timeout = 1.0;
  Child here(on_loopback({}, timeout), [](Control& control, const auto& report) {
    control.on_message(kTopic, [report](int, std::span<const std::byte>) { report('m'); });
    report('j');
  });
  Child elsewhere(on_loopback("another host", timeout), [](Control& control, const auto& report) {
    control.on_death([report, &control](int who, const Death&) { report(control.alive(2) && who == 3 ? 's' : 'x'); });
    report('j');
  });
  Cast cast(2, {&here, &elsewhere}, on_loopback({}, timeout));
  for (Child* child : {&here, &elsewhere}) ASSERT_EQ(child->next_report(), 'j');  // one that joins may not lose anyone
  here.signal(SIGSTOP);
  elsewhere.signal(SIGSTOP);
  for (auto& deaths : cast.deaths) {
    ASSERT_TRUE(deaths.wait_for_count(1));
    EXPECT_EQ(deaths.items(), std::vector<int>{3});
  }
  EXPECT_TRUE(cast.controls[0]->alive(2));
  // Both go on: one is a member as before, the other learns that it counts as dead, and blames nobody.
  ASSERT_TRUE(cast.controls[0]->send(2, kTopic, {}));
  here.signal(SIGCONT);
  EXPECT_EQ(here.next_report(), 'm');
  elsewhere.signal(SIGCONT);
  EXPECT_EQ(elsewhere.next_report(), 's');
  EXPECT_EQ(cast.deaths[0].items(), std::vector<int>{3});
  EXPECT_EQ(cast.deaths[1].items(), std::vector<int>{3});
}

}  // namespace
}  // namespace tutti
