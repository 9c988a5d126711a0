#include "transport/tcp/tcp.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include "base/handshake.hpp"

namespace tutti {
namespace {

using namespace std::chrono_literals;

constexpr OperationTag kTag{7, 0xabcd};
// The process with the lower id dials.
constexpr ProcessId kLowest{0, 1};
constexpr ProcessId kHighest{~std::uint64_t{0}, ~std::uint64_t{0}};
const std::string kSecret = "the secret of this job";

std::shared_ptr<Tcp> start(const std::string& secret = kSecret, TcpOptions options = {}) {
  if (options.listen.empty()) options.listen = {SocketAddress::loopback()};
  auto tcp = Tcp::start(secret, options);
  EXPECT_TRUE(tcp.has_value()) << (tcp ? "" : tcp.error().message);
  return tcp ? *tcp : nullptr;
}

std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xff);
  return data;
}

// Two processes in one: A sends, B receives.
struct Pair {
  std::shared_ptr<Tcp> a;
  std::shared_ptr<Tcp> b;

  Pair(std::shared_ptr<Tcp> sender, std::shared_ptr<Tcp> receiver) : a(std::move(sender)), b(std::move(receiver)) {}
  explicit Pair(TcpOptions options = {}) : a(start(kSecret, options)), b(start(kSecret, options)) {}

  // Drives both until `done` or ten seconds are over.
  bool until(const std::function<bool()>& done) const {
    const Deadline deadline = Deadline::in(10);
    while (!done()) {
      if (deadline.passed()) return false;
      const bool moved = (a && a->progress()) | (b && b->progress());
      if (!moved) std::this_thread::yield();
    }
    return true;
  }
};

struct Ends {
  std::unique_ptr<SendLink> send;
  std::unique_ptr<RecvLink> recv;
};

Ends open(const Pair& pair, std::uint32_t channel = 0) {
  const LinkId id{0x1234, 0, 1, channel};
  return {pair.a->open_send(pair.b->endpoint(), id), pair.b->open_recv(pair.a->endpoint(), id)};
}

// Sends `data` in chunks of `chunk` bytes, and returns what arrived, through landings or staging.
std::vector<std::byte> pass(const Pair& pair, Ends& ends, const std::vector<std::byte>& data, std::size_t chunk,
                            bool land) {
  std::vector<std::byte> received(data.size());
  const std::size_t chunks = (data.size() + chunk - 1) / chunk;
  const auto size_of = [&](std::size_t i) { return std::min(chunk, data.size() - i * chunk); };
  for (std::size_t i = 0; i < chunks; ++i)
    ends.recv->expect(land ? received.data() + i * chunk : nullptr, size_of(i), kTag);
  std::size_t sent = 0;
  std::size_t taken = 0;
  const std::uint64_t before = ends.send->sent();
  EXPECT_TRUE(pair.until([&] {
    while (sent < chunks && ends.send->send(data.data() + sent * chunk, size_of(sent), kTag)) ++sent;
    while (const auto arrival = ends.recv->poll()) {
      if (arrival->data == nullptr) return true;
      if (!land) std::memcpy(received.data() + taken * chunk, arrival->data, arrival->bytes);
      EXPECT_EQ(arrival->tag, kTag);
      ends.recv->release();
      ++taken;
    }
    return taken == chunks && ends.send->released() == before + chunks;
  }));
  return received;
}

// Of this process, that are connected to loopback: ends them as a reset from the network would, and says how many.
int reset_all_connections() {
  int ended = 0;
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    const auto peer = peer_address(descriptor);
    if (!peer || !peer->is_loopback()) continue;
    const linger at_once{1, 0};
    ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (::shutdown(descriptor, SHUT_RDWR) == 0) ++ended;
  }
  return ended;
}

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

TEST(Tcp, RefusesTheWrongSecret) {
  auto a = start("one");
  auto b = start("another");
  if (b->endpoint().id < a->endpoint().id) std::swap(a, b);  // the one with the lower id dials
  const auto link = a->open_send(b->endpoint(), {});
  const Deadline deadline = Deadline::in(10);
  while (link->error() == nullptr && !deadline.passed()) a->wait(100ms);
  ASSERT_NE(link->error(), nullptr);
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
  ASSERT_TRUE(
      send_all(socket->get(), encode(LaneGreeting{FrameType::hello, 1, 0, intruder.id, tcp->endpoint().id}), deadline));
  FrameBytes welcome;
  ASSERT_TRUE(recv_all(socket->get(), welcome, deadline).has_value());
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

TEST(Tcp, ConnectionsThatAreResetComeBackAndNothingIsLost) {
  TcpOptions options;
  options.lanes = 3;
  const Pair pair(options);
  Ends ends = open(pair);
  const auto data = pattern(3000000, 3);
  for (int round = 0; round < 5; ++round) {
    EXPECT_EQ(pass(pair, ends, data, 100000, round % 2 == 0), data) << round;
    EXPECT_GE(reset_all_connections(), 2) << "both ends of a lane at least";
  }
  EXPECT_EQ(pass(pair, ends, data, 100000, true), data);
  EXPECT_EQ(ends.send->error(), nullptr);
}

// Two processes of one host and one of another, which the first cannot reach.
TEST(Tcp, AProcessWithoutAWayGoesThroughANeighbour) {
  Pair pair;
  if (pair.b->endpoint().id < pair.a->endpoint().id) std::swap(pair.a, pair.b);
  const auto neighbour = start();
  const Endpoint far = pair.b->endpoint();
  Endpoint out_of_reach = far;
  out_of_reach.addresses = {SocketAddress::loopback(AF_INET, 1)};
  pair.a->introduce({{pair.a->endpoint(), 1}, {neighbour->endpoint(), 1}, {out_of_reach, 2}});
  neighbour->introduce({{pair.a->endpoint(), 1}, {neighbour->endpoint(), 1}, {far, 2}});
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

}  // namespace
}  // namespace tutti
