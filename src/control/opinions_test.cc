// What proves a death, and what does not: refusals, resets, and a process that only one other cannot reach.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>

#include "control/control_test_kit.hpp"
#include "control/proxy_test_kit.hpp"

namespace tutti {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;

constexpr double kTimeout = 1.0;

// Processes as if each was on a host of its own. The first and the last reach each other by proxies only.
class Apart {
 public:
  explicit Apart(int processes) : last_(processes - 1), deaths(processes), messages(processes) {
    std::vector<ControlPeer> all;
    for (int process = 0; process < processes; ++process) {
      auto control = Control::start("secret", on_loopback(fmt::format("host {}", process), kTimeout));
      if (!control) std::abort();
      controls.push_back(std::move(*control));
      all.push_back(controls.back()->self());
    }
    // Not where connections seem to come from: 127.0.0.1.
    for (const int process : {0, last_}) {
      proxies_.push_back(std::make_unique<Proxy>(SocketAddress::parse("127.0.0.5:0").value()));
      proxies_.back()->lead_to(all[process].addresses[0]);
    }
    std::vector<std::thread> joining;
    for (int process = 0; process < processes; ++process) {
      std::vector<ControlPeer> seen = all;
      if (process == 0) seen[last_].addresses = {proxies_[1]->address()};
      if (process == last_) seen[0].addresses = {proxies_[0]->address()};
      joining.emplace_back([this, process, seen] {
        const Status joined = controls[process]->join(seen, process, Deadline::in(20));
        EXPECT_TRUE(joined) << joined.error().message;
      });
    }
    for (auto& thread : joining) thread.join();
    for (int process = 0; process < processes; ++process) {
      controls[process]->on_death([this, process](int who, const Death& death) {
        deaths[process].add({who, death.certainty});
      });
      controls[process]->on_message(
          kTopic, [this, process](int, std::span<const std::byte> bytes) { messages[process].add(text_of(bytes)); });
    }
  }
  ~Apart() {
    std::vector<std::thread> leaving;
    for (auto& control : controls) leaving.emplace_back([&control] { control.reset(); });
    for (auto& thread : leaving) thread.join();
  }
  Apart(const Apart&) = delete;
  Apart& operator=(const Apart&) = delete;

  void refuse() {
    for (auto& proxy : proxies_) proxy->refuse();
  }
  void set_silent() {
    for (auto& proxy : proxies_) proxy->set_silent(true);
  }

 private:
  int last_;
  std::vector<std::unique_ptr<Proxy>> proxies_;

 public:
  std::vector<Record<std::pair<int, Certainty>>> deaths;
  std::vector<Record<std::string>> messages;
  std::vector<std::unique_ptr<Control>> controls;
};

void expect_reached_and_alive(Apart& apart) {
  for (int number = 0; number < 3; ++number) {
    ASSERT_TRUE(apart.controls[0]->send(2, kTopic, bytes_of(fmt::format("{}", number))));
    ASSERT_TRUE(apart.controls[2]->send(0, kTopic, bytes_of(fmt::format("{}", number))));
    // Longer than it takes to presume a death.
    std::this_thread::sleep_for(std::chrono::duration<double>(kTimeout));
  }
  for (const int process : {0, 2}) EXPECT_TRUE(apart.messages[process].wait_for_count(3)) << process;
  for (auto& deaths : apart.deaths) EXPECT_TRUE(deaths.items().empty()) << "a living process was called dead";
}

TEST(Opinions, AFirewallThatRejectsBetweenTwoHostsKillsNobody) {
  Apart apart(3);
  apart.refuse();
  expect_reached_and_alive(apart);
}

TEST(Opinions, AFirewallThatDropsBetweenTwoHostsKillsNobody) {
  Apart apart(3);
  apart.set_silent();
  expect_reached_and_alive(apart);
}

TEST(Opinions, AProcessThatNobodyHearsAndWhoseAddressRefusesIsPresumedDead) {
  Apart apart(2);
  apart.refuse();
  for (const int process : {0, 1}) {
    ASSERT_TRUE(apart.deaths[process].wait_for_count(1));
    const auto first = apart.deaths[process].items().front();
    EXPECT_EQ(first.first, 1 - process);
    EXPECT_EQ(first.second, Certainty::presumed);
  }
}

// Its kernel resets connections on which something lies unread, as a firewall might.
TEST(Opinions, AProcessThatIsKilledWithUnreadMessagesIsKnownToBeDead) {
  Child child(on_loopback("another host", 3.0));
  Cast cast(2, {&child}, on_loopback({}, 3.0));
  std::this_thread::sleep_for(600ms);  // two heartbeats: lifelines are open by now
  child.signal(SIGSTOP);
  for (int number = 0; number < 10; ++number)
    for (auto& control : cast.controls) ASSERT_TRUE(control->send(2, kTopic, bytes_of("unread")));
  std::this_thread::sleep_for(100ms);
  const auto killed = Clock::now();
  child.signal(SIGKILL);
  for (std::size_t process = 0; process < 2; ++process) {
    ASSERT_TRUE(cast.deaths[process].wait_for_count(1));
    EXPECT_LT(seconds_since(killed), 1.0);
    EXPECT_EQ(cast.controls[process]->death_of(2)->certainty, Certainty::known);
  }
}

TEST(Opinions, AProcessThatIsStoppedIsPresumedDead) {
  Child child(on_loopback("another host", kTimeout));
  Cast cast(2, {&child}, on_loopback({}, kTimeout));
  child.signal(SIGSTOP);
  for (std::size_t process = 0; process < 2; ++process) {
    ASSERT_TRUE(cast.deaths[process].wait_for_count(1));
    EXPECT_EQ(cast.controls[process]->death_of(2)->certainty, Certainty::presumed);
  }
}

}  // namespace
}  // namespace tutti
