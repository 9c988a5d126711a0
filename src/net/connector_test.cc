#include "net/connector.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <string>

#include "net/connector_test_kit.hpp"
#include "net/interfaces.hpp"

namespace tutti {
namespace {

class Connecting : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(loop.open()); }

  // Drives all of them until `done` or five seconds are over.
  bool until(const std::vector<Process*>& processes, const std::function<bool()>& done) {
    const double end = loop.now() + 5;
    while (!done()) {
      if (loop.now() >= end) return false;
      double next = loop.now() + 0.05;
      for (Process* each : processes) next = std::min(next, each->connector.tick());
      loop.run_once(next);
    }
    return true;
  }

  EventLoop loop{EventLoop::kNever};
};

TEST_F(Connecting, ExchangesGreetingsAndLeavesTheRestInTheSocket) {
  Process server(loop);
  Process client(loop);
  const auto id = client.connector.dial(Route::to(server.listen()), bytes_of("hello"), {});
  ASSERT_TRUE(id);
  ASSERT_TRUE(until({&server, &client}, [&] { return client.replies.contains(*id) && server.sockets.size() == 1; }));
  EXPECT_EQ(server.greetings, std::vector<std::string>{"hello"});
  EXPECT_EQ(client.replies[*id], "welcome");
  EXPECT_TRUE(server.connector.empty() && client.connector.empty());
  ASSERT_TRUE(send_all(client.sockets[0].get(), bytes_of("more"), Deadline::in(5)));
  Blob more(4);
  ASSERT_TRUE(recv_all(server.sockets[0].get(), more, Deadline::in(5)));
  EXPECT_EQ(text_of(more), "more");
}

TEST_F(Connecting, ComesByALocalListener) {
  Process server(loop);
  Process client(loop);
  bool is_local = false;
  server.judge = [&](Connector::Id, const Connector::Arrival& arrival) {
    is_local = arrival.is_local;
    return Connector::Answer::accept();
  };
  ASSERT_TRUE(client.connector.dial(Route::to_local(server.listen_locally()), bytes_of("hello"), {}));
  ASSERT_TRUE(until({&server, &client}, [&] { return server.sockets.size() == 1; }));
  EXPECT_TRUE(is_local);
  EXPECT_FALSE(client.connector.dial(Route::to_local("/proc/self/fd/1000000"), bytes_of("hello"), {}));
}

TEST_F(Connecting, TellsWhoDoesNotAnswerFromWhoRefusesAndWhoIsSomebodyElse) {
  SocketAddress nobody;
  {
    const auto listener = listen_on(SocketAddress::loopback());
    nobody = local_address(listener->get()).value();
  }
  const auto silent = listen_on(SocketAddress::loopback());  // its kernel answers, and nobody greets
  Process stranger(loop, "another secret of some length", 5);
  Process server(loop);
  server.judge = [](Connector::Id, const Connector::Arrival&) { return Connector::Answer::drop("not wanted"); };
  Process client(loop);
  const auto refused = client.connector.dial(Route::to(nobody), bytes_of("hello"), {});
  const auto slow = client.connector.dial(Route::to(local_address(silent->get()).value()), bytes_of("hello"), {1, 0.2});
  const auto other = client.connector.dial(Route::to(stranger.listen()), bytes_of("hello"), {});
  const auto dropped = client.connector.dial(Route::to(server.listen()), bytes_of("hello"), {});
  ASSERT_TRUE(until({&server, &client, &stranger}, [&] { return client.failures.size() == 4; }));
  EXPECT_EQ(client.failures[*refused], ConnectFailure::nobody_listens);
  EXPECT_EQ(client.failures[*slow], ConnectFailure::ended);
  EXPECT_EQ(client.failures[*other], ConnectFailure::ended) << client.errors[*other];
  EXPECT_EQ(client.failures[*dropped], ConnectFailure::ended);
  EXPECT_EQ(stranger.drops, 1);
  EXPECT_EQ(server.drops, 1);
  EXPECT_TRUE(stranger.greetings.empty());
}

TEST_F(Connecting, RefusesWithAReply) {
  Process server(loop);
  server.judge = [](Connector::Id, const Connector::Arrival&) { return Connector::Answer::refuse(bytes_of("never")); };
  Process client(loop);
  const auto id = client.connector.dial(Route::to(server.listen()), bytes_of("hello"), {});
  ASSERT_TRUE(until({&server, &client}, [&] { return client.replies.contains(*id); }));
  EXPECT_EQ(client.replies[*id], "never");
  EXPECT_TRUE(server.sockets.empty());
}

