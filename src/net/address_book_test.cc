#include "net/address_book.hpp"

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

std::string shown(const Route& route) { return route.is_local() ? route.local : route.remote.to_string(); }

// Hosts "a", "b" and "c" with two processes each, numbered 0 to 5: process 0 listens at 10.0.0.1:80 and locally at
// /p0, and so on.
class Book : public testing::Test {
 protected:
  static ProcessId id_of(int process) { return {7, static_cast<std::uint64_t>(process)}; }

  struct Filled : AddressBook {
    Filled(std::vector<Process> all, const ProcessId& self) { set_processes(std::move(all), self); }
  };

  static Filled make(int self) {
    std::vector<AddressBook::Process> all;
    for (int process = 0; process < 6; ++process) {
      const std::string number = std::to_string(process);
      all.push_back({{id_of(process), {at(("10.0.0." + std::to_string(process + 1) + ":80").c_str())}, "/p" + number},
                     std::string(1, static_cast<char>('a' + process / 2))});
    }
    return {std::move(all), id_of(self)};
  }

  static std::vector<std::string> texts(const std::vector<Route>& routes) {
    std::vector<std::string> all;
    for (const Route& route : routes) all.push_back(shown(route));
    return all;
  }
};
using Texts = std::vector<std::string>;

TEST_F(Book, NumbersProcessesInTheirOrder) {
  const Filled book = make(0);
  EXPECT_EQ(book.number_of(id_of(3)), 3);
  EXPECT_EQ(book.number_of({1, 1}), -1);
  EXPECT_TRUE(book.share_host(2, 3));
  EXPECT_FALSE(book.share_host(1, 2));
  EXPECT_FALSE(book.share_host(1, -1));
}

TEST_F(Book, RelaysThroughNeighboursOfEitherEndInTurn) {
  EXPECT_EQ(texts(make(0).relay_routes(2)), (Texts{"/p1", "10.0.0.4:80"}));
  EXPECT_EQ(texts(make(0).relay_routes(1)), (Texts{"/p1"})) << "a process of this host has its local listener";
  EXPECT_TRUE(make(0).relay_routes(-1).empty());
}

TEST_F(Book, RelaysThroughThirdHostsThatAreConnectedToThePeer) {
  EXPECT_EQ(texts(make(0).relay_routes(2, {1, 3, 5})), (Texts{"/p1", "10.0.0.4:80", "10.0.0.6:80"}))
      << "1 and 3 are on the hosts of the two ends";
}

TEST_F(Book, ForwardsByTcpWhatCameLocally) {
  EXPECT_EQ(texts(make(1).forward_routes(0, 2, true)), (Texts{"10.0.0.3:80", "10.0.0.4:80"}));
  EXPECT_TRUE(make(4).forward_routes(0, 2, true).empty()) << "0 is not of this host";
}

TEST_F(Book, ForwardsLocallyWhatCameByTcp) {
  EXPECT_EQ(texts(make(3).forward_routes(0, 2, false)), (Texts{"/p2"}));
  EXPECT_TRUE(make(3).forward_routes(3, 2, false).empty()) << "both are of one host";
  EXPECT_TRUE(make(1).forward_routes(0, 2, false).empty()) << "this could go in circles";
}

TEST_F(Book, ForwardsToAThirdHostOnlyWhereThePeerIsConnected) {
  const SocketAddress where = at("10.0.0.3:80");
  EXPECT_EQ(texts(make(4).forward_routes(0, 2, false, &where)), (Texts{"10.0.0.3:80"}));
  EXPECT_TRUE(make(4).forward_routes(0, 2, false).empty());
}

TEST_F(Book, LeavesOutWhoWasRemoved) {
  Filled book = make(0);
  book.remove(1);
  book.remove(3);
  EXPECT_TRUE(book.relay_routes(2).empty());
  Filled relay = make(1);
  relay.remove(2);
  EXPECT_TRUE(relay.forward_routes(0, 2, true).empty());
}

TEST_F(Book, FollowsAProcessThatMoved) {
  Filled book = make(0);
  book.update({id_of(3), {at("10.0.9.9:81")}, "/p3"});
  EXPECT_EQ(texts(book.relay_routes(2)), (Texts{"/p1", "10.0.9.9:81"}));
}

// A host that is not known is shared with nobody.
TEST(AddressBook, GuessesNoHosts) {
  AddressBook book;
  book.set_processes({{{{1, 1}, {at("10.0.0.1:80")}, "/one"}, ""}, {{{1, 2}, {at("10.0.0.2:80")}, "/two"}, ""}},
                     {1, 1});
  EXPECT_FALSE(book.share_host(0, 1));
  EXPECT_FALSE(book.share_host(0, 0));
  EXPECT_TRUE(book.relay_routes(1).empty());
}

}  // namespace
}  // namespace tutti
