#include "net/socket.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "net/interfaces.hpp"

namespace tutti {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

SocketAddress numeric(const std::string& host) { return *SocketAddress::parse("[" + host + "]:0"); }

Interface interface_of(std::string name, std::vector<std::string> hosts, int speed = -1) {
  Interface made;
  made.name = std::move(name);
  made.up = made.running = true;
  made.loopback = made.name == "lo";
  made.speed = speed;
  for (const std::string& host : hosts) made.addresses.push_back(numeric(host));
  return made;
}

std::vector<std::string> names(const Result<std::vector<Interface>>& chosen) {
  std::vector<std::string> all;
  if (chosen)
    for (const Interface& interface : *chosen) all.push_back(interface.name);
  return all;
}
using Names = std::vector<std::string>;

struct Pair {
  Fd near;
  Fd far;
};
Pair connected_pair() {
  auto listener = listen_on(SocketAddress::loopback(), {});
  auto near = connect_to(*local_address(listener->get()), Deadline::in(5));
  auto far = accept_before(listener->get(), Deadline::in(5));
  return {std::move(*near), std::move(far->connection)};
}

TEST(SocketAddress, ReadsWhatItWrites) {
  for (const char* text : {"1.2.3.4:80", "[::1]:80", "[2001:db8::7]:65535", "0.0.0.0:0"})
    EXPECT_EQ(SocketAddress::parse(text)->to_string(), text);
}

TEST(SocketAddress, TurnsAwayWhatIsNoAddressAndNamesIt) {
  for (const char* text : {"", ":", "1.2.3.4", "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:8x", "::1:80", "[::1]", "[]:1",
                           "[::1:80", "host:80", "1.2.3:80", "[fe80::1%nowhere]:1"}) {
    const auto parsed = SocketAddress::parse(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_NE(parsed.error().message.find(text), std::string::npos);
  }
}

TEST(SocketAddress, KnowsItsKind) {
  EXPECT_TRUE(SocketAddress::parse("127.0.1.1:1")->is_loopback());
  EXPECT_TRUE(SocketAddress::parse("[::1]:1")->is_loopback());
  EXPECT_TRUE(SocketAddress::parse("[::ffff:127.0.0.1]:1")->is_loopback());
  EXPECT_FALSE(SocketAddress::parse("128.0.0.1:1")->is_loopback());
  EXPECT_TRUE(SocketAddress::parse("[fe80::1]:1")->is_link_local());
  EXPECT_TRUE(SocketAddress::any(AF_INET6).is_any());
  EXPECT_FALSE(*SocketAddress::parse("[::1]:1") == *SocketAddress::parse("127.0.0.1:1"));
}

TEST(Resolve, TakesNumbersAndNamesAndSaysWhichNameIsUnknown) {
  EXPECT_EQ(resolve("127.0.0.1", 7, Deadline::in(5))->front().to_string(), "127.0.0.1:7");
  EXPECT_EQ(resolve("::1", 7, Deadline::in(5))->front().to_string(), "[::1]:7");
  const auto local = resolve("localhost", 7, Deadline::in(5));
  ASSERT_TRUE(local);
  EXPECT_TRUE(local->front().is_loopback());
  EXPECT_FALSE(resolve("127.0.0.1", 7, Deadline::in(5), AF_INET6));
  const auto unknown = resolve("no-such-host.invalid", 7, Deadline::in(20));
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().message.find("no-such-host.invalid"), std::string::npos);
}

TEST(PortRange, IsFirstToLast) {
  EXPECT_EQ(parse_port_range("1000-1003")->last, 1003);
  EXPECT_EQ(parse_port_range("1000")->last, 1000);
  EXPECT_EQ(parse_port_range("")->first, 0);
  for (const char* text : {"-", "0-5", "7-6", "1-70000", "a-b", "1-", "1-2-3"})
    EXPECT_FALSE(parse_port_range(text)) << text;
}

TEST(Listen, StaysInsideTheRangeUntilEveryPortIsTaken) {
  // Three free ports in a row, found by asking the kernel for one.
  std::uint16_t first = 0;
  std::vector<Fd> taken;
  while (taken.size() < 3) {
    taken.clear();
    first = local_address(listen_on(SocketAddress::loopback(), {})->get())->port();
    if (first > 65000) continue;
    for (int i = 0; i < 3; ++i) {
      auto listener = listen_on(SocketAddress::loopback(), {first, static_cast<std::uint16_t>(first + 2)});
      if (!listener) break;
      const auto port = local_address(listener->get())->port();
      EXPECT_GE(port, first);
      EXPECT_LE(port, first + 2);
      taken.push_back(std::move(*listener));
    }
  }
  const auto none_left = listen_on(SocketAddress::loopback(), {first, static_cast<std::uint16_t>(first + 2)});
  ASSERT_FALSE(none_left);
  EXPECT_NE(none_left.error().message.find(std::to_string(first)), std::string::npos);
}

TEST(Connect, TriesUntilSomebodyListens) {
  const auto address = *local_address(listen_on(SocketAddress::loopback(), {})->get());  // and closed again
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    auto listener = listen_on(address, {});
    if (listener) (void)accept_before(listener->get(), Deadline::in(5));
  });
  EXPECT_TRUE(connect_to(address, Deadline::in(5)));
  late.join();
}

