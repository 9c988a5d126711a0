#include "transport/tcp/tcp.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "net/fake_sockets_test_kit.hpp"
#include "transport/tcp/tcp_test_kit.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(Tcp, CarriesSmallLargeAndOddSizes) {
  const Pair pair;
  Ends ends = open(pair);
  for (const std::size_t bytes : {1u, 8u, 63u, 4096u, 65537u, 262144u, 5000001u})
    for (const bool land : {true, false}) {
      const auto data = pattern(bytes, static_cast<unsigned>(bytes));
      EXPECT_EQ(pass(pair, ends, data, ends.send->chunk_limit(), land), data)
          << bytes << (land ? " landed" : " staged");
    }
  EXPECT_EQ(ends.send->error(), nullptr);
  EXPECT_EQ(ends.recv->error(), nullptr);
}

TEST(Tcp, CarriesManyTinyChunks) {
  const Pair pair;
  Ends ends = open(pair);
  const auto data = pattern(300000, 1);
  EXPECT_EQ(pass(pair, ends, data, 7, true), data);
  EXPECT_EQ(pass(pair, ends, data, 11, false), data);
}

TEST(Tcp, KeepsChunksOfNoBytesInOrder) {
  const Pair pair;
  Ends ends = open(pair);
  const std::uint64_t value = 42;
  std::uint64_t landing = 0;
  ends.recv->expect(nullptr, 0, {1, 1});
  ends.recv->expect(reinterpret_cast<std::byte*>(&landing), sizeof landing, {2, 2});
  ends.recv->expect(reinterpret_cast<std::byte*>(&landing), 0, {3, 3});
  ASSERT_TRUE(pair.until([&] { return ends.send->send(nullptr, 0, {1, 1}); }));
  ASSERT_TRUE(ends.send->send(reinterpret_cast<const std::byte*>(&value), sizeof value, {2, 2}));
  ASSERT_TRUE(ends.send->send(nullptr, 0, {3, 3}));
  for (const std::uint32_t number : {1u, 2u, 3u}) {
    std::optional<Arrival> arrival;
    ASSERT_TRUE(pair.until([&] { return (arrival = ends.recv->poll()).has_value(); }));
    EXPECT_NE(arrival->data, nullptr);
    EXPECT_EQ(arrival->bytes, number == 2 ? 8u : 0u);
    EXPECT_EQ(arrival->tag.number, number);
    ends.recv->release();
  }
  EXPECT_EQ(landing, value);
}

TEST(Tcp, WorksOverIpv6) {
  TcpOptions options;
  options.listen = {SocketAddress::loopback(AF_INET6)};
  const Pair pair(options);
  Ends ends = open(pair);
  const auto data = pattern(100000, 6);
  EXPECT_EQ(pass(pair, ends, data, 65536, true), data);
}

TEST(Tcp, SpreadsLanesOverSeveralAddresses) {
  TcpOptions options;
  options.listen = {SocketAddress::loopback(), SocketAddress::loopback(AF_INET6)};
  options.lanes = 4;
  const Pair pair(options);
  ASSERT_EQ(pair.b->endpoint().addresses.size(), 2u);
  Ends ends = open(pair);
  const auto data = pattern(8 << 20, 3);
  EXPECT_EQ(pass(pair, ends, data, ends.send->chunk_limit(), true), data);
}

TEST(Tcp, CarriesBothDirectionsOnTheSameConnections) {
  const Pair pair;
  const Pair reversed(pair.b, pair.a);
  Ends there = open(pair);
  Ends back = open(reversed);
  const auto data = pattern(3000000, 3);
  EXPECT_EQ(pass(pair, there, data, 200000, true), data);
  EXPECT_EQ(pass(reversed, back, data, 200000, false), data);
}

TEST(Tcp, LinksAProcessToItself) {
  const auto tcp = start();
  const Pair pair(tcp, tcp);
  Ends ends = open(pair);
  const auto data = pattern(1000000, 3);
  EXPECT_EQ(pass(pair, ends, data, 200000, true), data);
}

