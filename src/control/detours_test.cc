// Processes whose only network port is dead, and others that pass on what they say.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "control/control_test_kit.hpp"
#include "control/impostor_test_kit.hpp"
#include "control/proxy_test_kit.hpp"
#include "net/local_listener.hpp"
#include "net/relays.hpp"

namespace tutti {
namespace {

using namespace testing_support;
using namespace std::chrono_literals;

// Not where connections seem to come from: 127.0.0.1.
SocketAddress rail() { return SocketAddress::parse("127.0.0.7:0").value(); }

constexpr const char* kNowhere = "/proc/self/fd/1000000";

// All that a process hears and says by TCP goes through its port.
class Port {
 public:
  explicit Port(const SocketAddress& process) : in_(rail()) { in_.lead_to(process); }

  const SocketAddress& address() const { return in_.address(); }
  SocketAddress way_out_to(const SocketAddress& address) {
    outs_.push_back(std::make_unique<Proxy>(rail()));
    outs_.back()->lead_to(address);
    outs_.back()->set_silent(dead_);
    return outs_.back()->address();
  }
  void set_dead(bool dead) {
    dead_ = dead;
    in_.set_silent(dead);
    for (auto& out : outs_) out->set_silent(dead);
  }
  int carried() const {
    int all = in_.carried();
    for (const auto& out : outs_) all += out->carried();
    return all;
  }

 private:
  Proxy in_;
  std::vector<std::unique_ptr<Proxy>> outs_;
  bool dead_ = false;
};

// Two hosts of two processes each. The ports of the first and the last can fail.
class Detours : public testing::Test {
 protected:
  static constexpr double kTimeout = 0.6;
  static constexpr int kProcesses = 4;
  using Said = std::pair<int, std::string>;

  static ControlOptions options(int process) { return on_loopback(process < 2 ? "host a" : "host b", kTimeout); }

  // Others are children, which must have been made before.
  void start(const std::map<int, Child*>& children = {}) {
    for (int process = 0; process < kProcesses; ++process) {
      const auto child = children.find(process);
      if (child == children.end()) controls[process] = Control::start("secret", options(process)).value();
      peers.push_back(child == children.end() ? controls[process]->self() : child->second->peer());
    }
    for (const int process : {0, 3}) ports[process] = std::make_unique<Port>(peers[process].addresses[0]);
    for (const int process : {0, 3}) ports[process]->set_dead(ports_begin_dead);
    for (const auto& [process, child] : children) child->tell_world(world_of(process), process);
    std::vector<std::thread> joining;
    for (const auto& each : controls)
      joining.emplace_back([this, process = each.first, control = each.second.get()] {
        const Status joined = control->join(world_of(process), process, Deadline::in(20));
        EXPECT_TRUE(joined) << joined.error().message;
      });
    for (auto& thread : joining) thread.join();
    for (const auto& each : controls) listen(each.first);
  }
  void listen(int process) {
    controls[process]->on_death([this, process](int who, const Death&) { deaths[process].add(who); });
    controls[process]->on_message(kTopic, [this, process](int from, std::span<const std::byte> bytes) {
      messages[process].add({from, text_of(bytes)});
    });
  }
  // Where a process finds the others.
  std::vector<ControlPeer> world_of(int process) {
    const std::lock_guard lock(mutex);
    std::vector<ControlPeer> world = peers;
    for (int other = 0; other < kProcesses; ++other) {
      SocketAddress& address = world[other].addresses[0];
      if (local_paths_lead_nowhere) world[other].local_path = kNowhere;
      if (ports.contains(other)) address = ports[other]->address();
      if (ports.contains(process) && other != process) address = ports[process]->way_out_to(address);
    }
    return world;
  }
  void TearDown() override {
    std::vector<std::thread> leaving;
    for (auto& each : controls) leaving.emplace_back([&control = each.second] { control.reset(); });
    for (auto& thread : leaving) thread.join();
  }

  // Everyone to everyone else, all the time.
  void talk(double seconds) {
    const auto began = Clock::now();
    while (seconds_since(began) < seconds) {
      for (const auto& [from, control] : controls)
        for (int to = 0; to < kProcesses; ++to) {
          if (to == from) continue;
          ASSERT_TRUE(control->send(to, kTopic, bytes_of(fmt::format("{}", said))));
        }
      ++said;
      std::this_thread::sleep_for(5ms);
    }
  }
  // Once each, in order.
  void expect_all_said() {
    for (const auto& [to, control] : controls)
      for (const auto& [from, other] : controls) {
        if (from == to) continue;
        const auto said_by = [from = from](const auto& items) {
          std::vector<std::string> texts;
          for (const Said& item : items)
            if (item.first == from) texts.push_back(item.second);
          return texts;
        };
        ASSERT_TRUE(messages[to].wait([&](const auto& items) { return said_by(items).size() >= std::size_t(said); }))
            << from << " to " << to;
        const auto texts = said_by(messages[to].items());
        ASSERT_EQ(texts.size(), std::size_t(said));
        for (int number = 0; number < said; ++number) ASSERT_EQ(texts[number], fmt::format("{}", number));
      }
  }
  void expect_nobody_dead() {
    for (const auto& record : deaths) EXPECT_TRUE(record.items().empty()) << "a living process was called dead";
  }
  bool wait_for_death(int process, int of) {
    return deaths[process].wait([of](const auto& items) { return std::count(items.begin(), items.end(), of) > 0; });
  }

