#include "bootstrap/wire.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

std::span<const std::byte> payload(const Blob& frame) { return std::span(frame).subspan(kLengthBytes); }

JoinRequest sample() {
  JoinRequest request;
  request.rank = 3;
  request.size = 8;
  request.newcomers = 2;
  request.at_least = 1;
  request.patience = 1.5;
  request.patience_was = 60;
  request.settings = {{"a", "1"}, {"b", ""}};
  request.blob = Blob(100, std::byte{9});
  return request;
}

TEST(Wire, RequestsComeBackAsTheyWere) {
  const Blob frame = encode_request(sample());
  EXPECT_EQ(frame_length(std::span(frame).first<kLengthBytes>()), payload(frame).size());
  const auto decoded = decode_request(payload(frame));
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, sample());
}

TEST(Wire, ARequestCutShortOrWithABitTooMuchIsDamaged) {
  Blob frame = encode_request(sample());
  for (std::size_t kept = 0; kept < payload(frame).size(); ++kept)
    EXPECT_FALSE(decode_request(payload(frame).first(kept))) << kept;
  frame.push_back(std::byte{0});
  EXPECT_FALSE(decode_request(payload(frame)));
}

TEST(Wire, APatienceThatIsNoDurationIsDamaged) {
  for (const double patience : {-1.0, 1e10, std::numeric_limits<double>::quiet_NaN()}) {
    JoinRequest request = sample();
    request.patience = patience;
    EXPECT_FALSE(decode_request(payload(encode_request(request)))) << patience;
  }
}

TEST(Wire, AnswersComeBackAsTheyWere) {
  const Gathered gathered{2, {Blob(3, std::byte{1}), {}, Blob(70000, std::byte{2})}};
  const Blob frame = encode_gathered(gathered);
  EXPECT_EQ(decode_answer(payload(frame)).value(), gathered);
  EXPECT_FALSE(decode_answer(payload(frame).first(50)));
}

TEST(Wire, SizesComeBackAsTheyWere) {
  EXPECT_EQ(decode_size(payload(encode_size(5))).value(), 5);
  for (const int ranks : {0, -1, kMaxRanks + 1}) EXPECT_FALSE(decode_size(payload(encode_size(ranks)))) << ranks;
  EXPECT_FALSE(decode_size(payload(encode_gathered({}))));
}

TEST(Wire, ErrorsKeepTheirCodeAndPeer) {
  Error error;
  error.code = ErrorCode::rank_died;
  error.message = "rank 3 left";
  error.peer = 3;
  const auto decoded = decode_answer(payload(encode_failure(error)));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::rank_died);
  EXPECT_EQ(decoded.error().message, "rank 3 left");
  EXPECT_EQ(decoded.error().peer, 3);
}

}  // namespace
}  // namespace tutti
