#include "control/world/peer_addresses.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

SocketAddress at(const char* text) { return SocketAddress::parse(text).value(); }

TEST(PeerAddresses, AConnectionProvesItsAddressAndTheNextIsDialedFirst) {
  PeerAddresses addresses({at("10.0.0.1:7"), at("10.0.1.1:7"), at("10.0.2.1:7")});
  EXPECT_EQ(addresses.connected_at(), nullptr);
  EXPECT_EQ(addresses.first(), 0);
  addresses.note_connection(at("10.0.1.1:7"));
  EXPECT_FALSE(addresses.is_proven(0));
  EXPECT_TRUE(addresses.is_proven(1));
  EXPECT_EQ(addresses.first(), 2);
  ASSERT_NE(addresses.connected_at(), nullptr);
  EXPECT_EQ(*addresses.connected_at(), at("10.0.1.1:7"));
}

TEST(PeerAddresses, WhoDialedUsComesFromAnotherPort) {
  PeerAddresses addresses({at("10.0.0.1:7"), at("10.0.1.1:7")});
  addresses.note_connection(at("10.0.1.1:40000"));
  EXPECT_TRUE(addresses.is_proven(1));
  EXPECT_EQ(addresses.first(), 0);
}

TEST(PeerAddresses, AConnectionFromElsewhereProvesNothing) {
  PeerAddresses addresses({at("10.0.0.1:7")});
  addresses.note_connection(at("192.0.2.1:7"));
  EXPECT_FALSE(addresses.is_proven(0));
  EXPECT_EQ(addresses.connected_at(), nullptr);
}

}  // namespace
}  // namespace tutti
