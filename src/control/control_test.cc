#include "control/control.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <set>

#include "base/settings.hpp"
#include "control/control_test_kit.hpp"
#include "net/fake_sockets_test_kit.hpp"

namespace tutti {
namespace {

using namespace testing_support;

class WorldOf : public testing::TestWithParam<int> {};

TEST_P(WorldOf, BroadcastsReachEveryOtherProcessExactlyOnce) {
  const int n = GetParam();
  Cast cast(n);
  cast.listen();
  for (int origin = 0; origin < n; ++origin)
    for (int number = 0; number < 20; ++number)
      ASSERT_TRUE(cast.controls[origin]->broadcast(kTopic, bytes_of(fmt::format("{}:{}", origin, number))));
  const std::size_t expected = static_cast<std::size_t>(20 * (n - 1));
  for (int process = 0; process < n; ++process) {
    ASSERT_TRUE(cast.messages[process].wait_for_count(expected));
    const auto items = cast.messages[process].items();
    const std::set<Cast::Message> unique(items.begin(), items.end());
    EXPECT_EQ(items.size(), unique.size());
    EXPECT_EQ(unique.size(), expected);
    for (const auto& [from, text] : items) EXPECT_EQ(text.substr(0, text.find(':')), fmt::format("{}", from));
  }
}

TEST_P(WorldOf, MessagesReachOneProcessInOrder) {
  const int n = GetParam();
  Cast cast(n);
  cast.listen();
  const int target = n / 2;
  for (int number = 0; number < 50; ++number)
    for (int source = 0; source < n; ++source)
      ASSERT_TRUE(cast.controls[source]->send(target, kTopic, bytes_of(fmt::format("{:02}", number))));
  ASSERT_TRUE(cast.messages[target].wait_for_count(static_cast<std::size_t>(50 * n)));
  std::map<int, std::string> last;
  for (const auto& [from, text] : cast.messages[target].items()) {
    EXPECT_LT(last[from], text);
    last[from] = text;
  }
  EXPECT_EQ(last.size(), static_cast<std::size_t>(n));
}

INSTANTIATE_TEST_SUITE_P(Sizes, WorldOf, testing::Values(1, 2, 5, 16));

TEST(Control, KeepsMessagesUntilTheirTopicHasAHandler) {
  Cast cast(2);
  for (int number = 0; number < 10; ++number)
    ASSERT_TRUE(cast.controls[0]->send(1, kTopic + 1, bytes_of(fmt::format("{}", number))));
  // Once a later message on another topic is there, so are these.
  ASSERT_TRUE(cast.controls[0]->send(1, kTopic, bytes_of("last")));
  cast.listen();
  ASSERT_TRUE(cast.messages[1].wait_for_count(1));
  Record<std::string> early;
  cast.controls[1]->on_message(kTopic + 1, [&](int, std::span<const std::byte> bytes) { early.add(text_of(bytes)); });
  ASSERT_TRUE(early.wait_for_count(10));
  for (int number = 0; number < 10; ++number) EXPECT_EQ(early.items()[number], fmt::format("{}", number));
  cast.controls[1]->remove_topic(kTopic + 1);
}

TEST(Control, RemovingATopicWaitsForItsHandler) {
  Cast cast(2);
  Record<int> entered;
  std::atomic<bool> finished = false;
  cast.controls[1]->on_message(kTopic, [&](int, std::span<const std::byte>) {
    entered.add(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    finished = true;
  });
  ASSERT_TRUE(cast.controls[0]->send(1, kTopic, {}));
  ASSERT_TRUE(entered.wait_for_count(1));
  cast.controls[1]->remove_topic(kTopic);
  EXPECT_TRUE(finished);
}

TEST(Control, CarriesWhatIsAllowedAndRefusesMore) {
  Cast cast(2);
  cast.listen();
  const std::vector<std::byte> large(kMessageLimit, std::byte{'x'});
  ASSERT_TRUE(cast.controls[0]->send(1, kTopic, large));
  ASSERT_TRUE(cast.messages[1].wait_for_count(1));
  EXPECT_EQ(cast.messages[1].items()[0].second.size(), kMessageLimit);
  const std::vector<std::byte> larger(kMessageLimit + 1);
  EXPECT_EQ(cast.controls[0]->send(1, kTopic, larger).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(cast.controls[0]->broadcast(kTopic, larger).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(cast.controls[0]->send(2, kTopic, {}).error().code, ErrorCode::invalid_argument);
}

TEST(Control, ABroadcastToSomeIsPassedOnByAllAndHeardByThoseOnly) {
  Cast cast(9);
  cast.listen();
  ASSERT_TRUE(cast.controls[0]->broadcast(kTopic, bytes_of("some"), {0, 4, 7}));
  ASSERT_TRUE(cast.messages[4].wait_for_count(1));
  ASSERT_TRUE(cast.messages[7].wait_for_count(1));
  ASSERT_TRUE(cast.controls[0]->broadcast(kTopic, bytes_of("all")));
  for (int process = 1; process < 9; ++process) {
    const bool both = process == 4 || process == 7;
    ASSERT_TRUE(cast.messages[process].wait_for_count(both ? 2 : 1));
    EXPECT_EQ(cast.messages[process].items().front().second, both ? "some" : "all");
  }
  EXPECT_EQ(cast.controls[0]->broadcast(kTopic, {}, {9}).error().code, ErrorCode::invalid_argument);
}

// As communicators of other processes that are aborted, one after another.
TEST(Control, AWordIsHeardHoweverManyWereMeantForOthers) {
  Cast cast(3);
  constexpr std::uint64_t kOthers = 1000;
  for (std::uint64_t topic = kOthers; topic < kOthers + 1100; ++topic)
    ASSERT_TRUE(cast.controls[0]->broadcast(topic, bytes_of("aborted"), {0, 1}));
  ASSERT_TRUE(cast.controls[0]->broadcast(kTopic, bytes_of("aborted"), {0, 2}));
  Record<int> arrived;
  cast.controls[2]->on_message(kTopic + 1, [&](int from, std::span<const std::byte>) { arrived.add(from); });
  ASSERT_TRUE(cast.controls[0]->broadcast(kTopic + 1, {}));
  ASSERT_TRUE(arrived.wait_for_count(1));  // all that went before has come, and waits for its topic
  cast.listen();
  ASSERT_TRUE(cast.messages[2].wait_for_count(1));
  EXPECT_EQ(cast.messages[2].items().front().second, "aborted");
}

TEST(Control, GoodbyeIsNotDeath) {
  Cast cast(5);
  cast.controls[2]->leave();
  for (const int process : {0, 1, 3, 4}) {
    ASSERT_TRUE(cast.leaves[process].wait_for_count(1));
    EXPECT_EQ(cast.leaves[process].items(), std::vector<int>{2});
    EXPECT_TRUE(cast.controls[process]->has_left(2));
    EXPECT_FALSE(cast.controls[process]->alive(2));
    EXPECT_FALSE(cast.controls[process]->death_of(2));
    EXPECT_TRUE(cast.deaths[process].items().empty());
  }
}

TEST(Control, GoodbyeComesAfterWhatWasSent) {
  Cast cast(16);
  cast.listen();
  for (int process = 1; process < 16; ++process)
    ASSERT_TRUE(cast.controls[0]->send(process, kTopic, bytes_of("last words")));
  cast.controls[0]->leave();
  for (int process = 1; process < 16; ++process) EXPECT_TRUE(cast.messages[process].wait_for_count(1));
}

// 3 is no neighbour of 0, and all of its neighbours leave just before it does.
TEST(Control, GoodbyeIsHeardThoughAllNeighboursLeaveFirst) {
  Cast cast(8);
  for (const int process : {1, 2, 4, 5, 6, 7, 3}) cast.controls[process]->leave();
  ASSERT_TRUE(cast.leaves[0].wait_for_count(7));
  EXPECT_TRUE(cast.deaths[0].items().empty());
}

TEST(Control, GoodbyesAreHeardThoughAllButOneLeaveAtOnce) {
  constexpr int kProcesses = 24;
  Cast cast(kProcesses);
  std::vector<std::thread> leaving;
  for (int process = 1; process < kProcesses; ++process)
    leaving.emplace_back([&cast, process] { cast.controls[process]->leave(); });
  for (std::thread& each : leaving) each.join();
  ASSERT_TRUE(cast.leaves[0].wait_for_count(kProcesses - 1));
  EXPECT_TRUE(cast.deaths[0].items().empty());
}

TEST(Control, ProcessThatExitsAfterItsGoodbyeHasNotDied) {
  Child child(on_loopback());
  Cast cast(7, {&child});
  child.let_go();
  for (int process = 0; process < 7; ++process) {
    ASSERT_TRUE(cast.leaves[process].wait_for_count(1));
    EXPECT_TRUE(cast.deaths[process].items().empty());
  }
}

TEST(Control, JoinNamesThoseWhoDoNotCome) {
  auto here = Control::start("secret", on_loopback());
  auto absent = Control::start("secret", on_loopback());
  const Status joined = (*here)->join({(*here)->self(), (*absent)->self()}, 0, Deadline::in(0.1));
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::timed_out);
  EXPECT_NE(joined.error().message.find("process 1"), std::string::npos);
}

TEST(Control, LeavingEndsAJoinThatIsUnderWay) {
  auto here = Control::start("secret", on_loopback());
  auto absent = Control::start("secret", on_loopback());
  Status joined;
  std::thread joining([&] { joined = (*here)->join({(*absent)->self(), (*here)->self()}, 1, Deadline::in(20)); });
  (*here)->leave();
  joining.join();
  EXPECT_FALSE(joined);
}

TEST(Control, PeerDescriptionsSurviveTheirEncoding) {
  auto control = Control::start("secret", on_loopback("some host"));
  const ControlPeer& self = (*control)->self();
  const auto decoded = ControlPeer::decode(self.encode());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, self.id);
  EXPECT_EQ(decoded->addresses, self.addresses);
  EXPECT_EQ(decoded->pid, getpid());
  EXPECT_EQ(decoded->start_time, self.start_time);
  EXPECT_EQ(decoded->host, "some host");
  auto cut = self.encode();
  cut.pop_back();
  EXPECT_FALSE(ControlPeer::decode(cut));
}

TEST(Control, ListensOnThisHostsInterfacesByDefault) {
  auto control = Control::start("secret");
  ASSERT_TRUE(control) << control.error().message;
  ASSERT_FALSE((*control)->addresses().empty());
  for (const SocketAddress& address : (*control)->addresses()) {
    EXPECT_NE(address.port(), 0);
    EXPECT_FALSE(address.is_any());
  }
}

TEST(Control, WithoutASecretListensOnLoopbackOnly) {
  if (settings().insecure) GTEST_SKIP() << "TUTTI_INSECURE is set: unset it";
  auto control = Control::start("");
  ASSERT_TRUE(control) << control.error().message;
  ASSERT_FALSE((*control)->addresses().empty());
  for (const SocketAddress& address : (*control)->addresses()) EXPECT_TRUE(address.is_loopback());
}

TEST(Control, SleepsWhenNothingHappens) {
  Cast cast(5);
  const auto cpu_seconds = [] {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
  };
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_LT(cpu_seconds() - before, 0.1);
}

TEST(Control, TheOneWithAnotherSecretIsLeftOutsideAndOthersGoOn) {
  Cast cast(2);
  cast.listen();
  auto stranger = Control::start("another secret", on_loopback());
  const Status joined = (*stranger)->join({(*stranger)->self(), cast.controls[0]->self()}, 0, Deadline::in(0.2));
  EXPECT_FALSE(joined);
  ASSERT_TRUE(cast.controls[0]->send(1, kTopic, bytes_of("still here")));
  EXPECT_TRUE(cast.messages[1].wait_for_count(1));
  EXPECT_TRUE(cast.deaths[0].items().empty());
}

TEST(Control, ProcessOfAnotherWorldIsTurnedAway) {
  Cast cast(2);
  auto stranger = Control::start("secret", on_loopback());
  EXPECT_FALSE((*stranger)->join({(*stranger)->self(), cast.controls[0]->self()}, 0, Deadline::in(0.2)));
  EXPECT_TRUE(cast.deaths[0].items().empty());
}

TEST(Control, GarbageAndSilentConnectionsDelayNobody) {
  ControlOptions options = on_loopback();
  options.stranger_patience = 60;
  auto first = Control::start("secret", options);
  options.id = ProcessId::random();
  auto second = Control::start("secret", options);
  std::vector<Fd> strangers;
  for (int stranger = 0; stranger < 300; ++stranger) {
    auto connection = connect_once((*first)->addresses()[0], Deadline::in(5));
    ASSERT_TRUE(connection);
    if (stranger % 2 == 0) {
      ASSERT_TRUE(send_all(connection->get(), bytes_of("GET / HTTP/1.1\r\n\r\n"), Deadline::in(5)));
    }
    strangers.push_back(std::move(*connection));
  }
  const std::vector<ControlPeer> all = {(*first)->self(), (*second)->self()};
  Status other;
  std::thread joining([&] { other = (*second)->join(all, 1, Deadline::in(5)); });
  EXPECT_TRUE((*first)->join(all, 0, Deadline::in(5)));
  joining.join();
  EXPECT_TRUE(other);
}

TEST(Control, PulsesUntilNobodyWantsToHear) {
  ControlOptions options = on_loopback();
  options.pulse = 0.01;
  std::atomic<int> pulses{0};
  Record<int> later;
  auto control = Control::start("secret", options);
  const auto subscription = (*control)->on_pulse([&] { ++pulses; });
  const Deadline deadline = Deadline::in(10);
  while (pulses < 3 && !deadline.passed()) std::this_thread::yield();
  EXPECT_GE(pulses, 3);
  (*control)->unsubscribe(subscription);
  const int heard = pulses;
  (void)(*control)->on_pulse([&] { later.add(0); });
  EXPECT_TRUE(later.wait_for_count(2));
  EXPECT_EQ(pulses, heard);
}

TEST(Control, DoesNothingInAForkedChild) {
  auto control = Control::start("secret", on_loopback());
  ASSERT_TRUE((*control)->join({(*control)->self()}, 0, Deadline::in(5)));
  const pid_t child = fork();
  if (child == 0) {
    (void)(*control)->broadcast(kTopic, {});
    (*control)->leave();
    control->reset();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE((*control)->alive(0));
}

// Two hosts that only exist in this process.
TEST(Control, UsesTheSocketsThatItIsGiven) {
  SocketPairNetwork network;
  FakeSockets one(network, "10.0.0.1");
  FakeSockets other(network, "10.0.0.2");
  ControlOptions options;
  options.host = "one";
  options.sockets = &one;
  const auto first = Control::start("secret", options);
  options = {};
  options.host = "other";
  options.sockets = &other;
  const auto second = Control::start("secret", options);
  ASSERT_TRUE(first && second);
  ASSERT_EQ((*first)->addresses().size(), 1u);
  EXPECT_EQ((*first)->addresses().front().host(), "10.0.0.1");
  const std::vector<ControlPeer> all = {(*first)->self(), (*second)->self()};
  auto joins = std::async(std::launch::async, [&] { return (*first)->join(all, 0, Deadline::in(10)); });
  EXPECT_TRUE((*second)->join(all, 1, Deadline::in(10)));
  EXPECT_TRUE(joins.get());
  std::promise<std::string> heard;
  (*second)->on_message(kTopic, [&](int, std::span<const std::byte> bytes) { heard.set_value(text_of(bytes)); });
  ASSERT_TRUE((*first)->send(1, kTopic, bytes_of("hello")));
  EXPECT_EQ(heard.get_future().get(), "hello");
  EXPECT_GE(network.connections(), 1);
}

}  // namespace
}  // namespace tutti