  std::mutex mutex;
  std::vector<ControlPeer> peers;
  std::map<int, std::unique_ptr<Port>> ports;
  std::map<int, std::unique_ptr<Control>> controls;
  Record<int> deaths[kProcesses];
  Record<Said> messages[kProcesses];
  int said = 0;
  bool ports_begin_dead = false;
  bool local_paths_lead_nowhere = false;
};

class DeadPortsOf : public Detours, public testing::WithParamInterface<std::vector<int>> {};

TEST_P(DeadPortsOf, ProcessesDoNotKeepThemFromTalking) {
  start();
  talk(0.1);
  for (const int process : GetParam()) ports[process]->set_dead(true);
  talk(2.5 * kTimeout);
  expect_all_said();
  for (const int process : GetParam()) ports[process]->set_dead(false);
  talk(kTimeout);
  expect_all_said();
  expect_nobody_dead();
}

// The first dials the others, the last is dialed by them.
INSTANTIATE_TEST_SUITE_P(Which, DeadPortsOf,
                         testing::Values(std::vector<int>{0}, std::vector<int>{3}, std::vector<int>{0, 3}));

TEST_F(Detours, LeadToThoseWhoNeverMetBefore) {
  ports_begin_dead = true;
  start();
  talk(2 * kTimeout);
  expect_all_said();
  expect_nobody_dead();
}

TEST_F(Detours, AreLeftForTheDirectWayOnceItIsBack) {
  start();
  ports[0]->set_dead(true);
  talk(2 * kTimeout);
  ports[0]->set_dead(false);
  const int carried = ports[0]->carried();
  controls[1]->leave();
  controls.erase(1);
  talk(2 * kTimeout);
  expect_all_said();
  EXPECT_GT(ports[0]->carried(), carried);
  expect_nobody_dead();
}

TEST_F(Detours, ThatLeadNowhereTellOfNoDeath) {
  local_paths_lead_nowhere = true;
  start();
  ports[0]->set_dead(true);
  talk(0.6 * kTimeout);
  ports[0]->set_dead(false);
  talk(kTimeout);
  expect_all_said();
  expect_nobody_dead();
}

TEST_F(Detours, EndWithTheNeighbourAndThenTheProcessIsDead) {
  Child neighbour(options(1));
  start({{1, &neighbour}});
  ports[0]->set_dead(true);
  talk(2 * kTimeout);
  expect_nobody_dead();
  const auto killed = Clock::now();
  neighbour.signal(SIGKILL);
  for (const int process : {2, 3}) {
    EXPECT_TRUE(wait_for_death(process, 1));
    EXPECT_LT(seconds_since(killed), 1.0);
  }
  for (const int process : {2, 3}) EXPECT_TRUE(wait_for_death(process, 0));
  EXPECT_LT(seconds_since(killed), 2 * kTimeout + 1.0);
}

TEST_F(Detours, DeathBehindThemIsKnownWithinASecond) {
  Child distant(options(0), [](Control& control, const auto&) {
    control.on_message(kTopic,
                       [&](int from, std::span<const std::byte> bytes) { (void)control.send(from, kTopic, bytes); });
  });
  start({{0, &distant}});
  ports[0]->set_dead(true);
  talk(3 * kTimeout);
  expect_nobody_dead();
  for (const auto& each : controls)
    EXPECT_TRUE(messages[each.first].wait([&](const auto& items) {
      return std::count(items.begin(), items.end(), Said(0, fmt::format("{}", said - 1))) == 1;
    }));
  const auto killed = Clock::now();
  distant.signal(SIGKILL);
  for (const auto& each : controls) EXPECT_TRUE(wait_for_death(each.first, 0));
  EXPECT_LT(seconds_since(killed), 1.0);
}

// One process of "host a" that is real, one that is not, and two of "host b".
class PassingOn : public testing::Test {
 protected:
  void SetUp() override {
    nowhere = listen_on(rail()).value();  // accepts nothing, says nothing
    control = Control::start("secret", on_loopback("host a")).value();
    world = {control->self()};
    for (const char* host : {"host a", "host b", "host b"}) {
      ControlPeer peer;
      peer.id = ProcessId::random();
      peer.host = host;
      peer.local_path = kNowhere;
      peer.addresses = {local_address(nowhere.get()).value()};
      world.push_back(peer);
      members.emplace_back(peer.id);
      members.back().connect(world[0]);
    }
    ASSERT_TRUE(control->join(world, 0, Deadline::in(5)));
  }
  bool is_turned_away_by_tcp(int from, int to) {
    Impostor impostor(world[from].id);
    impostor.greet(connect_once(world[0].addresses[0], Deadline::in(5)).value(), world[to].id);
    return impostor.is_hung_up_on();
  }
  bool is_turned_away_locally(int from, int to) {
    Impostor impostor(world[from].id);
    impostor.greet(connect_local(world[0].local_path).value(), world[to].id);
    return impostor.is_hung_up_on();
  }

  Fd nowhere;
  std::unique_ptr<Control> control;
  std::vector<ControlPeer> world;
  std::vector<Impostor> members;
};

TEST_F(PassingOn, IsBetweenHostsOnlyAndOneWay) {
  const auto began = Clock::now();
  EXPECT_TRUE(is_turned_away_by_tcp(2, 1)) << "nobody listens there";
  EXPECT_TRUE(is_turned_away_by_tcp(2, 3)) << "from TCP to TCP";
  EXPECT_TRUE(is_turned_away_by_tcp(1, 2)) << "from TCP to TCP";
  EXPECT_TRUE(is_turned_away_locally(2, 1)) << "from local to local";
  EXPECT_TRUE(is_turned_away_locally(2, 3)) << "whoever comes locally is of this host";
  EXPECT_LT(seconds_since(began), 1.0);
}

TEST_F(PassingOn, IsGivenUpWhereNobodyAnswers) {
  const auto began = Clock::now();
  EXPECT_TRUE(is_turned_away_locally(1, 2));
  EXPECT_GT(seconds_since(began), 0.9 * Relays::kSearchSeconds);
}

}  // namespace
}  // namespace tutti
