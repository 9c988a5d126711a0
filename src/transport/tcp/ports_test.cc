#include "transport/tcp/ports.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

SocketAddress at(const char* text) { return SocketAddress::parse(text).value(); }

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