TEST_F(Connecting, AnswersLaterOrHearsThatTheOtherLeft) {
  Process server(loop);
  server.put_off_answers();
  Process client(loop);
  const SocketAddress address = server.listen();
  const auto first = client.connector.dial(Route::to(address), bytes_of("first"), {5, 5});
  ASSERT_TRUE(until({&server, &client}, [&] { return server.waiting.size() == 1; }));
  const auto second = client.connector.dial(Route::to(address), bytes_of("second"), {5, 5});
  ASSERT_TRUE(until({&server, &client}, [&] { return server.waiting.size() == 2; }));
  client.connector.close(*first);
  ASSERT_TRUE(until({&server, &client}, [&] { return server.gone == 1; }));
  server.connector.answer(server.waiting[1], Connector::Answer::accept(bytes_of("at last")));
  ASSERT_TRUE(until({&server, &client}, [&] { return client.replies.contains(*second); }));
  EXPECT_EQ(client.replies[*second], "at last");
  EXPECT_FALSE(client.failures.contains(*first));
}

class LastWords : public Connecting, public testing::WithParamInterface<bool> {};

// Whoever leaves says its last words behind its greeting, and waits for no reply.
TEST_P(LastWords, WaitUntilTheGreetingIsAnswered) {
  Process server(loop);
  server.put_off_answers();
  Process client(loop);
  const Route route = GetParam() ? Route::to_local(server.listen_locally()) : Route::to(server.listen());
  const auto id = client.connector.dial(route, bytes_of("hello"), {5, 5});
  EXPECT_FALSE(client.connector.take_over(*id));
  ASSERT_TRUE(until({&server, &client}, [&] { return server.waiting.size() == 1; }));
  auto unfinished = client.connector.take_over(*id);
  ASSERT_TRUE(unfinished);
  EXPECT_TRUE(unfinished->unsent.empty());
  ASSERT_TRUE(send_all(unfinished->socket.get(), bytes_of("goodbye"), Deadline::in(5)));
  unfinished->socket.reset();
  int turns = 0;
  until({&server}, [&, end = loop.now() + 0.3] { return ++turns > 1000 || loop.now() > end; });
  EXPECT_LT(turns, 100) << "the loop spins";
  EXPECT_EQ(server.gone, 0) << "there is something to read";
  server.connector.answer(server.waiting[0], Connector::Answer::accept());
  ASSERT_EQ(server.sockets.size(), 1u);
  Blob last(7);
  ASSERT_TRUE(recv_all(server.sockets[0].get(), last, Deadline::in(5)));
  EXPECT_EQ(text_of(last), "goodbye");
}

INSTANTIATE_TEST_SUITE_P(Over, LastWords, testing::Bool(),
                         [](const auto& test) { return test.param ? "ALocalSocket" : "Tcp"; });

// A rank that asks to join and dies at once is to be missed.
TEST_F(Connecting, JudgesWhoGreetsAndEndsAtOnce) {
  Process server(loop);
  server.judge = [](Connector::Id, const Connector::Arrival&) { return Connector::Answer::accept(); };
  Process client(loop);
  const auto id = client.connector.dial(Route::to(server.listen()), bytes_of("hello"), {5, 5});
  std::optional<Connector::Unfinished> unfinished;
  ASSERT_TRUE(until({&client, &server}, [&] { return (unfinished = client.connector.take_over(*id)).has_value(); }));
  ASSERT_TRUE(send_all(unfinished->socket.get(), unfinished->unsent, Deadline::in(5)));
  unfinished->socket.reset();
  ASSERT_TRUE(until({&server}, [&] { return server.greetings.size() == 1; }));
  EXPECT_EQ(server.sockets.size(), 1u);
  EXPECT_EQ(server.gone, 0);
}

TEST_F(Connecting, TurnsAwayAtOnceWhoeverTheKeyDoesNotAllow) {
  Process server(loop, "", 60);  // no secret: loopback only
  auto accepted = listen_on(SocketAddress::any(AF_INET));
  ASSERT_TRUE(accepted);
  const std::uint16_t port = local_address(accepted->get())->port();
  ASSERT_TRUE(server.connector.listen(std::move(*accepted)));
  const auto own = own_addresses();
  const auto outside = std::find_if(own.begin(), own.end(), [](const OwnAddress& each) {
    return each.address.family() == AF_INET && !each.address.is_loopback();
  });
  if (outside == own.end()) GTEST_SKIP() << "this host has only loopback";
  const SocketAddress source = outside->address;
  const auto idle = connect_once(source.with_port(port), Deadline::in(5), &source);
  ASSERT_TRUE(idle);
  EXPECT_TRUE(until({&server}, [&] { return server.drops == 1; }));
}