TEST(Connect, GivesUpAtTheDeadlineAndNamesTheAddress) {
  const auto address = *local_address(listen_on(SocketAddress::loopback(), {})->get());
  const auto refused = connect_to(address, Deadline::in(0.05));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::timed_out);
  EXPECT_NE(refused.error().message.find(address.to_string()), std::string::npos);
}

TEST(Transfer, MovesMoreThanTheSocketHolds) {
  Pair pair = connected_pair();
  std::vector<std::byte> sent(8 << 20, std::byte{7});
  std::vector<std::byte> received(sent.size());
  std::thread sender([&] { EXPECT_TRUE(send_all(pair.near.get(), sent, Deadline::in(10))); });
  EXPECT_TRUE(recv_all(pair.far.get(), received, Deadline::in(10)));
  sender.join();
  EXPECT_EQ(sent, received);
}

TEST(Transfer, EndsAtTheDeadlineOrWhenThePeerCloses) {
  Pair pair = connected_pair();
  std::array<std::byte, 8> buffer;
  EXPECT_EQ(*recv_some(pair.far.get(), buffer), 0u);
  EXPECT_EQ(recv_all(pair.far.get(), buffer, Deadline::in(0.02)).error().code, ErrorCode::timed_out);
  ASSERT_TRUE(send_all(pair.near.get(), bytes_of("half"), Deadline::in(1)));
  const std::string near = local_address(pair.near.get())->to_string();
  pair.near.reset();
  const auto cut = recv_all(pair.far.get(), buffer, Deadline::in(5));
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, ErrorCode::system);
  EXPECT_NE(cut.error().message.find(near), std::string::npos);
}

TEST(Pattern, IsThatOfNcclSocketIfname) {
  EXPECT_TRUE(fits_pattern("eth1", "eth"));
  EXPECT_TRUE(fits_pattern("ib0", "eth,ib"));
  EXPECT_FALSE(fits_pattern("eth1", "=eth"));
  EXPECT_TRUE(fits_pattern("eth1", "=eth0,eth1"));
  EXPECT_FALSE(fits_pattern("docker0", "^docker,lo"));
  EXPECT_TRUE(fits_pattern("eth0", "^docker,lo"));
  EXPECT_TRUE(fits_pattern("eth01", "^=eth0"));
  EXPECT_FALSE(fits_pattern("eth0", "^=eth0"));
}

TEST(Interfaces, OfContainersAndLoopbackComeLast) {
  const auto lo = interface_of("lo", {"::ffff:0:0", "::1"});
  const auto docker = interface_of("docker0", {"fd00::9"});
  const auto slow = interface_of("eth0", {"fd00::1"}, 1000);
  const auto fast = interface_of("ens3", {"fd00::2"}, 100000);
  EXPECT_EQ(names(choose_interfaces({lo, docker, slow, fast}, "", AF_UNSPEC)), (Names{"ens3", "eth0"}));
  EXPECT_EQ(names(choose_interfaces({lo, docker, slow, fast}, "^ens", AF_UNSPEC)), Names{"eth0"});
  auto near = interface_of("near", {"fd00::3"}, 100000);
  auto far = fast;
  near.distance = 10;
  far.distance = 32;
  EXPECT_EQ(names(choose_interfaces({far, slow, near}, "", AF_UNSPEC)), (Names{"near", "ens3", "eth0"}));
  EXPECT_EQ(names(choose_interfaces({lo, docker}, "", AF_UNSPEC)), Names{"docker0"});
  EXPECT_EQ(names(choose_interfaces({lo}, "", AF_UNSPEC)), Names{"lo"});
  EXPECT_EQ(names(choose_interfaces({lo, docker, slow}, "lo", AF_UNSPEC)), Names{"lo"});
}

TEST(Interfaces, WithoutCarrierOrOfAnotherFamilyAreNotChosen) {
  auto down = interface_of("eth0", {"fd00::1"});
  down.running = false;
  auto v4 = interface_of("eth1", {});
  v4.addresses.push_back(*SocketAddress::parse("10.0.0.1:0"));
  EXPECT_EQ(names(choose_interfaces({down, v4}, "", AF_UNSPEC)), Names{"eth1"});
  EXPECT_FALSE(choose_interfaces({down, v4}, "", AF_INET6));
}

TEST(Interfaces, UseALinkLocalAddressOnlyWhereThereIsNoOther) {
  const auto both = choose_interfaces({interface_of("eth0", {"fe80::1", "fd00::1"})}, "", AF_UNSPEC);
  ASSERT_TRUE(both);
  ASSERT_EQ(both->front().addresses.size(), 1u);
  EXPECT_EQ(both->front().addresses.front().host(), "fd00::1");
  EXPECT_EQ(choose_interfaces({interface_of("eth0", {"fe80::1"})}, "", AF_UNSPEC)->front().addresses.size(), 1u);
}

TEST(Interfaces, ThatFitNothingAreAnErrorThatListsWhatIsThere) {
  auto down = interface_of("eth1", {"fd00::2"});
  down.up = false;
  const auto none = choose_interfaces({interface_of("eth0", {"fd00::1"}), down}, "ib", AF_UNSPEC);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message,
            "no network interface that fits 'ib' is up with an address; there is: eth0 (fd00::1), eth1 (down)");
}

TEST(Interfaces, OfThisHostIncludeLoopback) {
  const auto all = interfaces();
  ASSERT_TRUE(all);
  EXPECT_TRUE(std::any_of(all->begin(), all->end(), [](const Interface& i) { return i.loopback && i.name == "lo"; }));
}

}  // namespace
}  // namespace tutti