TEST(Tcp, MultiplexesManyLinksOnTheSameConnections) {
  const Pair pair;
  std::vector<Ends> links;
  for (std::uint32_t channel = 0; channel < 50; ++channel) links.push_back(open(pair, channel));
  const auto data = pattern(50000, 9);
  for (std::uint32_t channel = 0; channel < 50; ++channel)
    EXPECT_EQ(pass(pair, links[49 - channel], data, 20000, channel % 2 == 0), data);
}

TEST(Tcp, CountsPayloadAndOverhead) {
  const Pair pair;
  Ends ends = open(pair);
  const auto data = pattern(1 << 20, 2);
  pass(pair, ends, data, ends.send->chunk_limit(), true);
  const TcpCounters sender = pair.a->counters();
  const TcpCounters receiver = pair.b->counters();
  EXPECT_EQ(sender.payload_sent, data.size());
  EXPECT_EQ(receiver.payload_received, data.size());
  EXPECT_EQ(sender.bytes_sent, receiver.bytes_received);
  EXPECT_EQ(sender.frames_sent, 5u);  // four chunks, and the opening of the link
  EXPECT_EQ(sender.bytes_sent, data.size() + 5 * kFrameHeaderBytes);
  EXPECT_LE(receiver.frames_sent, 12u) << "acknowledgements are batched";
}

TEST(Tcp, SendsNothingUntilTheReceiverOpensItsEnd) {
  const Pair pair;
  const LinkId id{1, 0, 1, 0};
  const auto send = pair.a->open_send(pair.b->endpoint(), id);
  const std::byte byte{5};
  // The connection is up when the other link has passed something.
  Ends other = open(pair, 1);
  pass(pair, other, pattern(10, 0), 10, true);
  EXPECT_FALSE(send->send(&byte, 1, kTag));
  const auto recv = pair.b->open_recv(pair.a->endpoint(), id);
  EXPECT_TRUE(pair.until([&] { return send->send(&byte, 1, kTag); }));
}

TEST(Tcp, HoldsBackWhatTheReceiverHasNoPlaceFor) {
  TcpOptions options;
  options.limits.window = 1 << 20;
  const Pair pair(options);
  Ends ends = open(pair);
  const auto chunk = pattern(100000, 4);
  ASSERT_TRUE(pair.until([&] { return ends.send->send(chunk.data(), chunk.size(), kTag); }));
  std::size_t accepted = 1;
  while (ends.send->send(chunk.data(), chunk.size(), kTag)) ++accepted;
  EXPECT_EQ(accepted, options.limits.window / chunk_cost(chunk.size()));
  std::vector<std::byte> landing(chunk.size());
  for (int i = 0; i < 30; ++i) ends.recv->expect(landing.data(), landing.size(), kTag);
  std::size_t taken = 0;
  EXPECT_TRUE(pair.until([&] {
    if (accepted < 30 && ends.send->send(chunk.data(), chunk.size(), kTag)) ++accepted;
    if (ends.recv->poll()) ends.recv->release(), ++taken;
    return taken == 30;
  }));
  EXPECT_EQ(landing, chunk);
}

TEST(Tcp, ReportsAChunkOfAnotherOperationAndStoresNothingOfIt) {
  const Pair pair;
  Ends ends = open(pair);
  const auto data = pattern(10000, 5);
  std::vector<std::byte> landing(data.size(), std::byte{0xee});
  ends.recv->expect(landing.data(), landing.size(), {8, 1});
  ASSERT_TRUE(pair.until([&] { return ends.send->send(data.data(), data.size(), {9, 2}); }));
  std::optional<Arrival> arrival;
  ASSERT_TRUE(pair.until([&] { return (arrival = ends.recv->poll()).has_value(); }));
  EXPECT_EQ(arrival->data, nullptr);
  EXPECT_EQ(arrival->tag, (OperationTag{9, 2}));
  EXPECT_EQ(arrival->bytes, data.size());
  EXPECT_TRUE(std::all_of(landing.begin(), landing.end(), [](std::byte b) { return b == std::byte{0xee}; }));
  ends.recv->release();
  EXPECT_TRUE(ends.recv->poll().has_value()) << "the link stays at that chunk";
}