TEST_F(Connecting, PassesAGreetingOnByTheFirstRouteThatLeadsThere) {
  Process target(loop);
  Process relay(loop);
  Process client(loop);
  const SocketAddress address = target.listen();
  const auto silent = listen_on(SocketAddress::loopback());
  relay.judge = [&](Connector::Id, const Connector::Arrival&) {
    return Connector::Answer::pass_on({Route::to_local("/proc/self/fd/1000000"),
                                       Route::to(local_address(silent->get()).value()), Route::to(address)});
  };
  const auto id = client.connector.dial(Route::to(relay.listen()), bytes_of("for the target"), {5, 5});
  ASSERT_TRUE(until({&target, &relay, &client}, [&] { return client.replies.contains(*id); }));
  EXPECT_EQ(target.greetings, std::vector<std::string>{"for the target"});
  EXPECT_EQ(client.replies[*id], "welcome");
  ASSERT_TRUE(send_all(client.sockets[0].get(), bytes_of("through"), Deadline::in(5)));
  Blob through(7);
  std::size_t received = 0;
  ASSERT_TRUE(until({&target, &relay, &client}, [&] {
    received += recv_some(target.sockets[0].get(), std::span(through).subspan(received)).value_or(0);
    return received == through.size();
  }));
  EXPECT_EQ(text_of(through), "through");
  client.sockets.clear();
  EXPECT_TRUE(until({&target, &relay}, [&] { return relay.connector.empty(); }));
}

TEST_F(Connecting, TurnsAwayWhoGreetsTooLongOrNotAtAll) {
  Process server(loop, kSecret, 0.3);
  Process client(loop);
  const SocketAddress address = server.listen();
  const auto id = client.connector.dial(Route::to(address), Blob(65), {5, 5});
  const auto idle = start_connect(address);
  ASSERT_TRUE(until({&server, &client}, [&] { return server.drops == 2; }));
  EXPECT_EQ(client.failures[*id], ConnectFailure::ended);
  EXPECT_TRUE(server.greetings.empty());
}

TEST_F(Connecting, SaysNothingOfWhoOnlyLooksWhetherThereIsAWay) {
  Process server(loop);
  const SocketAddress address = server.listen();
  {
    const auto look = connect_once(address, Deadline::in(5));
    ASSERT_TRUE(look);
  }
  until({&server}, [&, end = loop.now() + 0.2] { return loop.now() > end; });
  EXPECT_EQ(server.drops, 0);
  EXPECT_TRUE(server.connector.empty());
}

// More idle connections than there may be: the oldest make room, and a peer gets in behind all of them.
TEST_F(Connecting, BoundsThoseWhoHaveNotProvenThemselves) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    Process server(loop, kSecret, 60);
    Process client(loop);
    EXPECT_EQ(Connector::unproven_limit(), 32u);
    const SocketAddress address = server.listen();
    std::vector<Fd> idle;
    for (int number = 0; number < 80; ++number) idle.push_back(std::move(*start_connect(address)));
    const auto id = client.connector.dial(Route::to(address), bytes_of("hello"), {5, 5});
    ASSERT_TRUE(until({&server, &client}, [&] { return client.replies.contains(*id); }));
    EXPECT_GE(server.drops, 80 + 1 - 32);
    EXPECT_LT(server.drops, 80);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(Connecting, StopsListeningAndKeepsWhoHasGreeted) {
  Process server(loop);
  server.put_off_answers();
  Process client(loop);
  const SocketAddress address = server.listen();
  const auto id = client.connector.dial(Route::to(address), bytes_of("hello"), {5, 5});
  const auto idle = connect_once(address, Deadline::in(5));
  ASSERT_TRUE(until({&server, &client}, [&] { return server.waiting.size() == 1; }));
  server.connector.stop_listening();
  const auto late = client.connector.dial(Route::to(address), bytes_of("too late"), {5, 5});
  server.connector.answer(server.waiting[0], Connector::Answer::accept(bytes_of("welcome")));
  ASSERT_TRUE(
      until({&server, &client}, [&] { return client.replies.contains(*id) && client.failures.contains(*late); }));
  EXPECT_EQ(client.failures[*late], ConnectFailure::nobody_listens);
  EXPECT_TRUE(server.connector.empty());
}

}  // namespace
}  // namespace tutti
