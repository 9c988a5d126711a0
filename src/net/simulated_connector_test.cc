// Connectors on a network of socket pairs and a clock that only the test moves: every run is the same, and none waits.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "net/connector.hpp"
#include "net/connector_test_kit.hpp"
#include "net/fake_sockets_test_kit.hpp"

namespace tutti {
namespace {

double g_now = 0;

class SimulatedConnector : public testing::Test {
 protected:
  static constexpr double kStart = 100;

  void SetUp() override {
    g_now = kStart;
    ASSERT_TRUE(loop.open());
  }

  // Moves the clock to so many seconds after the start, and lets happen what can happen then.
  void at(double seconds) {
    constexpr int kTurns = 50;  // more than any of these tests needs
    g_now = kStart + seconds;
    for (int turn = 0; turn < kTurns; ++turn) {
      loop.run_once(loop.now());
      next = EventLoop::kNever;
      for (Process* each : {&server, &client, &relay}) next = std::min(next, each->connector.tick());
      network.deliver();
    }
  }
  Result<Connector::Id> dial(const SocketAddress& address, Connector::DialTimes times = {}) {
    return client.connector.dial(Route::to(address), bytes_of("hello"), times);
  }
  static SocketAddress address(const char* text) { return SocketAddress::parse(text).value(); }

