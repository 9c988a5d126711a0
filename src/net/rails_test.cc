#include "net/rails.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tutti
