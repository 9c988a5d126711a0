#include "transport/tcp/rails.hpp"

#include <gtest/gtest.h>

#include "transport/tcp/ports.hpp"

namespace tutti {
namespace {

SocketAddress at(const char* text) { return SocketAddress::parse(text).value(); }

std::vector<std::string> shown(const std::vector<Route>& rails) {
  std::vector<std::string> all;
  for (const Route& rail : rails)
    all.push_back((rail.source ? rail.source->host() : "any") + " > " + rail.remote.to_string());
  return all;
}

TEST(Rails, AnAddressIsDialedFromTheSameSubnet) {
  const std::vector<OwnAddress> own = {{at("10.0.0.1:0"), 24}, {at("10.1.0.1:0"), 24}};
  EXPECT_EQ(shown(match_rails(own, {at("10.1.0.2:80"), at("10.0.0.2:81")})),
            (std::vector<std::string>{"10.1.0.1 > 10.1.0.2:80", "10.0.0.1 > 10.0.0.2:81"}));
}

TEST(Rails, WithASubnetPerHostPortsGoByTheirOrder) {
  const std::vector<OwnAddress> own = {{at("10.0.0.1:0"), 31}, {at("10.0.1.1:0"), 31}};
  EXPECT_EQ(shown(match_rails(own, {at("10.8.0.1:80"), at("10.8.1.1:81")})),
            (std::vector<std::string>{"10.0.0.1 > 10.8.0.1:80", "10.0.1.1 > 10.8.1.1:81"}));
}

TEST(Rails, PortsOfOneSubnetTakeTurns) {
  const std::vector<OwnAddress> own = {{at("10.0.0.1:0"), 24}, {at("10.0.0.2:0"), 24}};
  EXPECT_EQ(shown(match_rails(own, {at("10.0.0.3:80"), at("10.0.0.4:81")})),
            (std::vector<std::string>{"10.0.0.1 > 10.0.0.3:80", "10.0.0.2 > 10.0.0.4:81"}));
}

TEST(Rails, WithOnePortTheKernelChooses) {
  EXPECT_EQ(shown(match_rails({{at("10.0.0.1:0"), 24}}, {at("10.0.0.3:80")})),
            (std::vector<std::string>{"any > 10.0.0.3:80"}));
}

TEST(Rails, FamiliesAreNotMixed) {
  const std::vector<OwnAddress> own = {{at("10.0.0.1:0"), 24}, {at("[fd00::1]:0"), 64}};
  EXPECT_EQ(shown(match_rails(own, {at("[fd00::2]:80"), at("[fd01::2]:80")})),
            (std::vector<std::string>{"fd00::1 > [fd00::2]:80", "fd00::1 > [fd01::2]:80"}));
}

Interface port(const char* name, std::vector<SocketAddress> addresses, bool running = true) {
  return {name, std::move(addresses), true, running, false, -1, 0};
}

TEST(Ports, TellWhatCameAndWent) {
  const Interface one = port("one", {at("10.0.0.1:0")});
  const Interface two = port("two", {at("10.1.0.1:0")});
  EXPECT_TRUE(compare({one, two}, {one, two}).empty());

  auto changes = compare({one, two}, {one, port("two", {at("10.1.0.1:0")}, false)});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_FALSE(changes[0].usable);
  EXPECT_EQ(changes[0].interface, "two");
  EXPECT_EQ(changes[0].addresses, std::vector{at("10.1.0.1:0")});

  changes = compare({one}, {one, two});
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_TRUE(changes[0].usable);

  changes = compare({one}, {port("one", {at("10.0.0.9:0")})});
  ASSERT_EQ(changes.size(), 2u) << "another address: the old one is of no use, the new one is";
  EXPECT_FALSE(changes[0].usable);
  EXPECT_TRUE(changes[1].usable);
}

}  // namespace
}  // namespace tutti
