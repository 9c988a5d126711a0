#include "control/agreement/agreement_message.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

Blob bytes_of(std::initializer_list<int> values) {
  Blob bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

const Blob kCast = bytes_of({2, 7, 0, 0, 0});

// One of each kind, for three members.
std::vector<AgreementMessage> one_of_each() {
  const ShrinkProposal whole{{7, 1}, {4, 0}, {true, false, true}, {bytes_of({8}), {}}};
  ShrinkProposal without_blobs = whole;
  without_blobs.blobs.clear();
  return {JoinMessage{7, bytes_of({1, 2}), without_blobs},
          WaitMessage{7, 1.5},
          FollowMessage{7},
          ProposeMessage{whole},
          AcceptMessage{{7, 1}},
          CommitMessage{{4, 0}, {true, false, true}},
          LossMessage{{true, false, false}, {false, true, false}},
          RefuseMessage{7, {false, true, true}},
          JoinsMessage{7, {true, false, true}, {bytes_of({8}), bytes_of({9})}, {{whole, {true, false, false}}}},
          AcceptsMessage{{7, 1}, {true, true, false}},
          CastMessage{1, {true, true, false}, {false, false, true}, nullptr, kCast}};
}

TEST(AgreementMessage, OfEachKindIsDecodedToWhatWasEncoded) {
  for (const AgreementMessage& message : one_of_each()) {
    const Blob bytes = encode(message);
    const auto decoded = decode_agreement_message(bytes, 3);
    ASSERT_TRUE(decoded) << "kind " << message.index();
    EXPECT_EQ(decoded->index(), message.index());
    EXPECT_EQ(encode(*decoded), bytes);
  }
  const auto join = decode_agreement_message(encode(one_of_each()[0]), 3);
  EXPECT_EQ(std::get<JoinMessage>(*join).accepted, std::get<JoinMessage>(one_of_each()[0]).accepted);
  const auto propose = decode_agreement_message(encode(one_of_each()[3]), 3);
  EXPECT_EQ(std::get<ProposeMessage>(*propose).proposal, std::get<ProposeMessage>(one_of_each()[3]).proposal);
}

// Other versions of the library rely on these bytes.
TEST(AgreementMessage, HasAFixedFormOnTheWire) {
  EXPECT_EQ(encode(JoinMessage{1, bytes_of({9}), {}}), bytes_of({0, 1, 0, 0, 0, 1, 0, 0, 0, 9, 0}));
  EXPECT_EQ(encode(CommitMessage{{2, 1}, {true, false, true}}), bytes_of({5, 2, 0, 0, 0, 1, 0, 0, 0, 5}));
  EXPECT_EQ(encode(ProposeMessage{{{2, 1}, {0, 3}, {false, true}, {bytes_of({9})}}}),
            bytes_of({3, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 2, 1, 1, 0, 0, 0, 9}));
  EXPECT_EQ(encode(RefuseMessage{1, {false, true}}), bytes_of({7, 1, 0, 0, 0, 2}));
}

TEST(AgreementMessage, ToAHundredThousandSaysWhoIsDeadInAFewBytes) {
  MemberSet set(100000, true);
  for (const int member : {17, 40000, 40001, 99999}) set.remove(member);
  EXPECT_LT(encode(CommitMessage{{0, 0}, set}).size(), 32u);
  const auto decoded = decode_agreement_message(encode(CommitMessage{{0, 0}, set}), 100000);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(std::get<CommitMessage>(*decoded).set, set);
}

TEST(AgreementMessage, IsRefusedIfItIsTooShortOrTooLong) {
  for (const AgreementMessage& message : one_of_each()) {
    Blob bytes = encode(message);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode_agreement_message(std::span(bytes).first(size), 3)) << message.index() << ", " << size;
    bytes.push_back({});
    EXPECT_FALSE(decode_agreement_message(bytes, 3)) << message.index();
  }
}

TEST(AgreementMessage, IsRefusedIfAFieldIsOutOfRange) {
  EXPECT_FALSE(decode_agreement_message(encode(FollowMessage{-1}), 3));
  EXPECT_FALSE(decode_agreement_message(encode(FollowMessage{Ballot::kLastTerm}), 3));
  EXPECT_FALSE(decode_agreement_message(encode(AcceptMessage{{1, -1}}), 3));
  EXPECT_FALSE(decode_agreement_message(encode(WaitMessage{1, -0.5}), 3));
  EXPECT_FALSE(decode_agreement_message(encode(CastMessage{3, MemberSet(3), MemberSet(3), nullptr, kCast}), 3));
  EXPECT_FALSE(decode_agreement_message(bytes_of({11, 0, 0, 0, 0}), 3)) << "a kind that does not exist";
}

}  // namespace
}  // namespace tutti