TEST(Tcp, ReportsAMismatchAlsoWhereTheChunkCameFirst) {
  const Pair pair;
  Ends ends = open(pair);
  const auto data = pattern(100, 5);
  ASSERT_TRUE(pair.until([&] { return ends.send->send(data.data(), data.size(), kTag); }));
  ASSERT_TRUE(pair.until([&] { return pair.b->counters().payload_received == data.size(); }));
  std::vector<std::byte> landing(101, std::byte{0xee});
  ends.recv->expect(landing.data(), landing.size(), kTag);
  const auto arrival = ends.recv->poll();
  ASSERT_TRUE(arrival.has_value());
  EXPECT_EQ(arrival->data, nullptr);
  EXPECT_EQ(arrival->bytes, data.size());
  EXPECT_EQ(landing[0], std::byte{0xee});
}

TEST(Tcp, MovesDataWhileNobodyDrives) {
  const Pair pair;
  Ends ends = open(pair);
  const auto data = pattern(200000, 1);
  std::vector<std::byte> landing(data.size());
  ends.recv->expect(landing.data(), landing.size(), kTag);
  const Deadline deadline = Deadline::in(10);
  while (!ends.send->send(data.data(), data.size(), kTag) && !deadline.passed()) std::this_thread::yield();
  while (!ends.recv->poll() && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(landing, data);
  while (ends.send->released() != 1 && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(ends.send->released(), 1u);
}

// Each thread has its own communicator, both ends of it in turn; sleeping and driving mix at will.
TEST(Tcp, ServesSeveralThreadsAtOnce) {
  const Pair pair;
  const auto work = [&](std::uint32_t channel, Tcp& own, Tcp& peer, bool sleeps) {
    const LinkId there{channel, 0, 1, 0};
    const auto send = own.open_send(peer.endpoint(), there);
    const auto recv = peer.open_recv(own.endpoint(), there);
    const auto data = pattern(30000, channel);
    for (int i = 0; i < 200; ++i) {
      std::vector<std::byte> landing(data.size());
      recv->expect(landing.data(), landing.size(), kTag);
      bool sent = false;
      bool taken = false;
      const Deadline deadline = Deadline::in(10);
      while (!taken || send->released() != send->sent()) {
        ASSERT_FALSE(deadline.passed());
        if (!sent) sent = send->send(data.data(), data.size(), kTag);
        if (!taken && recv->poll()) recv->release(), taken = true;
        const bool moved = own.progress() | peer.progress();
        if (!moved && sleeps) (taken ? own : peer).wait(200us);
      }
      ASSERT_EQ(landing, data);
    }
  };
  std::thread one([&] { work(1, *pair.a, *pair.b, true); });
  std::thread two([&] { work(2, *pair.a, *pair.b, false); });
  work(3, *pair.b, *pair.a, true);
  one.join();
  two.join();
}

TEST(Tcp, WakeEndsAWait) {
  const auto tcp = start();
  tcp->wait(0us);
  std::thread waker([&] { tcp->wake(); });
  const auto before = std::chrono::steady_clock::now();
  tcp->wait(20s);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  waker.join();
}

TEST(Endpoint, SurvivesItsText) {
  const Endpoint endpoint{ProcessId::random(),
                          {SocketAddress::loopback(AF_INET, 80), SocketAddress::loopback(AF_INET6, 81)},
                          "/proc/7/fd/3"};
  const auto parsed = Endpoint::parse(endpoint.to_string());
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, endpoint);
  for (const char* wrong : {"", "12", "0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef x"})
    EXPECT_FALSE(Endpoint::parse(wrong).has_value()) << wrong;
}

// Two hosts that only exist in this process.
TEST(Tcp, UsesTheSocketsThatItIsGiven) {
  SocketPairNetwork network;
  FakeSockets one(network, "10.0.0.1");
  FakeSockets other(network, "10.0.0.2");
  const auto start_on = [](Sockets& sockets, const char* address) {
    TcpOptions options;
    options.sockets = &sockets;
    options.listen = {SocketAddress::parse(address).value()};
    return start(kSecret, options);
  };
  const Pair pair(start_on(one, "10.0.0.1:0"), start_on(other, "10.0.0.2:0"));
  Ends ends = open(pair);
  const auto data = pattern(1000000, 5);
  EXPECT_EQ(pass(pair, ends, data, ends.send->chunk_limit(), true), data);
  EXPECT_GE(network.connections(), 1);
}

}  // namespace
}  // namespace tutti
