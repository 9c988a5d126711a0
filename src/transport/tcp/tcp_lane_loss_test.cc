// Lanes that are lost, over real sockets: reset while nobody drives, silent after a pause, ended in their handshake, of
// no use for sending. What was sent comes by another lane, or by the next incarnation, and soon.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <iterator>
#include <random>

#include "net/handshake.hpp"
#include "transport/tcp/tcp_test_kit.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr int kDescriptors = 1024;  // of this process, that are looked at

/// The time after which the transport's thread counts callers as gone.
constexpr auto kPause = 50ms;
/// Generous, for machines that are busy: an idle pause must not cost seconds.
constexpr double kSoon = 3.0;

/// Calls `what` with each connection between two sockets of this process.
void for_each_own_connection(const std::function<void(int)>& what) {
  std::vector<std::pair<int, std::uint16_t>> connections;  // with the port of the other end
  std::vector<std::uint16_t> own_ports;
  for (int descriptor = 3; descriptor < kDescriptors; ++descriptor) {
    const auto local = local_address(descriptor);
    const auto peer = peer_address(descriptor);
    if (!local || !peer || !peer->is_loopback()) continue;
    connections.emplace_back(descriptor, peer->port());
    own_ports.push_back(local->port());
  }
  for (const auto& [descriptor, port] : connections)
    if (std::find(own_ports.begin(), own_ports.end(), port) != own_ports.end()) what(descriptor);
}

/// Ends them as a reset from the network would, and says how many.
int reset_all_connections() {
  int ended = 0;
  for_each_own_connection([&](int descriptor) {
    const linger at_once{1, 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (::shutdown(descriptor, SHUT_RDWR) == 0) ++ended;
  });
  return ended;
}

/// Sockets whose own port or whose peer's is this one.
std::vector<int> sockets_of(std::uint16_t port) {
  std::vector<int> found;
  for (int descriptor = 3; descriptor < kDescriptors; ++descriptor) {
    const auto local = local_address(descriptor);
    const auto peer = peer_address(descriptor);
    if ((local && local->port() == port) || (peer && peer->port() == port)) found.push_back(descriptor);
  }
  return found;
}

/// From now on, whatever comes to these sockets is dropped, and nobody is told.
void silence(const std::vector<int>& sockets) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  for (const int socket : sockets)
    ASSERT_EQ(::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

void heal(const std::vector<int>& sockets) {
  const int unused = 0;
  for (const int socket : sockets) ::setsockopt(socket, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof unused);
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
    const auto sockets = sockets_of(dialed->endpoint().addresses[rail].port());
    ASSERT_EQ(sockets.size(), 3u) << "both ends, and what listens";
    silence(sockets);
    const auto start = std::chrono::steady_clock::now();
    const auto data = pattern(1000000, 6);
    EXPECT_EQ(pass(pair, ends, data, 100000, true), data) << "rail " << rail;
    EXPECT_LT(seconds_since(start), kSoon) << "rail " << rail;
    EXPECT_EQ(ends.send->error(), nullptr);
  }
}

// The end that does not dial may wait for what it lost with a lane, while the other end waits for nothing.
TEST(TcpLaneLoss, ALaneThatFellSilentIsReplacedThoughNobodyWantsAnythingOfIt) {
  TcpOptions options;
  options.lanes = 1;
  const Pair pair(options);
  Ends ends = open(pair);
  bring_up(pair, ends, "lane 0");
  const auto own_ports = [] {
    std::vector<std::uint16_t> ports;
    for_each_own_connection([&](int descriptor) { ports.push_back(local_address(descriptor)->port()); });
    return ports;
  };
  std::this_thread::sleep_for(10 * kPause);  // until nothing is on its way
  const std::vector<std::uint16_t> before = own_ports();
  ASSERT_EQ(before.size(), 2) << "both ends of the lane";
  for_each_own_connection([](int descriptor) { silence({descriptor}); });
  const auto start = std::chrono::steady_clock::now();
  while (own_ports() == before && seconds_since(start) < 15) std::this_thread::sleep_for(kPause);
  EXPECT_LT(seconds_since(start), 15);
  const auto data = pattern(300000, 5);
  EXPECT_EQ(pass(pair, ends, data, 100000, true), data);
}

// Packets were lost, and TCP sends them again in its own time; the host is there.
TEST(TcpLaneLoss, ASilentLaneIsKeptWhileItsHostAnswersBesideIt) {
  const Pair pair(two_rails());
  Ends ends = open(pair);
  bring_up(pair, ends, "lane 1");
  const auto& dialed = pair.a->endpoint().id < pair.b->endpoint().id ? pair.b : pair.a;
  const auto lanes = [&] { return pair.a->describe_lanes(pair.b->endpoint().id); };
  const std::string before = lanes();
  const auto all = sockets_of(dialed->endpoint().addresses[0].port());
  std::vector<int> connections;
  std::copy_if(all.begin(), all.end(), std::back_inserter(connections),
               [](int socket) { return peer_address(socket).has_value(); });
  ASSERT_EQ(connections.size(), 2u);
  silence(connections);
  // So many chunks that the lane gets some of them, also if it was found to be the slower one.
  constexpr std::size_t kChunks = 24, kBytes = 100000;
  const auto data = pattern(kChunks * kBytes, 6);
  std::vector<std::byte> landing(data.size());
  for (std::size_t at = 0; at < data.size(); at += kBytes) ends.recv->expect(landing.data() + at, kBytes, kTag);
  std::size_t sent = 0;
  const auto send_more = [&] {
    while (sent < kChunks && ends.send->send(data.data() + sent * kBytes, kBytes, kTag)) ++sent;
  };
  ASSERT_TRUE(pair.until([&] {
    send_more();
    return lanes().find("suspect") != std::string::npos;
  })) << lanes();
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(pair.until([&] { return seconds_since(start) > 0.2; }));
  heal(connections);
  ASSERT_TRUE(pair.until([&] {
    send_more();
    return sent == kChunks;
  }));
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    ASSERT_TRUE(pair.until([&] { return ends.recv->poll().has_value(); })) << chunk;
    ends.recv->release();
  }
  ASSERT_TRUE(pair.until([&] { return ends.send->released() == ends.send->sent(); }));
  EXPECT_EQ(landing, data);
  EXPECT_TRUE(pair.until([&] { return lanes() == before; })) << lanes() << " instead of " << before;
}

