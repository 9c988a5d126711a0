// Networks that fail between processes that live: what was said arrives, once and in order, and nobody is called dead.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "control/control_test_kit.hpp"
#include "control/frame.hpp"
#include "control/impostor_test_kit.hpp"
#include "control/proxy_test_kit.hpp"

namespace tutti {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;

SocketAddress loopback(int last) { return SocketAddress::parse(fmt::format("127.0.0.{}:0", last)).value(); }

// Two processes as if on two hosts, each of which reaches the other over two rails.
class Rails : public testing::Test {
 protected:
  static constexpr double kTimeout = 1.0;

  void SetUp() override {
    for (int process = 0; process < 2; ++process) {
      auto control = Control::start("secret", on_loopback(fmt::format("host {}", process), kTimeout));
      ASSERT_TRUE(control) << control.error().message;
      controls.push_back(std::move(*control));
    }
    for (int process = 0; process < 2; ++process) {
      ControlPeer peer = controls[process]->self();
      const SocketAddress target = peer.addresses[0];
      peer.addresses.clear();
      for (int rail = 0; rail < 2; ++rail) {
        // Not where connections seem to come from: 127.0.0.1.
        rails[rail].push_back(std::make_unique<Proxy>(loopback(2 + rail)));
        rails[rail].back()->lead_to(target);
        peer.addresses.push_back(rails[rail].back()->address());
      }
      all.push_back(peer);
    }
  }

  void join() {
    std::vector<std::thread> joining;
    for (int process = 0; process < 2; ++process)
      joining.emplace_back([this, process] {
        const Status joined = controls[process]->join(all, process, Deadline::in(20));
        EXPECT_TRUE(joined) << joined.error().message;
      });
    for (auto& thread : joining) thread.join();
    for (int process = 0; process < 2; ++process) {
      controls[process]->on_death([this, process](int who, const Death&) { deaths[process].add(who); });
      controls[process]->on_message(
          kTopic, [this, process](int, std::span<const std::byte> bytes) { messages[process].add(text_of(bytes)); });
    }
  }

  void TearDown() override {
    for (const auto& record : deaths) EXPECT_TRUE(record.items().empty()) << "a living process was called dead";
    std::vector<std::thread> leaving;
    for (auto& control : controls) leaving.emplace_back([&control] { control.reset(); });
    for (auto& thread : leaving) thread.join();
  }

  // To the other one, or to everyone, which is the same here.
  void say(int number) {
    const auto bytes = bytes_of(fmt::format("{}", number));
    for (int process = 0; process < 2; ++process) {
      ASSERT_TRUE(number % 2 == 0 ? controls[process]->send(1 - process, kTopic, bytes)
                                  : controls[process]->broadcast(kTopic, bytes));
    }
  }
  void expect_all_said(int count) {
    for (auto& record : messages) {
      ASSERT_TRUE(record.wait_for_count(static_cast<std::size_t>(count)));
      const auto items = record.items();
      ASSERT_EQ(items.size(), static_cast<std::size_t>(count));
      for (int number = 0; number < count; ++number) ASSERT_EQ(items[number], fmt::format("{}", number));
    }
  }
  void set_silent(int rail, bool silent) {
    for (auto& proxy : rails[rail]) proxy->set_silent(silent);
  }
  int carried(int rail) const { return rails[rail][0]->carried() + rails[rail][1]->carried(); }

