#include "net/relay.hpp"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <utility>

#include "net/socket.hpp"
#include "net/sockets.hpp"

namespace tutti {
namespace {

struct Connected {
  Fd one;
  Fd other;
};

Connected connect_locally() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
  return {Fd(ends[0]), Fd(ends[1])};
}

Connected connect_by_tcp() {
  auto listening = kernel_sockets().listen(SocketAddress::loopback());
  EXPECT_TRUE(listening);
  Fd dialing(::socket(AF_INET, SOCK_STREAM, 0));
  const SocketAddress address = listening->address;
  EXPECT_EQ(::connect(dialing.get(), reinterpret_cast<const sockaddr*>(&address.storage), address.length), 0);
  pollfd ready{listening->socket.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 5000), 1);
  return {std::move(dialing), Fd(::accept(listening->socket.get(), nullptr, nullptr))};
}

/// Drops whatever comes to a socket from now on, and tells nobody.
void silence(int socket) {
  sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
  const sock_fprog program{1, &drop};
  ASSERT_EQ(::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), 0);
}

/// Returns how many seconds a relay lasts, 15 at most.
double seconds_of(Relay& relay) {
  const auto start = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  while (passed() < 15) {
    pollfd ready{relay.descriptor(1), POLLIN, 0};
    ::poll(&ready, 1, 100);
    if (!relay.advance()) break;
  }
  return passed();
}

TEST(Relay, EndsIfTheFarSideDoesNotAnswer) {
  Connected near = connect_locally();
  Connected far = connect_by_tcp();
  Relay relay(std::move(near.other), std::move(far.one));
  silence(far.other.get());
  silence(relay.descriptor(1));
  ASSERT_EQ(::send(near.one.get(), "x", 1, 0), 1);
  EXPECT_LT(seconds_of(relay), 15);
}

TEST(Relay, LastsWhileTheFarSideSaysNothing) {
  Connected near = connect_locally();
  Connected far = connect_by_tcp();
  Relay relay(std::move(near.other), std::move(far.one));
  for (int turn = 0; turn < 40; ++turn) {
    pollfd ready{relay.descriptor(1), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 100), 0);
    ASSERT_TRUE(relay.advance());
  }
}

}  // namespace
}  // namespace tutti
