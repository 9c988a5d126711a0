#include "transport/frame.hpp"

#include <gtest/gtest.h>

#include <random>
#include <unordered_set>

namespace tutti {
namespace {

FrameHeader data_frame() {
  FrameHeader header;
  header.type = FrameType::data;
  header.epoch = 3;
  header.link = {0x123456789abcdef0, 1, 2, 3};
  header.bytes = 4096;
  header.wants_ack = true;
  header.tag = {9, 10};
  header.sequence = 1ull << 40;
  return header;
}

void put(FrameBytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
}

TEST(Frame, SurvivesTheWire) {
  FrameHeader ack;
  ack.type = FrameType::ack;
  ack.epoch = 4;
  ack.link = {1, 2, 3, 4};
  ack.sequence = 77;
  ack.arrived = 0xf0f0;
  ack.credit = 1ull << 50;
  ack.stamp = 0xfffffffe;
  FrameHeader fence;
  fence.type = FrameType::fence;
  fence.lane = 3;
  fence.lane_epoch = 9;
  FrameHeader trial;
  trial.type = FrameType::trial;
  trial.bytes = 256 << 10;
  FrameHeader tried;
  tried.type = FrameType::tried;
  tried.lane = 3;
  tried.lane_epoch = 9;
  tried.stamp = 17;
  FrameHeader bye;
  bye.type = FrameType::bye;
  FrameHeader checked = data_frame();
  checked.is_checked = true;
  checked.checksum = 0xfedcba98;
  FrameHeader again;
  again.type = FrameType::again;
  again.link = {1, 2, 3, 4};
  again.sequence = 1ull << 40;
  again.arrived = 3;
  again.lane = 63;
  again.lane_epoch = 9;
  FrameHeader fence_of_corrupted = fence;
  fence_of_corrupted.is_corrupted = true;
  for (const FrameHeader& header : {data_frame(), checked, ack, fence, fence_of_corrupted, trial, tried, again, bye}) {
    const auto parsed = parse_frame(encode(header));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(*parsed, header);
  }
}

TEST(Frame, IsLittleEndianOnTheWire) {
  const FrameBytes bytes = encode(data_frame());
  EXPECT_EQ(bytes[4], std::byte{3});      // epoch
  EXPECT_EQ(bytes[9], std::byte{0x10});   // 4096
  EXPECT_EQ(bytes[16], std::byte{0xf0});  // communicator
  EXPECT_EQ(bytes[37], std::byte{1});     // sequence
}

TEST(Frame, GreetingsSurviveTheWire) {
  const LaneGreeting hello{FrameType::hello, 2, 5, ProcessId::random(), ProcessId::random()};
  const auto parsed = parse_greeting(encode(hello));
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(*parsed, hello);
  EXPECT_FALSE(parse_frame(encode(hello)).has_value()) << "not on a lane in use";
  EXPECT_FALSE(parse_greeting(encode(data_frame())).has_value());
}

TEST(Frame, RefusesWhatBreaksALimit) {
  FrameHeader large = data_frame();
  large.bytes = kPayloadLimit;
  EXPECT_TRUE(parse_frame(encode(large)).has_value());
  large.bytes = kPayloadLimit + 1;
  EXPECT_FALSE(parse_frame(encode(large)).has_value());

  FrameBytes wrong_magic = encode(data_frame());
  wrong_magic[0] ^= std::byte{1};
  seal(wrong_magic);
  EXPECT_EQ(parse_frame(wrong_magic).error().code, ErrorCode::refused);

  FrameBytes wrong_type = encode(data_frame());
  for (const unsigned type : {0u, 10u, 255u}) {
    wrong_type[3] = static_cast<std::byte>(type);
    seal(wrong_type);
    EXPECT_EQ(parse_frame(wrong_type).error().code, ErrorCode::refused) << type;
  }

  FrameHeader ack;
  ack.type = FrameType::ack;
  FrameBytes ack_with_payload = encode(ack);
  put(ack_with_payload, 8, 1);
  seal(ack_with_payload);
  EXPECT_EQ(parse_frame(ack_with_payload).error().code, ErrorCode::refused);

  FrameHeader fence;
  fence.type = FrameType::fence;
  fence.lane = kLaneLimit;
  EXPECT_FALSE(parse_frame(encode(fence)).has_value());
  FrameHeader again;
  again.type = FrameType::again;
  again.lane = kLaneLimit;
  EXPECT_FALSE(parse_frame(encode(again)).has_value());
}

TEST(Frame, IsCorruptedWhicheverOfItsBitsIsFlipped) {
  for (unsigned bit = 0; bit < 8 * kFrameHeaderBytes; ++bit) {
    FrameBytes bytes = encode(data_frame());
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto parsed = parse_frame(bytes);
    ASSERT_FALSE(parsed.has_value()) << bit;
    EXPECT_EQ(parsed.error().code, ErrorCode::corrupted) << bit;
    FrameBytes greeting = encode(LaneGreeting{FrameType::hello, 2, 5, ProcessId::random(), ProcessId::random()});
    greeting[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(parse_greeting(greeting).has_value()) << bit;
  }
}

TEST(Frame, RandomBytesNeverParseToMoreThanTheLimits) {
  std::mt19937 random(1);
  unsigned parsed_frames = 0;
  for (int i = 0; i < 200000; ++i) {
    FrameBytes bytes = encode(data_frame());
    for (unsigned change = random() % 4; change > 0; --change)
      bytes[3 + random() % 61] = static_cast<std::byte>(random());
    seal(bytes);
    const auto parsed = parse_frame(bytes);
    if (!parsed) continue;
    ++parsed_frames;
    ASSERT_LE(parsed->bytes, kPayloadLimit);
    ASSERT_LT(parsed->lane, kLaneLimit);
    ASSERT_EQ(*parse_frame(encode(*parsed)), *parsed);
  }
  EXPECT_GT(parsed_frames, 1000u);
}

TEST(LinkId, HashesApart) {
  std::unordered_set<std::size_t> hashes;
  for (std::uint32_t source = 0; source < 32; ++source)
    for (std::uint32_t target = 0; target < 32; ++target)
      for (std::uint32_t channel = 0; channel < 4; ++channel)
        hashes.insert(std::hash<LinkId>()({7, source, target, channel}));
  EXPECT_GT(hashes.size(), 4000u);
}

}  // namespace
}  // namespace tutti
