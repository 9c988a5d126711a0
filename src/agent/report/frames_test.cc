#include "agent/report/frames.hpp"

#include <gtest/gtest.h>

#include <limits>

namespace tutti::agent {
namespace {

Blob joined(std::initializer_list<Blob> parts) {
  Blob bytes;
  for (const Blob& part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

TEST(ReportReader, puts_frames_together_from_any_pieces) {
  const Blob bytes =
      joined({encode(FrameKind::telemetry, "{}"), encode(FrameKind::alive, ""), encode(FrameKind::look, "abc")});
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    ReportReader reader(100);
    std::vector<Frame> frames;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.add(std::span(bytes).subspan(at, std::min(piece, bytes.size() - at)));
      for (auto next = reader.next(); next && *next; next = reader.next()) frames.push_back(**next);
    }
    ASSERT_EQ(frames.size(), 3U) << piece;
    EXPECT_EQ(frames[0].kind, FrameKind::telemetry);
    EXPECT_EQ(frames[0].payload, "{}");
    EXPECT_EQ(frames[1].payload, "");
    EXPECT_EQ(frames[2].payload, "abc");
  }
}

TEST(ReportReader, refuses_a_length_beyond_its_bound_before_anything_of_it_came) {
  ReportReader reader(8);
  const Blob bytes = encode(FrameKind::telemetry, "123456789");
  reader.add(std::span(bytes).first(5));
  const auto next = reader.next();
  ASSERT_FALSE(next.has_value());
  EXPECT_EQ(next.error().message, "a telemetry of 9 bytes; expected 8 at most");
}

TEST(ReportReader, refuses_a_kind_that_it_does_not_know) {
  for (const std::uint8_t kind : {0, kFrameKinds + 1, 255}) {
    ReportReader reader(8);
    Blob bytes = encode(FrameKind::alive, "");
    bytes[4] = std::byte{kind};
    reader.add(bytes);
    EXPECT_FALSE(reader.next().has_value()) << int{kind};
  }
}

TEST(Hello, is_read_as_it_was_written) {
  const auto hello = decode_hello(encode(Hello{Hello::Speaker::asker, "node7", 42}));
  ASSERT_TRUE(hello.has_value());
  EXPECT_EQ(hello->speaker, Hello::Speaker::asker);
  EXPECT_EQ(hello->host, "node7");
  EXPECT_EQ(hello->place, 42U);
  EXPECT_LE(encode(Hello{Hello::Speaker::agent, std::string(1000, 'x'), 0}).size(), kMostHelloBytes);
}

TEST(Hello, is_refused_where_it_is_cut_short_or_of_another_format) {
  Blob bytes = encode(Hello{Hello::Speaker::agent, "node7", 42});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode_hello(std::span(bytes).first(length)).has_value()) << length;
  EXPECT_FALSE(decode_hello(encode(Hello{Hello::Speaker::agent, "two\nlines", 0})).has_value());
  bytes[0] = std::byte{2};
  EXPECT_EQ(decode_hello(bytes).error().message, "it speaks format 2 of reports; expected 1");
}

TEST(LookMessage, is_read_as_it_was_written_and_refused_where_it_is_not_whole) {
  LookMessage look;
  look.looked_at = 12.5;
  look.sent = 77;
  look.offset_known = true;
  look.offset = -5;
  look.jobs = {1, ~std::uint64_t{0}};
  const std::string payload = encode(look);
  const auto read = decode_look(payload);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->looked_at, 12.5);
  EXPECT_EQ(read->sent, 77);
  EXPECT_EQ(read->offset, -5);
  EXPECT_EQ(read->jobs, look.jobs);
  for (std::size_t length = 0; length < payload.size(); ++length)
    EXPECT_FALSE(decode_look(payload.substr(0, length)).has_value());
  look.looked_at = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(decode_look(encode(look)).has_value());
  look.looked_at = 1;
  look.offset = std::numeric_limits<std::int64_t>::min();
  EXPECT_FALSE(decode_look(encode(look)).has_value());
  look.offset = 0;
  look.jobs.resize(kMostJobs + 1);
  EXPECT_FALSE(decode_look(encode(look)).has_value());
}

TEST(PaceMessage, is_read_as_it_was_written) {
  const auto pace = decode_pace(encode(PaceMessage{1, 2, 3, true}));
  ASSERT_TRUE(pace.has_value());
  EXPECT_EQ(pace->sent, 1);
  EXPECT_EQ(pace->heard, 2);
  EXPECT_EQ(pace->told, 3);
  EXPECT_TRUE(pace->incident);
  EXPECT_FALSE(decode_pace("x").has_value());
}

}  // namespace
}  // namespace tutti::agent
