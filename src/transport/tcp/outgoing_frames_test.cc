#include "transport/tcp/outgoing_frames.hpp"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "transport/tcp/tcp_test_kit.hpp"

namespace tutti {
namespace {

constexpr LinkId kLink{1, 2, 3, 4};
constexpr LinkId kOther{5, 6, 7, 8};

OutgoingFrame frame_of(const FrameHeader& header, const std::byte* payload = nullptr, bool keep = false) {
  return {header, encode(header), payload, nullptr, 0, keep};
}

OutgoingFrame ack() {
  FrameHeader header;
  header.type = FrameType::ack;
  return frame_of(header);
}

// Writes at most `limit` bytes of what is next to `written`; returns the sequences of data, and ~0 for all else, that
// left.
std::vector<std::uint64_t> write(OutgoingFrames& frames, std::size_t limit, std::vector<std::byte>* written = nullptr) {
  iovec parts[6];
  const int used = frames.gather(parts);
  std::size_t done = 0;
  for (int part = 0; part < used; ++part) {
    const auto* const from = static_cast<const std::byte*>(parts[part].iov_base);
    const std::size_t bytes = std::min(parts[part].iov_len, limit - done);
    if (written != nullptr) written->insert(written->end(), from, from + bytes);
    done += bytes;
  }
  std::vector<std::uint64_t> left;
  frames.wrote(done, [&](const OutgoingFrame& frame) {
    left.push_back(frame.header.type == FrameType::data ? frame.header.sequence : ~std::uint64_t{0});
  });
  return left;
}

TEST(OutgoingFrames, LeaveInOrderHoweverLittleIsWrittenAtOnce) {
  const auto payload = pattern(500, 1);
  for (const std::size_t limit : {1u, 63u, 64u, 65u, 1'000u}) {
    OutgoingFrames frames;
    std::vector<std::byte> expected;
    for (std::uint64_t sequence = 0; sequence < 5; ++sequence) {
      const std::size_t bytes = sequence * 100;
      const FrameBytes encoded = encode(data_header(kLink, sequence, bytes));
      expected.insert(expected.end(), encoded.begin(), encoded.end());
      expected.insert(expected.end(), payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(bytes));
      frames.add(frame_of(data_header(kLink, sequence, bytes), payload.data()));
    }
    std::vector<std::byte> written;
    std::vector<std::uint64_t> left;
    while (!frames.empty())
      for (const std::uint64_t sequence : write(frames, limit, &written)) left.push_back(sequence);
    EXPECT_EQ(left, (std::vector<std::uint64_t>{0, 1, 2, 3, 4})) << limit;
    EXPECT_EQ(written, expected) << limit;
  }
}

TEST(OutgoingFrames, AcknowledgementsOvertakeDataThatHasNotBegunToLeave) {
  const auto payload = pattern(100, 1);
  OutgoingFrames frames;
  frames.add(frame_of(data_header(kLink, 0, 100), payload.data()));
  frames.add(frame_of(data_header(kLink, 1, 100), payload.data()));
  EXPECT_TRUE(write(frames, 10).empty());
  frames.add(ack());
  EXPECT_EQ(write(frames, 10'000), (std::vector<std::uint64_t>{0, ~std::uint64_t{0}, 1}));
}

TEST(OutgoingFrames, OfAForgottenLinkOnlyWhatMustBeSentIsSentFromACopy) {
  auto payload = pattern(100, 1);
  const auto before = payload;
  OutgoingFrames frames;
  frames.add(frame_of(data_header(kLink, 0, 100), payload.data()));
  frames.add(frame_of(data_header(kLink, 1, 100), payload.data()));
  frames.add(frame_of(data_header(kLink, 2, 100), payload.data(), true));
  frames.add(frame_of(data_header(kOther, 3, 0)));
  std::vector<std::byte> written;
  EXPECT_TRUE(write(frames, kFrameHeaderBytes + 10, &written).empty());
  frames.forget(kLink);
  std::fill(payload.begin(), payload.end(), std::byte{0});
  EXPECT_EQ(write(frames, 10'000, &written), (std::vector<std::uint64_t>{0, 2, 3}));
  for (const std::size_t frame : {0u, 1u}) {
    const auto begin =
        written.begin() + static_cast<std::ptrdiff_t>(frame * (kFrameHeaderBytes + 100) + kFrameHeaderBytes);
    EXPECT_EQ(std::vector(begin, begin + 100), before);
  }
}

TEST(OutgoingFrames, NoMoreIsGatheredThanFits) {
  const auto payload = pattern(100, 1);
  OutgoingFrames frames;
  for (std::uint64_t sequence = 0; sequence < 5; ++sequence)
    frames.add(frame_of(data_header(kLink, sequence, 100), payload.data()));
  EXPECT_EQ(write(frames, 10'000), (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(write(frames, 10'000), (std::vector<std::uint64_t>{3, 4}));
}

}  // namespace
}  // namespace tutti