  EventLoop loop{EventLoop::kNever, [] { return g_now; }};
  SocketPairNetwork network;
  FakeSockets server_sockets{network, "10.0.0.1"};
  FakeSockets client_sockets{network, "10.0.0.2"};
  FakeSockets relay_sockets{network, "10.0.0.3"};
  Process server{loop, kSecret, 5, server_sockets};
  Process client{loop, kSecret, 5, client_sockets};
  Process relay{loop, kSecret, 5, relay_sockets};
  const SocketAddress here = address("10.0.0.1:80");
  double next = 0;  // when a connector wants to be called again
};

TEST_F(SimulatedConnector, ADialIsRefusedIfNobodyListens) {
  const auto id = dial(here);
  at(0);
  EXPECT_EQ(client.failures.at(*id), ConnectFailure::nobody_listens);
  EXPECT_EQ(client.errors.at(*id), "connecting to 10.0.0.1:80: Connection refused");
}

TEST_F(SimulatedConnector, ADialThatNobodyAnswersEndsAtItsDeadline) {
  server.listen(here);
  network.silence(here);
  const auto id = dial(here, {2, 3});
  at(1.999);
  EXPECT_TRUE(client.failures.empty());
  EXPECT_FALSE(client.connector.is_connected(*id));
  EXPECT_DOUBLE_EQ(next, kStart + 2);
  at(2);
  EXPECT_EQ(client.failures.at(*id), ConnectFailure::no_answer);
  EXPECT_EQ(client.errors.at(*id), "connecting to 10.0.0.1:80: no answer");
  EXPECT_TRUE(client.connector.empty());
}

TEST_F(SimulatedConnector, TheTimeForTheProcessBeginsWhenItsHostAnswers) {
  network.silence(here);
  const auto listening = server_sockets.listen(here);  // and nobody accepts
  const auto id = dial(here, {2, 3});
  at(1.5);
  network.answer(here);
  at(1.5);
  EXPECT_TRUE(client.connector.is_connected(*id));
  at(4.499);
  EXPECT_TRUE(client.failures.empty());
  at(4.5);
  EXPECT_EQ(client.failures.at(*id), ConnectFailure::ended);
}

TEST_F(SimulatedConnector, ADialSucceedsWhenBothHaveProvenTheSecretAndGreeted) {
  server.listen(here);
  const auto id = dial(here);
  at(0);
  EXPECT_EQ(client.replies.at(*id), "welcome");
  EXPECT_EQ(server.greetings, std::vector<std::string>{"hello"});
  ASSERT_EQ(server.sockets.size(), 1u);
  EXPECT_TRUE(server.connector.empty() && client.connector.empty());
}

TEST_F(SimulatedConnector, WhoDoesNotKnowTheSecretGetsNowhere) {
  Process stranger(loop, "another secret of some length", 5, client_sockets);
  server.listen(here);
  const auto id = stranger.connector.dial(Route::to(here), bytes_of("hello"), {});
  at(0);
  EXPECT_TRUE(stranger.failures.contains(*id));
  EXPECT_TRUE(server.greetings.empty());
  EXPECT_EQ(server.drops, 1);
}

// Whatever byte is the last to come through, both ends give up at once, and the next dial is not affected.
TEST_F(SimulatedConnector, AResetAtAnyByteEndsTheDialAndNothingElse) {
  server.listen(here);
  std::size_t bytes = 0;
  for (;; ++bytes) {
    ASSERT_LT(bytes, 1000u) << "the connection never comes about";
    network.cut_next_after(bytes);
    const auto cut = dial(here);
    at(0);
    if (client.replies.contains(*cut)) break;
    ASSERT_TRUE(client.failures.contains(*cut)) << "after " << bytes << " bytes";
    EXPECT_EQ(client.failures[*cut], ConnectFailure::ended) << client.errors[*cut];
    EXPECT_TRUE(server.connector.empty() && client.connector.empty()) << "after " << bytes << " bytes";
    const auto whole = dial(here);
    at(0);
    EXPECT_EQ(client.replies[*whole], "welcome") << "after " << bytes << " bytes";
  }
  EXPECT_GT(bytes, 100u);
}

TEST_F(SimulatedConnector, WhoSaysNothingIsDroppedWhenItsTimeIsOver) {
  server.listen(here);
  const auto idle = client_sockets.connect(here, nullptr);
  at(0);
  at(4.999);
  EXPECT_EQ(server.drops, 0);
  EXPECT_FALSE(server.connector.empty());
  at(5);
  EXPECT_EQ(server.drops, 1);
  EXPECT_TRUE(server.connector.empty());
}

TEST_F(SimulatedConnector, WithoutADescriptorItPausesAndAcceptsLater) {
  server.listen(here);
  network.fail_next_accept();
  const auto id = dial(here);
  at(0);
  at(0.099);
  EXPECT_TRUE(client.replies.empty() && client.failures.empty());
  at(0.1);
  EXPECT_TRUE(client.replies.contains(*id));
}

TEST_F(SimulatedConnector, WithoutADescriptorWhoHasProvenItselfAndDoesNotGreetMakesRoom) {
  server.listen(here);
  const auto mute = client_sockets.connect(here, nullptr);
  const JobKey key(kSecret, "", false);
  Handshake handshake(Side::connector, Purpose::control, key, here);
  for (int turn = 0; turn < 10; ++turn) {
    at(0);
    if (*handshake.advance(mute->get())) break;
  }
  at(4);
  EXPECT_EQ(server.drops, 0) << "it may wait for a core";
  network.fail_next_accept();
  const auto id = dial(here);
  at(4);
  EXPECT_EQ(server.drops, 1);
  at(4.2);
  EXPECT_TRUE(client.replies.contains(*id));
}

TEST_F(SimulatedConnector, ARelayTriesTheNextRouteAfterAMoment) {
  const SocketAddress silent = address("10.0.0.1:81");
  network.silence(silent);
  const std::string path = server.listen_locally();
  relay.judge = [&](Connector::Id, const Connector::Arrival&) {
    return Connector::Answer::pass_on({Route::to(silent), Route::to_local(path)});
  };
  const auto id = dial(relay.listen(address("10.0.0.3:80")));
  at(0);
  at(Relays::kAnswerSeconds - 0.001);
  EXPECT_TRUE(server.greetings.empty());
  at(Relays::kAnswerSeconds);
  EXPECT_EQ(server.greetings, std::vector<std::string>{"hello"});
  EXPECT_EQ(client.replies[*id], "welcome");
}

}  // namespace
}  // namespace tutti
