#include "transport/tcp/frame_reader.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <vector>

#include "transport/tcp/tcp_test_kit.hpp"

namespace tutti {
namespace {

constexpr LinkId kLink{1, 2, 3, 4};

void append_frame(std::vector<std::byte>& stream, const FrameHeader& header, std::span<const std::byte> payload) {
  const FrameBytes encoded = encode(header);
  stream.insert(stream.end(), encoded.begin(), encoded.end());
  stream.insert(stream.end(), payload.begin(), payload.end());
}

// Reads what fits into the places, and at most `limit` bytes. Returns how many.
std::size_t read(FrameReader& reader, std::span<const std::byte> stream, std::size_t limit) {
  iovec parts[2];
  const int used = reader.places(parts);
  std::size_t done = 0;
  for (int part = 0; part < used; ++part) {
    const std::size_t bytes = std::min({parts[part].iov_len, stream.size() - done, limit - done});
    if (bytes != 0) std::memcpy(parts[part].iov_base, stream.data() + done, bytes);
    done += bytes;
  }
  reader.took(done);
  return done;
}

TEST(FrameReader, FramesComeWholeHoweverTheirBytesAreCut) {
  std::vector<std::byte> stream;
  std::vector<FrameHeader> sent;
  std::vector<std::vector<std::byte>> payloads;
  for (const std::size_t bytes : {0u, 1u, 64u, 5'000u, 0u, 16'384u, 100'000u, 9u}) {
    sent.push_back(data_header(kLink, sent.size(), bytes));
    payloads.push_back(pattern(bytes, static_cast<unsigned>(bytes)));
    append_frame(stream, sent.back(), payloads.back());
  }
  for (const std::size_t limit : {1u, 7u, 64u, 65u, 4'096u, 1u << 20}) {
    FrameReader reader;
    std::vector<FrameHeader> ended;
    std::vector<std::byte> landing;
    for (std::size_t at = 0; at < stream.size();) {
      at += read(reader, std::span(stream).subspan(at), limit);
      while (reader.is_in_frame() || reader.has_header()) {
        if (!reader.is_in_frame()) {
          const auto header = reader.begin();
          ASSERT_TRUE(header);
          landing.assign(header->bytes, std::byte{0});
          reader.land(landing.data());
        }
        if (!reader.is_whole()) break;
        EXPECT_EQ(landing, payloads[ended.size()]) << limit;
        ended.push_back(reader.end());
      }
    }
    EXPECT_EQ(ended, sent) << limit;
    EXPECT_TRUE(reader.is_between_frames());
  }
}

TEST(FrameReader, TheRestOfAPayloadGoesStraightToItsLanding) {
  const auto payload = pattern(50'000, 1);
  std::vector<std::byte> stream;
  append_frame(stream, data_header(kLink, 0, payload.size()), payload);
  std::vector<std::byte> landing(payload.size());
  FrameReader reader;
  read(reader, stream, kFrameHeaderBytes + 100);
  ASSERT_TRUE(reader.begin());
  reader.land(landing.data());
  iovec parts[2];
  ASSERT_EQ(reader.places(parts), 2);
  EXPECT_EQ(parts[0].iov_base, landing.data() + 100);
  EXPECT_EQ(parts[0].iov_len, payload.size() - 100);
}

TEST(FrameReader, NothingIsWrittenToALandingThatIsForgotten) {
  const auto payload = pattern(200'000, 1);
  std::vector<std::byte> stream;
  append_frame(stream, data_header(kLink, 0, payload.size()), payload);
  append_frame(stream, data_header(kLink, 1, 0), {});
  std::vector<std::byte> landing(payload.size());
  FrameReader reader;
  std::size_t at = read(reader, stream, kFrameHeaderBytes);
  ASSERT_TRUE(reader.begin());
  reader.land(landing.data());
  at += read(reader, std::span(stream).subspan(at), 1'000);
  reader.forget({9, 9, 9, 9});
  at += read(reader, std::span(stream).subspan(at), 1'000);
  reader.forget(kLink);
  while (at < stream.size()) at += read(reader, std::span(stream).subspan(at), 1 << 20);
  ASSERT_TRUE(reader.is_whole());
  EXPECT_EQ(reader.end().sequence, 0u);
  EXPECT_EQ(landing[1'999], payload[1'999]);
  EXPECT_EQ(std::vector(landing.begin() + 2'000, landing.end()), std::vector<std::byte>(198'000));
  ASSERT_TRUE(reader.has_header());
  EXPECT_EQ(reader.begin()->sequence, 1u);
}

TEST(FrameReader, RefusesBytesThatAreNoFrame) {
  const std::vector<std::byte> garbage(kFrameHeaderBytes, std::byte{0xff});
  FrameReader reader;
  read(reader, std::span(garbage).first(kFrameHeaderBytes - 1), kFrameHeaderBytes);
  EXPECT_FALSE(reader.has_header());
  read(reader, std::span(garbage).first(1), 1);
  ASSERT_TRUE(reader.has_header());
  EXPECT_FALSE(reader.begin());
}

}  // namespace
}  // namespace tutti
