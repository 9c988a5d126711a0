#include "transport/tcp/peer_table.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr ProcessId kOwn{5, 5};
constexpr PeerKey kLower{{4, 4}};
constexpr PeerKey kHigher{{6, 6}};

std::shared_ptr<Peer> make_peer() { return std::make_shared<Peer>("peer", PeerOptions()); }

std::vector<SocketAddress> at_port(std::uint16_t port) { return {SocketAddress::loopback().with_port(port)}; }

TEST(PeerTable, TheProcessWithTheLowerIdDials) {
  const PeerTable peers(kOwn);
  EXPECT_TRUE(peers.dials(kHigher));
  EXPECT_FALSE(peers.dials(kLower));
  EXPECT_TRUE(peers.dials({kOwn, true}));
  EXPECT_FALSE(peers.dials({kOwn, false}));
}

TEST(PeerTable, APeerStaysThoughAnotherIsAddedForItsProcess) {
  PeerTable peers(kOwn);
  EXPECT_EQ(peers.find(kHigher), nullptr);
  const auto first = make_peer();
  EXPECT_EQ(peers.add(kHigher, first), first);
  EXPECT_EQ(peers.add(kHigher, make_peer()), first);
  EXPECT_EQ(peers.find(kHigher), first);
  EXPECT_EQ(peers.all().size(), 1u);
}

TEST(PeerTable, AProcessIsItsOwnPeerOnceForEachEnd) {
  PeerTable peers(kOwn);
  const auto accepts = peers.add({kOwn, false}, make_peer());
  const auto dials = peers.add({kOwn, true}, make_peer());
  EXPECT_NE(accepts, dials);
  EXPECT_EQ(peers.find(kOwn), dials);
}

TEST(PeerTable, AddressesAreLearntOnceAndReplacedByUpdates) {
  PeerTable peers(kOwn);
  peers.update(kLower, at_port(1));
  EXPECT_TRUE(peers.addresses(kLower).empty());
  peers.add(kLower, make_peer());
  peers.learn(kLower, at_port(2));
  peers.learn(kLower, at_port(3));
  EXPECT_EQ(peers.addresses(kLower), at_port(2));
  peers.update(kLower, at_port(4));
  EXPECT_EQ(peers.addresses(kLower), at_port(4));
}

}  // namespace
}  // namespace tutti