// The kernel cannot read what is to be sent: nothing comes in on that lane that would show it to be of no use.
TEST(TcpLaneLoss, ALaneThatCannotSendIsReplaced) {
  TcpOptions options;
  options.lanes = 2;
  options.checksums = Checksums::off;  // only the kernel may find that it cannot be read
  const Pair pair(options);
  Ends ends = open(pair);
  bring_up(pair, ends, "lane 1");
  const auto data = pattern(100000, 9);
  void* const memory = ::mmap(nullptr, data.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  std::memcpy(memory, data.data(), data.size());
  ASSERT_EQ(::mprotect(memory, data.size(), PROT_NONE), 0);
  std::vector<std::byte> landing(data.size());
  ends.recv->expect(landing.data(), landing.size(), kTag);
  ASSERT_TRUE(pair.until([&] { return ends.send->send(static_cast<std::byte*>(memory), data.size(), kTag); }));
  ASSERT_EQ(::mprotect(memory, data.size(), PROT_READ), 0);
  EXPECT_TRUE(pair.until([&] { return ends.recv->poll().has_value() && ends.send->released() == ends.send->sent(); }));
  EXPECT_EQ(landing, data);
  EXPECT_EQ(ends.send->error(), nullptr);
  ends.send.reset();
  ::munmap(memory, data.size());
}

// The chunk was copied, so that its sender counts it as done.
TEST(TcpLaneLoss, WhatALaneLostIsSentAgainThoughTheSenderLeaves) {
  for (int round = 0; round < 4; ++round) {
    TcpOptions options;
    options.lanes = 1;
    Pair pair(options);
    Ends ends = open(pair);
    bring_up(pair, ends, "lane 0");
    std::vector<int> connections;
    for_each_own_connection([&](int descriptor) { connections.push_back(descriptor); });
    silence(connections);
    const auto data = pattern(100, 9);
    ASSERT_TRUE(pair.until([&] { return ends.send->send(data.data(), data.size(), kTag); }));
    EXPECT_EQ(ends.send->released(), ends.send->sent());
    reset_all_connections();
    ends.send.reset();
    pair.a.reset();
    std::vector<std::byte> landing(data.size());
    ends.recv->expect(landing.data(), landing.size(), kTag);
    std::optional<Arrival> arrival;
    EXPECT_TRUE(pair.until([&] { return (arrival = ends.recv->poll()).has_value() || ends.recv->error() != nullptr; }));
    ASSERT_TRUE(arrival) << ends.recv->error()->message;
    EXPECT_EQ(landing, data);
  }
}

// Another process makes idle connections, more than this one may have descriptors.
TEST(TcpLaneLoss, StrangersTakeNeitherTheDescriptorsNorTheWayBack) {
  constexpr int kStrangers = 1500;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < kStrangers + 100) GTEST_SKIP() << "needs a hard limit of 1,600 descriptors";
  int orders[2];
  int answers[2];
  ASSERT_EQ(::pipe(orders), 0);
  ASSERT_EQ(::pipe(answers), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit all{before.rlim_max, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &all);
    ::close(orders[1]);
    SocketAddress target;
    if (::read(orders[0], &target, sizeof target) != sizeof target) ::_exit(1);
    for (int i = 0; i < kStrangers; ++i) {
      const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(socket, target.raw(), target.length) != 0) ::_exit(2);
    }
    (void)!::write(answers[1], "r", 1);
    char end = 0;
    (void)!::read(orders[0], &end, 1);
    ::_exit(0);
  }
  ::close(orders[0]);
  ::close(answers[1]);
  const rlimit usual{1024, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
  {
    const Pair pair;
    Ends ends = open(pair);
    bring_up(pair, ends, "lane 0");
    const auto& dialed = pair.a->endpoint().id < pair.b->endpoint().id ? pair.b : pair.a;
    const SocketAddress target = dialed->endpoint().addresses.front();
    ASSERT_EQ(::write(orders[1], &target, sizeof target), static_cast<ssize_t>(sizeof target));
    pollfd ready{answers[0], POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 30'000), 1);
    char answer = 0;
    EXPECT_EQ(::read(answers[0], &answer, 1), 1);
    std::vector<Fd> files;
    for (int i = 0; i < 500; ++i) files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    EXPECT_TRUE(std::all_of(files.begin(), files.end(), [](const Fd& file) { return file.get() >= 0; }));
    reset_all_connections();
    const auto data = pattern(300000, 2);
    EXPECT_EQ(pass(pair, ends, data, 100000, true), data);
    EXPECT_EQ(ends.send->error(), nullptr);
  }
  ::close(orders[1]);
  ::close(answers[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
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
    const auto hello = recv_greeting(socket);
    ASSERT_TRUE(hello.has_value());
    send_greeting(socket, {FrameType::never, hello->epoch, hello->lane, as, hello->from});
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
