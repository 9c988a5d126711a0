// Strangers, peers that die or leave, connections that are lost: what Tcp refuses, reports and survives.
#include <gtest/gtest.h>

#include "net/handshake.hpp"
#include "transport/tcp/tcp_test_kit.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

TEST(Tcp, RefusesTheWrongSecret) {
  TcpOptions options;
  options.dial_timeout = 1;
  auto a = start("one", options);
  auto b = start("another", options);
  if (b->endpoint().id < a->endpoint().id) std::swap(a, b);  // the one with the lower id dials
  const auto link = a->open_send(b->endpoint(), {});
  const Deadline deadline = Deadline::in(10);
  while (link->error() == nullptr && !deadline.passed()) a->wait(100ms);
  ASSERT_NE(link->error(), nullptr);
  // The socket is closed before the stranger is counted.
  while (b->counters().strangers == 0 && !deadline.passed()) b->wait(1ms);
  EXPECT_GE(b->counters().strangers, 1u);
}

TEST(Tcp, SaysSoWhenNobodyListens) {
  const Endpoint nobody{kHighest, {SocketAddress::loopback(AF_INET, 1)}, {}};
  TcpOptions options;
  options.dial_timeout = 0.2;
  const auto tcp = start(kSecret, options);
  const auto link = tcp->open_send(nobody, {});
  const Deadline deadline = Deadline::in(10);
  while (link->error() == nullptr && !deadline.passed()) tcp->wait(100ms);
  ASSERT_NE(link->error(), nullptr);
  EXPECT_NE(link->error()->message.find("127.0.0.1:1"), std::string::npos) << link->error()->message;
}

TEST(Tcp, RefusesToTalkToAnotherProcessAtTheSameAddress) {
  const auto a = start();
  const auto b = start();
  Endpoint stale = b->endpoint();
  stale.id = kHighest;
  const auto link = a->open_send(stale, {});
  const Deadline deadline = Deadline::in(10);
  while (b->counters().strangers == 0 && !deadline.passed()) a->wait(1ms);
  EXPECT_GE(b->counters().strangers, 1u);
  std::byte byte{};
  EXPECT_FALSE(link->send(&byte, 1, kTag));
}

TEST(Tcp, DropsGarbageAndSilenceWithoutDelayingOthers) {
  TcpOptions options;
  options.greeting_timeout = 0.3;
  const Pair pair(options);
  const SocketAddress port = pair.b->endpoint().addresses.front();
  const Deadline deadline = Deadline::in(10);
  std::vector<Fd> silent;
  for (int i = 0; i < 20; ++i) {
    auto stranger = connect_once(port, deadline);
    ASSERT_TRUE(stranger.has_value());
    const auto noise = pattern(200, static_cast<unsigned>(i));
    if (i % 2 == 0) {
      ASSERT_TRUE(send_all(stranger->get(), noise, deadline).has_value());
    }
    silent.push_back(std::move(*stranger));
  }
  Ends ends = open(pair);
  const auto data = pattern(100000, 8);
  EXPECT_EQ(pass(pair, ends, data, 50000, true), data);
  while (pair.b->counters().strangers < 20 && !deadline.passed()) pair.b->wait(10ms);
  EXPECT_EQ(pair.b->counters().strangers, 20u);
}

// A peer that knows the secret, but then speaks nonsense.
TEST(Tcp, ClosesALaneWhoseFramesBreakTheRules) {
  const auto tcp = start();
  const Deadline deadline = Deadline::in(10);
  const Endpoint intruder{kLowest, {}, {}};
  const LinkId id{3, 1, 0, 0};
  const auto link = tcp->open_recv(intruder, id);
  std::vector<std::byte> landing(64, std::byte{0xee});
  link->expect(landing.data(), landing.size(), kTag);
  auto socket = connect_once(tcp->endpoint().addresses.front(), deadline);
  ASSERT_TRUE(socket.has_value());
  ASSERT_TRUE(authenticate(socket->get(), Side::connector, Purpose::data, JobKey(kSecret), deadline).has_value());
  send_greeting(socket->get(), {FrameType::hello, 1, 0, intruder.id, tcp->endpoint().id});
  ASSERT_TRUE(recv_greeting(socket->get()));
  FrameHeader header;
  header.epoch = 1;
  header.link = id;
  header.bytes = 64;
  header.sequence = 1u << 30;
  ASSERT_TRUE(send_all(socket->get(), encode(header), deadline).has_value());
  while (link->error() == nullptr && !deadline.passed())
    if (!tcp->progress()) tcp->wait(1ms);
  ASSERT_NE(link->error(), nullptr);
  EXPECT_EQ(link->error()->code, ErrorCode::refused);
  EXPECT_EQ(landing[0], std::byte{0xee});
}