  std::vector<std::unique_ptr<Proxy>> rails[2];  // [rail][process it leads to]
  std::vector<std::unique_ptr<Control>> controls;
  std::vector<ControlPeer> all;
  Record<int> deaths[2];
  Record<std::string> messages[2];
};

TEST_F(Rails, ConnectionsThatAreCutAgainAndAgainLoseNothing) {
  join();
  int number = 0;
  for (int cut = 0; cut < 10; ++cut) {
    for (int burst = 0; burst < 300; ++burst) say(number++);
    for (auto& rail : rails)
      for (auto& proxy : rail) proxy->cut();
    for (int burst = 0; burst < 300; ++burst) say(number++);
    std::this_thread::sleep_for(20ms);
  }
  expect_all_said(number);
}

TEST_F(Rails, ARailThatFallsSilentIsLeftForTheOther) {
  join();
  say(0);
  expect_all_said(1);
  ASSERT_GT(carried(0), 0);
  set_silent(0, true);
  const auto broken = Clock::now();
  for (int number = 1; number < 1000; ++number) say(number);
  expect_all_said(1000);
  EXPECT_LT(seconds_since(broken), kTimeout);
  EXPECT_GT(carried(1), 0);
  std::this_thread::sleep_for(std::chrono::duration<double>(1.2 * kTimeout));
}

TEST_F(Rails, BothRailsMayBeSilentForAWhile) {
  join();
  set_silent(0, true);
  set_silent(1, true);
  for (int number = 0; number < 100; ++number) say(number);
  std::this_thread::sleep_for(std::chrono::duration<double>(0.6 * kTimeout));
  set_silent(0, false);
  set_silent(1, false);
  for (int number = 100; number < 200; ++number) say(number);
  expect_all_said(200);
}

TEST_F(Rails, RailsThatFailInTurnLoseNothing) {
  join();
  int number = 0;
  for (const int broken : {0, 1, 0}) {
    set_silent(broken, true);
    set_silent(1 - broken, false);
    for (int burst = 0; burst < 100; ++burst) say(number++);
    expect_all_said(number);
  }
}

TEST_F(Rails, JoiningTakesTheSecondAddressWhereTheFirstIsDead) {
  set_silent(0, true);
  const auto began = Clock::now();
  join();
  EXPECT_LT(seconds_since(began), 1.0);
  say(0);
  expect_all_said(1);
}

TEST_F(Rails, WhoWaitsToBeDialedDialsIfAFirewallKeepsTheOtherFromIt) {
  for (auto& rail : rails) rail[1]->set_silent(true);
  const auto start = Clock::now();
  join();
  EXPECT_LT(seconds_since(start), 3 * kTimeout);
  say(0);
  expect_all_said(1);
}

TEST_F(Rails, AProcessThatLeavesOverTheSecondRailHasNotDied) {
  join();
  Record<int> leaves;
  controls[0]->on_leave([&](int who) { leaves.add(who); });
  set_silent(0, true);
  say(0);
  expect_all_said(1);
  controls[1]->leave();
  EXPECT_TRUE(leaves.wait_for_count(1));
}

TEST_F(Rails, AGoodbyeSurvivesACut) {
  join();
  Record<int> leaves;
  controls[0]->on_leave([&](int who) { leaves.add(who); });
  for (int number = 0; number < 100; ++number) say(number);
  for (auto& rail : rails)
    for (auto& proxy : rail) proxy->cut();
  controls[1]->leave();
  EXPECT_TRUE(leaves.wait_for_count(1));
  ASSERT_TRUE(messages[0].wait_for_count(100));
}

TEST(RailsRules, AConnectionThatBreaksThemEndsAndTheSessionGoesOn) {
  auto control = Control::start("secret", on_loopback()).value();
  ControlPeer other;
  other.id = ProcessId::random();
  const Fd nobody = listen_on(loopback(4)).value();  // accepts nothing, says nothing
  other.addresses = {local_address(nobody.get()).value()};
  Record<std::string> messages;
  control->on_message(kTopic, [&](int, std::span<const std::byte> bytes) { messages.add(text_of(bytes)); });
  Impostor impostor(other.id);
  impostor.connect(control->self());
  ASSERT_TRUE(control->join({control->self(), other}, 0, Deadline::in(5)));

  impostor.say(1, "one");
  impostor.say(3, "a gap");
  EXPECT_TRUE(impostor.is_hung_up_on());
  impostor.connect(control->self());
  impostor.say(1, "one, again");
  impostor.acknowledge(1000);
  EXPECT_TRUE(impostor.is_hung_up_on());
  impostor.connect(control->self());
  impostor.say(0, "outside the session");
  EXPECT_TRUE(impostor.is_hung_up_on());
  impostor.connect(control->self());
  impostor.send(encode_frame(ControlFrame::heartbeat, {}));
  EXPECT_TRUE(impostor.is_hung_up_on());
  impostor.connect(control->self());
  impostor.say(2, "two");
  ASSERT_TRUE(messages.wait_for_count(2));
  EXPECT_EQ(messages.items(), (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(control->alive(1));
}

// Attempts that were under way while a process stood still may all succeed.
TEST(RailsRules, OfManyConnectionsThatCarryASessionTheLowerProcessKeepsTheTwoNewest) {
  auto control = Control::start("secret", on_loopback("here", 20)).value();
  ControlPeer other;
  other.id = ProcessId::random();
  const Fd nobody = listen_on(loopback(4)).value();
  other.addresses = {local_address(nobody.get()).value()};
  Record<std::string> messages;
  control->on_message(kTopic, [&](int, std::span<const std::byte> bytes) { messages.add(text_of(bytes)); });
  std::vector<Impostor> connections;
  for (int i = 0; i < 5; ++i) connections.emplace_back(other.id);
  connections[0].connect(control->self());
  ASSERT_TRUE(control->join({control->self(), other}, 0, Deadline::in(5)));
  const auto begun = Clock::now();
  for (std::size_t i = 1; i < connections.size(); ++i) connections[i].connect(control->self());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(connections[i].is_hung_up_on()) << "connection " << i;
  EXPECT_LT(seconds_since(begun), 5) << "not because they are silent";
  connections[3].say(1, "one");
  connections[4].say(2, "two");
  ASSERT_TRUE(messages.wait_for_count(2));
  EXPECT_TRUE(control->alive(1));
}

// A listener that nobody accepts from: connections open, and nothing comes.
TEST(RailsDeath, OfAProcessWithADeadAddressIsKnownWithinASecond) {
  const Fd dead = listen_on(loopback(4)).value();
  Child child(on_loopback("another host"));
  ControlPeer peer = child.peer();
  peer.addresses.insert(peer.addresses.begin(), local_address(dead.get()).value());
  auto control = Control::start("secret", on_loopback());
  ASSERT_TRUE(control);
  const std::vector<ControlPeer> all = {(*control)->self(), peer};
  child.tell_world(all, 1);
  ASSERT_TRUE((*control)->join(all, 0, Deadline::in(20)));
  Record<int> deaths;
  (*control)->on_death([&](int who, const Death&) { deaths.add(who); });
  const auto killed = Clock::now();
  child.signal(SIGKILL);
  ASSERT_TRUE(deaths.wait_for_count(1));
  EXPECT_LT(seconds_since(killed), 1.0);
}

}  // namespace
}  // namespace tutti
