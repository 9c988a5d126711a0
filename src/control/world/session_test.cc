#include "control/world/session.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/wire.hpp"
#include "control/frame.hpp"

namespace tutti {
namespace {

Session::Frame frame_of(std::uint32_t content, std::size_t more = 0) {
  WireWriter out;
  out.put(content);
  out.put_raw(std::vector<std::byte>(more));
  return encode_frame(ControlFrame::message, out.take());
}

struct Parsed {
  std::uint64_t number;
  std::uint32_t content;
};
Parsed parse(const Session::Frame& frame) {
  WireReader in(std::span<const std::byte>(frame).subspan(kFrameHeader));
  const auto number = in.get<std::uint64_t>();
  return {number, in.get<std::uint32_t>()};
}

TEST(Session, KeepsFramesUntilTheyAreAcknowledged) {
  Session session;
  for (std::uint32_t content = 0; content < 5; ++content) {
    EXPECT_EQ(parse(session.push(frame_of(content))).number, content + 1);
  }
  EXPECT_TRUE(session.acknowledged(3));
  ASSERT_EQ(session.kept().size(), 2u);
  EXPECT_EQ(parse(session.kept().front()).content, 3u);
  EXPECT_TRUE(session.acknowledged(2)) << "an old acknowledgement, on a slower connection";
  EXPECT_EQ(session.kept().size(), 2u);
  EXPECT_TRUE(session.acknowledged(5));
  EXPECT_TRUE(session.kept().empty());
}

TEST(Session, TakesEachNumberOnceAndInOrder) {
  Session session;
  EXPECT_EQ(session.arrived(1, 10), Session::Arrival::next);
  EXPECT_EQ(session.arrived(1, 10), Session::Arrival::seen);
  EXPECT_EQ(session.arrived(3, 10), Session::Arrival::gap);
  EXPECT_EQ(session.arrived(2, 10), Session::Arrival::next);
  EXPECT_EQ(session.arrived(3, 10), Session::Arrival::next);
  EXPECT_EQ(session.acknowledge(), 3u);
}

TEST(Session, IsNotFooledByHostileNumbers) {
  constexpr auto kHighest = std::numeric_limits<std::uint64_t>::max();
  Session session;
  EXPECT_EQ(session.arrived(0, 1), Session::Arrival::seen);
  EXPECT_EQ(session.arrived(kHighest, 1), Session::Arrival::gap);
  EXPECT_EQ(session.acknowledge(), 0u);
  session.push(frame_of(0));
  EXPECT_FALSE(session.acknowledged(2));
  EXPECT_FALSE(session.acknowledged(kHighest));
  EXPECT_EQ(session.kept().size(), 1u);
}

TEST(Session, OwesAnAcknowledgementAfterManyFramesOrBytes) {
  Session session;
  for (std::uint64_t number = 1; number < Session::kOwedFrames; ++number) session.arrived(number, 1);
  EXPECT_FALSE(session.owes_acknowledgement());
  session.arrived(1, 1);  // what comes again was not known to have come
  EXPECT_TRUE(session.owes_acknowledgement());
  EXPECT_EQ(session.acknowledge(), Session::kOwedFrames - 1);
  EXPECT_FALSE(session.owes_acknowledgement());
  session.arrived(Session::kOwedFrames, Session::kOwedBytes);
  EXPECT_TRUE(session.owes_acknowledgement());
}

TEST(Session, LosesNothingToAPeerThatIsFarBehindAndTells) {
  Session session;
  std::uint32_t pushed = 0;
  while (!session.overflowed()) session.push(frame_of(pushed++, kMessageLimit));
  EXPECT_EQ(pushed, Session::kLimit / (kMessageLimit + frame_of(0).size()) + 1);
  session.push(frame_of(pushed++));
  ASSERT_EQ(session.kept().size(), pushed);
  EXPECT_EQ(parse(session.kept().back()).number, pushed);
  EXPECT_TRUE(session.acknowledged(2));
  EXPECT_FALSE(session.overflowed());
  session.forget_kept();
  EXPECT_TRUE(session.kept().empty());
  EXPECT_TRUE(session.acknowledged(pushed));
}

// Connections are cut at any point: what is on them is lost, or comes late, after what newer ones bring.
TEST(Session, DeliversExactlyOnceInOrderOverAnyConnections) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  Session sender;
  Session receiver;
  std::vector<std::deque<Session::Frame>> connections(1);
  std::uint32_t pushed = 0;
  std::uint32_t expected = 0;
  const auto receive_one = [&](std::deque<Session::Frame>& connection) {
    const Parsed parsed = parse(connection.front());
    connection.pop_front();
    const auto arrival = receiver.arrived(parsed.number, 1);
    ASSERT_NE(arrival, Session::Arrival::gap);
    if (arrival == Session::Arrival::next) {
      ASSERT_EQ(parsed.content, expected++);
    }
  };
  while (expected < 2000) {
    if (pushed < 2000) connections.back().push_back(sender.push(frame_of(pushed++)));
    auto& connection = connections[random() % connections.size()];
    for (auto left = random() % 4; left > 0 && !connection.empty(); --left) receive_one(connection);
    if (random() % 16 == 0) {
      ASSERT_TRUE(sender.acknowledged(receiver.acknowledge()));
    }
    if (random() % 32 != 0) continue;
    if (random() % 2 == 0) connections.erase(connections.begin());
    connections.emplace_back(sender.kept());
  }
}

}  // namespace
}  // namespace tutti