TEST(Tcp, ReportsAPeerThatIsKnownToBeDead) {
  Pair pair;
  if (pair.b->endpoint().id < pair.a->endpoint().id) std::swap(pair.a, pair.b);
  Ends ends = open(pair);
  pass(pair, ends, pattern(10, 0), 10, true);
  std::byte landing{};
  ends.recv->expect(&landing, 1, kTag);
  const Error death = fail(ErrorCode::rank_died, "rank 0 died").value();
  pair.b->close_peer(pair.a->endpoint().id, death);
  ASSERT_NE(ends.recv->error(), nullptr);
  EXPECT_EQ(ends.recv->error()->code, ErrorCode::rank_died);
  // The other side dials again, and hears that it counts as gone.
  ASSERT_TRUE(pair.until([&] { return ends.send->error() != nullptr; }));
  EXPECT_EQ(ends.send->error()->code, ErrorCode::system);
  EXPECT_NE(ends.send->error()->message.find("127.0.0.1"), std::string::npos) << ends.send->error()->message;
}

TEST(Tcp, DeliversWhatWasSentBeforeThePeerLeft) {
  Pair pair;
  Ends ends = open(pair);
  const auto data = pattern(5000, 1);
  ASSERT_TRUE(pair.until([&] { return ends.send->send(data.data(), data.size(), kTag); }));
  ASSERT_EQ(ends.send->released(), 1u) << "small chunks are copied";
  ends.send.reset();
  pair.a.reset();
  ASSERT_TRUE(pair.until([&] { return pair.b->counters().payload_received == data.size(); }));
  EXPECT_EQ(ends.recv->error(), nullptr) << "nothing is missing yet";
  std::vector<std::byte> landing(data.size());
  ends.recv->expect(landing.data(), landing.size(), kTag);
  ASSERT_TRUE(ends.recv->poll().has_value());
  EXPECT_EQ(landing, data);
  ends.recv->release();
  ends.recv->expect(landing.data(), landing.size(), kTag);
  EXPECT_TRUE(pair.until([&] { return ends.recv->error() != nullptr; })) << "now something is";
}

TEST(Tcp, ClosingALinkInTheMidstOfAChunkHarmsNoOther) {
  Pair pair;
  Ends other = open(pair, 1);
  for (int round = 0; round < 20; ++round) {
    auto data = std::make_unique<std::vector<std::byte>>(pattern(200000, 1));
    auto landing = std::make_unique<std::vector<std::byte>>(data->size());
    Ends ends = open(pair, 2 + static_cast<std::uint32_t>(round));
    for (int i = 0; i < 50; ++i) ends.recv->expect(landing->data(), landing->size(), kTag);
    int sent = 0;
    ASSERT_TRUE(pair.until([&] {
      while (sent < 50 && ends.send->send(data->data(), data->size(), kTag)) ++sent;
      return sent > round;
    }));
    if (round % 2 == 0) {
      ends.send.reset();
      data.reset();
    }
    ends.recv.reset();
    landing.reset();
    const auto more = pattern(300000, 2);
    EXPECT_EQ(pass(pair, other, more, 100000, true), more);
  }
}

// Two processes of one host and one of another, which the first cannot reach.
TEST(Tcp, AProcessWithoutAWayGoesThroughANeighbour) {
  Pair pair;
  if (pair.b->endpoint().id < pair.a->endpoint().id) std::swap(pair.a, pair.b);
  const auto neighbour = start();
  const Endpoint far = pair.b->endpoint();
  Endpoint out_of_reach = far;
  out_of_reach.addresses = {SocketAddress::loopback(AF_INET, 1)};
  pair.a->set_processes({{pair.a->endpoint(), "one"}, {neighbour->endpoint(), "one"}, {out_of_reach, "two"}});
  neighbour->set_processes({{pair.a->endpoint(), "one"}, {neighbour->endpoint(), "one"}, {far, "two"}});
  const LinkId id{0x1234, 0, 1, 0};
  Ends ends{pair.a->open_send(out_of_reach, id), pair.b->open_recv(pair.a->endpoint(), id)};
  const auto data = pattern(5000001, 9);
  EXPECT_EQ(pass(pair, ends, data, ends.send->chunk_limit(), true), data);
  EXPECT_EQ(ends.send->error(), nullptr);
  EXPECT_NE(pair.a->describe_lanes(far.id).find("through a neighbour"), std::string::npos)
      << pair.a->describe_lanes(far.id);
}

TEST(Tcp, LanesLeaveFromTheSourcePortsGiven) {
  TcpOptions options;
  options.source_ports = {23750, 23752};
  Pair pair(options);
  if (pair.b->endpoint().id < pair.a->endpoint().id) std::swap(pair.a, pair.b);
  Ends ends = open(pair);
  const auto data = pattern(2000000, 4);
  EXPECT_EQ(pass(pair, ends, data, 100000, true), data);
  std::string lanes;
  ASSERT_TRUE(pair.until([&] {
    lanes = pair.b->describe_lanes(pair.a->endpoint().id);
    return lanes.find("lane 2") != std::string::npos;
  }));
  for (const char* port : {":23750", ":23751", ":23752"}) EXPECT_NE(lanes.find(port), std::string::npos) << lanes;
}

}  // namespace
}  // namespace tutti
