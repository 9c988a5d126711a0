// Lanes that are lost, over real sockets: reset while nobody drives, silent after a pause, ended in their handshake, of
// no use for sending. What was sent comes by another lane, or by the next incarnation, and soon.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <random>

#include "base/handshake.hpp"
#include "transport/tcp/tcp_test_kit.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr int kDescriptors = 1024;  // of this process, that are looked at

/// The time after which the transport's thread counts callers as gone.
constexpr auto kPause = 50ms;
/// Generous, for machines that are busy: an idle pause must not cost seconds.
constexpr double kSoon = 3.0;

// Of this process, that are connected to loopback: ends them as a reset from the network would, and says how many.
int reset_all_connections() {
  int ended = 0;
  for (int descriptor = 3; descriptor < kDescriptors; ++descriptor) {
    const auto peer = peer_address(descriptor);
    if (!peer || !peer->is_loopback()) continue;
    const linger at_once{1, 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (::shutdown(descriptor, SHUT_RDWR) == 0) ++ended;
  }
  return ended;
}

/// From now on, what comes to sockets of this process from or to this port is dropped, and nobody is told.
int silence_port(std::uint16_t port) {
  int silenced = 0;
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  for (int descriptor = 3; descriptor < kDescriptors; ++descriptor) {
    const auto local = local_address(descriptor);
    const auto peer = peer_address(descriptor);
    if ((!local || local->port() != port) && (!peer || peer->port() != port)) continue;
    if (::setsockopt(descriptor, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0) ++silenced;
  }
  return silenced;
}

TcpOptions two_rails() {
  TcpOptions options;
  options.listen = {SocketAddress::loopback(), SocketAddress::loopback(AF_INET6)};
  options.lanes = 2;
  return options;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Passes data until every lane is up at both ends.
void bring_up(const Pair& pair, Ends& ends, const char* last_lane) {
  const auto data = pattern(1000000, 3);
  EXPECT_EQ(pass(pair, ends, data, 100000, true), data);
  const auto is_up = [&](const Tcp& one, const Tcp& other) {
    const std::string lanes = one.describe_lanes(other.endpoint().id);
    const std::size_t at = lanes.find(last_lane);
    return at != std::string::npos && lanes.find("healthy", at) != std::string::npos;
  };
  ASSERT_TRUE(pair.until([&] { return is_up(*pair.a, *pair.b) && is_up(*pair.b, *pair.a); }));
}

TEST(Tcp, ConnectionsThatAreResetComeBackAndNothingIsLost) {
  TcpOptions options;
  options.lanes = 3;
  const Pair pair(options);
  Ends ends = open(pair);
  const auto data = pattern(3000000, 3);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(pass(pair, ends, data, 100000, round % 2 == 0), data) << round;
    EXPECT_GE(reset_all_connections(), 1) << "an end of a lane; the thread may close the other meanwhile";
  }
  EXPECT_EQ(pass(pair, ends, data, 100000, true), data);
  EXPECT_EQ(ends.send->error(), nullptr);
}

// The thread sleeps; then a caller finds the lanes lost, and only drives.
TEST(TcpLaneLoss, LanesResetAfterAPauseComeBackThoughNobodyWakesTheThread) {
  TcpOptions options;
  options.lanes = 2;
  const Pair pair(options);
  Ends ends = open(pair);
  bring_up(pair, ends, "lane 1");
  const auto data = pattern(300000, 5);
  for (int round = 0; round < 12; ++round) {
    std::this_thread::sleep_for(kPause);
    reset_all_connections();
    const auto start = std::chrono::steady_clock::now();
    ASSERT_EQ(pass(pair, ends, data, 100000, true), data) << round;
    EXPECT_LT(seconds_since(start), kSoon) << round;
  }
}

TEST(TcpLaneLoss, ARailThatFellSilentDuringAPauseIsReplaced) {
  for (const std::size_t rail : {0u, 1u}) {
    const Pair pair(two_rails());
    Ends ends = open(pair);
    bring_up(pair, ends, "lane 1");
    const auto& dialed = pair.a->endpoint().id < pair.b->endpoint().id ? pair.b : pair.a;
    std::this_thread::sleep_for(kPause);
    ASSERT_GE(silence_port(dialed->endpoint().addresses[rail].port()), 3) << "both ends, and what listens";
    const auto start = std::chrono::steady_clock::now();
    const auto data = pattern(1000000, 6);
    EXPECT_EQ(pass(pair, ends, data, 100000, true), data) << "rail " << rail;
    EXPECT_LT(seconds_since(start), kSoon) << "rail " << rail;
    EXPECT_EQ(ends.send->error(), nullptr);
  }
}

TEST(TcpLaneLoss, AConnectionThatEndsDuringItsHandshakeIsTriedAgain) {
  auto listener = listen_on(SocketAddress::loopback());
  ASSERT_TRUE(listener.has_value());
  const Endpoint peer{kHighest, {*local_address(listener->get())}, {}};
  TcpOptions options;
  options.lanes = 1;
  const auto tcp = start(kSecret, options);
  const auto link = tcp->open_send(peer, {});
  for (std::size_t length = 0; length < 8; ++length) {
    auto accepted = accept_before(listener->get(), Deadline::in(10));
    ASSERT_TRUE(accepted.has_value()) << "attempt " << length;
    std::vector<std::byte> hello(length * 8);
    ASSERT_TRUE(recv_all(accepted->connection.get(), hello, Deadline::in(10)));
    const linger at_once{length % 2 == 0 ? 1 : 0, 0};
    ::setsockopt(accepted->connection.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }
  // The peer is proven, and the connection ends before it greets.
  auto accepted = accept_before(listener->get(), Deadline::in(10));
  ASSERT_TRUE(accepted.has_value());
  ASSERT_TRUE(
      authenticate(accepted->connection.get(), Side::acceptor, Purpose::data, JobKey(kSecret), Deadline::in(10)));
  accepted->connection.reset();
  EXPECT_TRUE(accept_before(listener->get(), Deadline::in(10)).has_value());
  EXPECT_EQ(link->error(), nullptr) << link->error()->message;
}

TEST(TcpLaneLoss, OnlyThePeerItselfRefusesForGood) {
  auto listener = listen_on(SocketAddress::loopback());
  ASSERT_TRUE(listener.has_value());
  const Endpoint peer{kHighest, {*local_address(listener->get())}, {}};
  TcpOptions options;
  options.lanes = 1;
  const auto tcp = start(kSecret, options);
  const auto link = tcp->open_send(peer, {});
  const auto answer = [&](const ProcessId& as) {
    auto accepted = accept_before(listener->get(), Deadline::in(10));
    ASSERT_TRUE(accepted.has_value());
    const int socket = accepted->connection.get();
    ASSERT_TRUE(authenticate(socket, Side::acceptor, Purpose::data, JobKey(kSecret), Deadline::in(10)));
    FrameBytes bytes;
    ASSERT_TRUE(recv_all(socket, bytes, Deadline::in(10)));
    const auto hello = parse_greeting(bytes);
    ASSERT_TRUE(hello.has_value());
    ASSERT_TRUE(send_all(socket, encode(LaneGreeting{FrameType::never, hello->epoch, hello->lane, as, hello->from}),
                         Deadline::in(10)));
  };
  answer(kLowest);
  answer(peer.id);
  const Deadline deadline = Deadline::in(10);
  while (link->error() == nullptr && !deadline.passed()) tcp->wait(1ms);
  ASSERT_NE(link->error(), nullptr);
  EXPECT_NE(link->error()->message.find("counts this process as gone"), std::string::npos) << link->error()->message;
}

// Resets come at any moment, also while lanes are dialed: each stall is that of an attempt, never of a hold that grows.
TEST(TcpLaneLoss, AllLanesResetAgainAndAgainStallOnlyForAMoment) {
  TcpOptions options;
  options.lanes = 2;
  const Pair pair(options);
  Ends ends = open(pair);
  bring_up(pair, ends, "lane 1");
  std::mt19937 random(7);
  double longest = 0;
  for (int round = 0; round < 40; ++round) {
    const auto start = std::chrono::steady_clock::now();
    reset_all_connections();
    const auto second = start + std::chrono::microseconds(random() % 3000);
    if (round % 3 == 0) {
      while (std::chrono::steady_clock::now() < second) (void)(pair.a->progress() | pair.b->progress());
      reset_all_connections();
    }
    const auto data = pattern(1000 + random() % 200000, 8);
    ASSERT_EQ(pass(pair, ends, data, 100000, true), data) << round;
    longest = std::max(longest, seconds_since(start));
    ASSERT_EQ(ends.send->error(), nullptr) << round;
    ASSERT_EQ(ends.recv->error(), nullptr) << round;
  }
  EXPECT_LT(longest, 1.5) << "seconds of the longest stall";
}

}  // namespace
}  // namespace tutti
