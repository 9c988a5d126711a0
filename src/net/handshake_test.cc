#include "net/handshake.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace tutti {
namespace {

const SocketAddress kNear = *SocketAddress::parse("10.0.0.1:1");
const SocketAddress kFar = *SocketAddress::parse("10.0.0.2:2");

struct Outcome {
  Status connector;
  Status acceptor;
  bool done = false;
};

// Carries bytes to and fro, `piece` at a time, until both are done, one fails or nothing moves.
Outcome converse(Handshake& connector, Handshake& acceptor, std::size_t piece) {
  Outcome outcome;
  const auto carry = [&](Handshake& from, Handshake& to, Status& status) {
    const std::size_t count = std::min({piece, from.outgoing().size(), to.wanted()});
    if (count == 0) return false;
    status = to.receive(from.outgoing().first(count));
    from.sent(count);
    return true;
  };
  while (carry(connector, acceptor, outcome.acceptor) | carry(acceptor, connector, outcome.connector))
    if (!outcome.acceptor || !outcome.connector) break;
  // A refused side may still have a word for the other.
  while (outcome.connector && carry(acceptor, connector, outcome.connector)) {
  }
  outcome.done = connector.done() && acceptor.done();
  return outcome;
}

struct Ends {
  Handshake connector;
  Handshake acceptor;
};
Ends ends(const std::string& near_secret, const std::string& far_secret, Purpose near = Purpose::data,
          Purpose far = Purpose::data) {
  return {Handshake(Side::connector, near, JobKey(near_secret, "", false), kFar),
          Handshake(Side::acceptor, far, JobKey(far_secret, "", false), kNear)};
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Handshake, SucceedsHoweverTheBytesArrive) {
  for (const std::size_t piece : {1, 7, 32, 64, 1000}) {
    Ends pair = ends("secret", "secret");
    EXPECT_TRUE(converse(pair.connector, pair.acceptor, piece).done) << "in pieces of " << piece;
  }
}

TEST(Handshake, WantsNotAByteBeyondItsOwn) {
  Ends pair = ends("secret", "secret");
  ASSERT_TRUE(converse(pair.connector, pair.acceptor, 64).done);
  EXPECT_EQ(pair.connector.wanted(), 0u);
  EXPECT_EQ(pair.acceptor.wanted(), 0u);
  EXPECT_FALSE(pair.acceptor.receive(bytes_of("x")));
}

TEST(Handshake, RefusesAWrongSecretAndProvesNothingToIt) {
  Ends pair = ends("secret", "another");
  const Outcome outcome = converse(pair.connector, pair.acceptor, 64);
  ASSERT_FALSE(outcome.acceptor);
  EXPECT_EQ(outcome.acceptor.error().code, ErrorCode::refused);
  EXPECT_EQ(outcome.acceptor.error().message, "10.0.0.1:1 does not know the job's secret");
  EXPECT_TRUE(pair.acceptor.outgoing().empty());
  EXPECT_FALSE(pair.connector.done());
  EXPECT_TRUE(pair.connector.awaits_verdict());
  EXPECT_NE(pair.connector.closed().message.find("different secret"), std::string::npos);
}

TEST(Handshake, RefusesAnotherJobOfTheSameSecret) {
  Handshake connector(Side::connector, Purpose::data, JobKey("secret", "job 1", false), kFar);
  Handshake acceptor(Side::acceptor, Purpose::data, JobKey("secret", "job 2", false), kNear);
  const Outcome outcome = converse(connector, acceptor, 64);
  ASSERT_FALSE(outcome.acceptor);
  ASSERT_FALSE(outcome.connector);
  EXPECT_EQ(outcome.connector.error().message, "10.0.0.2:2 is of another job");
  EXPECT_FALSE(connector.awaits_verdict()) << "it proved nothing to another job";
}

TEST(Handshake, TellsBothSidesThatTheyAreThereForDifferentThings) {
  Ends pair = ends("secret", "secret", Purpose::data, Purpose::control);
  const Outcome outcome = converse(pair.connector, pair.acceptor, 64);
  ASSERT_FALSE(outcome.acceptor);
  ASSERT_FALSE(outcome.connector);
  EXPECT_EQ(outcome.acceptor.error().message, "10.0.0.1:1 is there for data, we are for control");
  EXPECT_EQ(outcome.connector.error().message, "10.0.0.2:2 is there for control, we are for data");
}

TEST(Handshake, TellsBothSidesThatTheirVersionsDiffer) {
  const JobKey key("secret", "", false);
  Handshake connector(Side::connector, Purpose::data, key, kFar, {0, 2, 0});
  Handshake acceptor(Side::acceptor, Purpose::data, key, kNear, {0, 1, 5});
  const Outcome outcome = converse(connector, acceptor, 3);
  ASSERT_FALSE(outcome.acceptor);
  ASSERT_FALSE(outcome.connector);
  EXPECT_EQ(outcome.acceptor.error().message, "10.0.0.1:1 runs tutti 0.2.0, we run 0.1.5");
  EXPECT_EQ(outcome.connector.error().message, "10.0.0.2:2 runs tutti 0.1.5, we run 0.2.0");
}

TEST(Handshake, AcceptsAnotherPatchOfTheSameVersion) {
  const JobKey key("secret", "", false);
  Handshake connector(Side::connector, Purpose::data, key, kFar, {0, 1, 0});
  Handshake acceptor(Side::acceptor, Purpose::data, key, kNear, {0, 1, 5});
  EXPECT_TRUE(converse(connector, acceptor, 64).done);
}

TEST(Handshake, RefusesGarbageAtItsFirstByteAndSaysNothing) {
  Handshake acceptor(Side::acceptor, Purpose::data, JobKey("secret"), kNear);
  const auto refused = acceptor.receive(bytes_of("GET / HTTP/1.1"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "10.0.0.1:1 does not speak tutti's protocol");
  EXPECT_TRUE(acceptor.outgoing().empty());
  EXPECT_FALSE(acceptor.receive(bytes_of("more")));
}

TEST(Handshake, RefusesItsOwnWordsReflected) {
  Handshake connector(Side::connector, Purpose::data, JobKey("secret"), kFar);
  const std::vector<std::byte> own(connector.outgoing().begin(), connector.outgoing().end());
  connector.sent(own.size());
  EXPECT_FALSE(connector.receive(own));
}

TEST(Handshake, RefusesAnyBitAlteredOnTheWay) {
  const std::size_t total = Handshake::kHelloBytes + Handshake::kProofBytes;
  for (std::size_t altered = 0; altered < total; ++altered) {
    Ends pair = ends("secret", "secret");
    std::size_t at = 0;
    Status refused;
    while (refused && !pair.connector.outgoing().empty()) {
      std::byte byte = pair.connector.outgoing().front();
      if (at++ == altered) byte ^= std::byte{4};
      pair.connector.sent(1);
      refused = pair.acceptor.receive(std::span(&byte, 1));
      while (refused && !pair.acceptor.outgoing().empty()) {
        if (!pair.connector.receive(pair.acceptor.outgoing().first(1))) break;
        pair.acceptor.sent(1);
      }
    }
    EXPECT_FALSE(refused) << "byte " << altered;
  }
}

TEST(JobKey, WithoutASecretServesLoopbackOnlyUnlessInsecure) {
  const JobKey open("", "", false);
  EXPECT_TRUE(open.allows(SocketAddress::loopback()));
  const auto refused = open.allows(kFar);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::refused);
  EXPECT_NE(refused.error().message.find("TUTTI_SECRET"), std::string::npos);
  EXPECT_TRUE(JobKey("", "", true).allows(kFar));
  EXPECT_TRUE(JobKey("secret", "", false).allows(kFar));
  Handshake connector(Side::connector, Purpose::data, open, kFar);
  EXPECT_TRUE(connector.outgoing().empty()) << "not even a hello";
}

TEST(Authenticate, WorksOverASocketAndEndsAtTheDeadline) {
  auto listener = listen_on(SocketAddress::loopback(), {});
  const auto address = *local_address(listener->get());
  auto near = connect_to(address, Deadline::in(5));
  auto far = accept_before(listener->get(), Deadline::in(5));
  const auto silent = authenticate(near->get(), Side::connector, Purpose::control, JobKey("s"), Deadline::in(0.02));
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ErrorCode::timed_out);
  EXPECT_NE(silent.error().message.find(address.to_string()), std::string::npos);

  auto second = connect_to(address, Deadline::in(5));
  auto accepted = accept_before(listener->get(), Deadline::in(5));
  Status acceptor;
  std::thread other([&] {
    acceptor = authenticate(accepted->connection.get(), Side::acceptor, Purpose::control, JobKey("s"), Deadline::in(5));
  });
  EXPECT_TRUE(authenticate(second->get(), Side::connector, Purpose::control, JobKey("s"), Deadline::in(5)));
  other.join();
  EXPECT_TRUE(acceptor);
}

}  // namespace
}  // namespace tutti
