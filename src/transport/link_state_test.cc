#include "transport/link_state.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "base/crc32c.hpp"
#include "transport/checksums.hpp"

namespace tutti {
namespace {

constexpr OperationTag kTag{1, 2};

LinkLimits limits_of(std::size_t chunk, std::size_t window, std::size_t copy = 0) {
  LinkLimits limits;
  limits.chunk_limit = chunk;
  limits.window = window;
  limits.copy_limit = copy;
  return limits;
}

FrameHeader data(std::uint64_t sequence, std::size_t bytes, OperationTag tag = kTag) {
  FrameHeader header;
  header.type = FrameType::data;
  header.sequence = sequence;
  header.bytes = static_cast<std::uint32_t>(bytes);
  header.tag = tag;
  header.wants_ack = true;
  return header;
}

// A whole chunk, filled with its number.
bool deliver(LinkReceiver& receiver, std::uint64_t sequence, std::size_t bytes, std::uint32_t lane = 0) {
  const auto landing = receiver.begin(lane, data(sequence, bytes));
  if (!landing) return false;
  if (*landing != nullptr) std::memset(*landing, static_cast<int>(sequence), bytes);
  receiver.complete(lane, sequence);
  return true;
}

struct Sender {
  LinkSender state;
  std::vector<LinkSender::Completed> completed;
  std::vector<std::byte> memory = std::vector<std::byte>(1000);

  explicit Sender(const LinkLimits& limits, std::uint64_t credit = 1 << 20) : state(limits) {
    EXPECT_TRUE(state.acknowledge({0, 0, credit}, completed).has_value());
  }
  std::uint64_t send(std::size_t bytes, std::uint32_t lane = 0) {
    const auto sequence = state.post(memory.data(), bytes, kTag, lane);
    state.transmitted(sequence);
    return sequence;
  }
};

TEST(LinkSender, PostsOnlyWithinItsCredit) {
  LinkSender sender(limits_of(1000, 4000));
  EXPECT_FALSE(sender.may_post(0)) << "the receiver has granted nothing yet";
  std::vector<LinkSender::Completed> completed;
  ASSERT_TRUE(sender.acknowledge({0, 0, 2 * chunk_cost(100)}, completed).has_value());
  const std::byte memory[101] = {};
  ASSERT_TRUE(sender.may_post(100));
  sender.post(memory, 100, kTag, 0);
  EXPECT_FALSE(sender.may_post(101));
  EXPECT_TRUE(sender.may_post(100));
  sender.post(memory, 100, kTag, 0);
  EXPECT_FALSE(sender.may_post(0));
}

TEST(LinkSender, ReleasesMemoryWhenThePrefixIsAcked) {
  Sender sender(limits_of(1000, 4000));
  for (int i = 0; i < 4; ++i) sender.send(1000, static_cast<std::uint32_t>(i % 2));
  ASSERT_TRUE(sender.state.acknowledge({0, 0b101, 0}, sender.completed).has_value());  // chunks 1 and 3
  EXPECT_EQ(sender.state.released(), 0u);
  EXPECT_EQ(sender.completed.size(), 2u);
  ASSERT_TRUE(sender.state.acknowledge({2, 0b1, 0}, sender.completed).has_value());
  EXPECT_EQ(sender.state.released(), 2u);
  ASSERT_TRUE(sender.state.acknowledge({4, 0, 0}, sender.completed).has_value());
  EXPECT_EQ(sender.state.acked(), 4u);
  EXPECT_EQ(sender.completed.size(), 4u);
}

TEST(LinkSender, CopiesSmallChunksAndReleasesThemAtOnce) {
  Sender sender(limits_of(1000, 4000, 100));
  sender.memory[0] = std::byte{7};
  const auto sequence = sender.send(100);
  EXPECT_EQ(sender.state.released(), 1u);
  sender.memory[0] = std::byte{8};
  EXPECT_EQ(sender.state.chunk(sequence).data[0], std::byte{7});
  sender.send(101);
  sender.send(1);
  EXPECT_EQ(sender.state.released(), 1u) << "the second one needs its memory";
  ASSERT_TRUE(sender.state.acknowledge({2, 0, 0}, sender.completed).has_value());
  EXPECT_EQ(sender.state.released(), 3u);
}

TEST(LinkSender, IgnoresOldAcknowledgements) {
  Sender sender(limits_of(1000, 4000));
  for (int i = 0; i < 3; ++i) sender.send(10);
  ASSERT_TRUE(sender.state.acknowledge({3, 0, 500}, sender.completed).has_value());
  ASSERT_TRUE(sender.state.acknowledge({1, 0b1, 100}, sender.completed).has_value());
  EXPECT_EQ(sender.completed.size(), 3u);
}

TEST(LinkSender, RefusesAcknowledgementOfWhatWasNotTransmitted) {
  LinkSender sender(limits_of(1000, 4000));
  std::vector<LinkSender::Completed> completed;
  ASSERT_TRUE(sender.acknowledge({0, 0, 10000}, completed).has_value());
  const std::byte memory[8] = {};
  sender.post(memory, 8, kTag, 0);
  EXPECT_FALSE(sender.acknowledge({1, 0, 10000}, completed).has_value());
  EXPECT_FALSE(sender.acknowledge({2, 0, 10000}, completed).has_value());
}

// The acknowledgement of a chunk more than 64 ahead of a gap is told only when the gap is filled.
TEST(LinkSender, AcceptsAcknowledgementOfWhatALostLaneBroughtWhileACopyIsQueued) {
  Sender sender(limits_of(1000, 4000));
  constexpr std::uint64_t kChunks = 80;
  for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) sender.send(10, 1);
  sender.state.resent(kChunks - 1, 2, 0);
  ASSERT_TRUE(sender.state.acknowledge({kChunks, 0, 0}, sender.completed).has_value());
  EXPECT_EQ(sender.state.acked(), kChunks - 1) << "the copy in the queue still reads its memory";
  EXPECT_EQ(sender.state.released(), kChunks - 1);
  sender.state.transmitted(kChunks - 1);
  ASSERT_TRUE(sender.state.acknowledge({kChunks, 0, 0}, sender.completed).has_value()) << "as the copy is answered";
  EXPECT_EQ(sender.state.acked(), kChunks);
  EXPECT_EQ(sender.completed.size(), kChunks);
}

TEST(LinkSender, NamesWhatALostLaneLeftOpen) {
  Sender sender(limits_of(1000, 4000));
  for (std::uint32_t i = 0; i < 6; ++i) sender.send(10, i % 2);
  ASSERT_TRUE(sender.state.acknowledge({1, 0b10, 0}, sender.completed).has_value());  // chunks 0 and 3
  EXPECT_EQ(sender.state.unacked_on(1), (std::vector<std::uint64_t>{1, 5}));
  sender.state.resent(1, 0, 0);
  EXPECT_EQ(sender.state.unacked_on(1), (std::vector<std::uint64_t>{5}));
  EXPECT_EQ(sender.state.unacked_on(0), (std::vector<std::uint64_t>{1, 2, 4}));
}

TEST(LinkReceiver, HandsChunksOutInOrderHoweverTheyCome) {
  LinkReceiver receiver(limits_of(100, 1000));
  std::byte landing[3][10];
  for (auto& each : landing) receiver.expect(each, 10, kTag);
  ASSERT_TRUE(deliver(receiver, 2, 10, 1));
  EXPECT_FALSE(receiver.poll().has_value());
  ASSERT_TRUE(deliver(receiver, 0, 10));
  ASSERT_TRUE(receiver.poll().has_value());
  EXPECT_EQ(receiver.poll()->data, landing[0]);
  receiver.release();
  EXPECT_FALSE(receiver.poll().has_value());
  ASSERT_TRUE(deliver(receiver, 1, 10));
  EXPECT_EQ(receiver.received(), 3u);
  receiver.release();
  EXPECT_EQ(receiver.poll()->data, landing[2]);
  EXPECT_EQ(landing[2][9], std::byte{2});
}

TEST(LinkReceiver, AcknowledgesThePrefixAndABitmap) {
  LinkReceiver receiver(limits_of(100, 100000));
  for (const std::uint64_t sequence : {0u, 1u, 3u, 5u, 66u, 67u}) ASSERT_TRUE(deliver(receiver, sequence, 10));
  const Acknowledgement ack = receiver.acknowledge();
  EXPECT_EQ(ack.received, 2u);
  EXPECT_EQ(ack.arrived, 0b101u | (1ull << 63)) << "chunks 3, 5 and 66; 67 is out of its reach";
}

TEST(LinkReceiver, DropsDuplicates) {
  LinkReceiver receiver(limits_of(100, 1000));
  std::byte landing[10];
  receiver.expect(landing, 10, kTag);
  receiver.expect(nullptr, 10, kTag);
  ASSERT_TRUE(deliver(receiver, 0, 10));
  EXPECT_EQ(receiver.begin(1, data(0, 10)).value(), nullptr) << "received";
  receiver.release();
  EXPECT_EQ(receiver.begin(1, data(0, 10)).value(), nullptr) << "released";
  ASSERT_NE(receiver.begin(0, data(1, 10)).value(), nullptr);
  EXPECT_EQ(receiver.begin(1, data(1, 10)).value(), nullptr) << "arriving";
  receiver.complete(1, 1);
  EXPECT_FALSE(receiver.poll().has_value()) << "the copy that was dropped completes nothing";
  receiver.complete(0, 1);
  EXPECT_TRUE(receiver.poll().has_value());
}

TEST(LinkReceiver, TakesAChunkAgainAfterItsLaneWasLost) {
  LinkReceiver receiver(limits_of(100, 1000));
  std::byte landing[10];
  receiver.expect(landing, 10, kTag);
  ASSERT_NE(receiver.begin(0, data(0, 10)).value(), nullptr);
  ASSERT_NE(receiver.begin(0, data(1, 10)).value(), nullptr);
  receiver.abandon(1);
  EXPECT_EQ(receiver.begin(1, data(0, 10)).value(), nullptr) << "another lane was lost";
  receiver.abandon(0);
  EXPECT_EQ(receiver.staged(), 0u);
  EXPECT_TRUE(deliver(receiver, 0, 10, 1));
  EXPECT_TRUE(receiver.poll().has_value());
}

TEST(LinkReceiver, KnowsThatAChunkIsOnItsWayWhileItIsHereInPart) {
  LinkReceiver receiver(limits_of(100, 1000));
  receiver.expect(nullptr, 10, kTag);
  EXPECT_FALSE(receiver.is_arriving());
  ASSERT_NE(receiver.begin(0, data(0, 10)).value(), nullptr);
  ASSERT_NE(receiver.begin(1, data(1, 10)).value(), nullptr);
  EXPECT_TRUE(receiver.is_arriving());
  receiver.complete(0, 0);
  EXPECT_TRUE(receiver.is_arriving()) << "chunk 1, on another lane";
  receiver.abandon(1);
  EXPECT_FALSE(receiver.is_arriving());
}

// A chunk with the checksum of bytes that are all its number.
FrameHeader checked(std::uint64_t sequence, std::size_t bytes) {
  const std::vector<std::byte> right(bytes, static_cast<std::byte>(sequence));
  FrameHeader header = data(sequence, bytes);
  header.is_checked = true;
  header.checksum = crc32c(right);
  return header;
}

// Delivers it with so many wrong bits.
Receipt deliver_checked(LinkReceiver& receiver, std::uint64_t sequence, std::size_t bytes, int wrong,
                        LaneKey lane = key_of(0, 1)) {
  const auto landing = receiver.begin(lane, checked(sequence, bytes));
  EXPECT_TRUE(landing.has_value());
  if (!landing || *landing == nullptr) return {};
  std::memset(*landing, static_cast<int>(sequence), bytes);
  for (int bit = 0; bit < wrong; ++bit) (*landing)[static_cast<std::size_t>(bit) * 3] ^= std::byte{64};
  return receiver.complete(lane, sequence);
}

TEST(LinkReceiver, AChunkThatIsCorruptedHasNotComeUntilItComesIntact) {
  for (const bool lands : {true, false}) {
    LinkReceiver receiver(limits_of(100, 1000));
    std::byte landing[100] = {};
    receiver.expect(lands ? landing : nullptr, 100, kTag);
    const Acknowledgement before = receiver.acknowledge();
    for (std::uint32_t times = 1; times <= 20; ++times) {
      const Receipt receipt = deliver_checked(receiver, 0, 100, 1 + static_cast<int>(times % 3));
      EXPECT_TRUE(receipt.is_checked);
      EXPECT_EQ(receipt.times_corrupted, times);
      EXPECT_FALSE(receiver.poll().has_value());
      EXPECT_EQ(receiver.acknowledge(), before) << "it is not acknowledged, and costs no credit";
      EXPECT_EQ(receiver.staged(), 0u);
      ASSERT_EQ(receiver.corrupted().size(), 1u);
      EXPECT_EQ(receiver.corrupted()[0].lane, key_of(0, 1));
    }
    ASSERT_NE(receiver.begin(key_of(1, 1), checked(0, 100)).value(), nullptr);
    EXPECT_TRUE(receiver.corrupted().empty()) << "it is on its way";
    receiver.abandon(key_of(1, 1));
    const Receipt receipt = deliver_checked(receiver, 0, 100, 0);
    EXPECT_TRUE(receipt.is_checked);
    EXPECT_EQ(receipt.times_corrupted, 0u);
    EXPECT_TRUE(receiver.corrupted().empty());
    ASSERT_TRUE(receiver.poll().has_value());
    receiver.release();
    EXPECT_EQ(receiver.acknowledge().received, 1u);
  }
}

TEST(LinkReceiver, ChunksWithoutChecksumAreTakenAsTheyCome) {
  LinkReceiver receiver(limits_of(100, 1000));
  std::byte landing[100] = {};
  receiver.expect(landing, 100, kTag);
  FrameHeader unchecked = checked(0, 100);
  unchecked.is_checked = false;
  ASSERT_NE(receiver.begin(0, unchecked).value(), nullptr);
  const Receipt receipt = receiver.complete(0, 0);
  EXPECT_FALSE(receipt.is_checked);
  EXPECT_TRUE(receiver.poll().has_value());
}

TEST(LinkReceiver, AChunkThatCameEarlyIsCheckedInStagingThoughItsLandingIsKnownMeanwhile) {
  LinkReceiver receiver(limits_of(100, 1000));
  std::byte* const staging = receiver.begin(0, checked(0, 100)).value();
  ASSERT_NE(staging, nullptr);
  std::byte landing[100] = {};
  receiver.expect(landing, 100, kTag);
  std::memset(staging, 0, 100);
  staging[99] = std::byte{1};
  EXPECT_EQ(receiver.complete(0, 0).times_corrupted, 1u);
  EXPECT_EQ(deliver_checked(receiver, 0, 100, 0).times_corrupted, 0u);
  EXPECT_EQ(receiver.poll()->data, landing);
}

TEST(LinkReceiver, EmptyChunksAreChecked) {
  LinkReceiver receiver(limits_of(100, 1000));
  receiver.expect(nullptr, 0, kTag);
  ASSERT_TRUE(receiver.begin(0, checked(0, 0)).has_value());
  const Receipt receipt = receiver.complete(0, 0);
  EXPECT_TRUE(receipt.is_checked);
  EXPECT_EQ(receipt.times_corrupted, 0u);
}

TEST(LinkSender, SendsAChunkAgainOnlyIfItsLastWayCorruptedIt) {
  Sender sender(limits_of(1000, 4000));
  sender.send(1000, 0);
  sender.send(1000, 1);
  EXPECT_FALSE(sender.state.returned(1, 0, 1).value()) << "it went another way";
  EXPECT_FALSE(sender.state.returned(2, 1, 1).has_value()) << "it was never sent";
  EXPECT_TRUE(sender.state.returned(1, 1, 1).value());
  sender.state.resent(1, 1, 0);
  EXPECT_FALSE(sender.state.returned(1, 1, 2).value()) << "it waits to be sent";
  sender.state.transmitted(1);
  EXPECT_FALSE(sender.state.returned(1, 1, 1).value()) << "it was sent again for that";
  EXPECT_TRUE(sender.state.returned(1, 1, 2).value());
  ASSERT_TRUE(sender.state.acknowledge({1, 0, 0}, sender.completed).has_value());
  EXPECT_FALSE(sender.state.returned(0, 0, 1).value()) << "it has come";
}

TEST(Checksums, AreReadByName) {
  EXPECT_EQ(parse_checksums("off"), Checksums::off);
  EXPECT_EQ(parse_checksums("sampled"), Checksums::sampled);
  EXPECT_EQ(parse_checksums("all"), Checksums::all);
  EXPECT_FALSE(parse_checksums("some").has_value());
  EXPECT_FALSE(parse_checksums("").has_value());
}

// Whatever the period of a job, each of its chunks has its turn, and about one in 64 is sampled.
TEST(Checksums, SamplesAreNotInStepWithAnything) {
  for (std::uint64_t period = 1; period <= 130; ++period)
    for (const std::uint64_t chunk : {std::uint64_t{0}, period / 2, period - 1}) {
      int sampled = 0;
      for (std::uint64_t turn = 0; turn < 6400; ++turn)
        if (is_sampled(0x1234567, turn * period + chunk)) ++sampled;
      EXPECT_NEAR(sampled, 100, 30) << "chunk " << chunk << " of " << period;
    }
}

TEST(LinkReceiver, GrantsItsWindowAndWhatHasALanding) {
  LinkReceiver receiver(limits_of(100, 1000));
  EXPECT_EQ(receiver.acknowledge().credit, 1000u);
  std::byte landing[100];
  receiver.expect(landing, 100, kTag);
  EXPECT_EQ(receiver.acknowledge().credit, 1000 + chunk_cost(100));
  receiver.expect(nullptr, 100, kTag);
  EXPECT_EQ(receiver.acknowledge().credit, 1000 + chunk_cost(100)) << "it will lie in staging";
  ASSERT_TRUE(deliver(receiver, 0, 100));
  ASSERT_TRUE(deliver(receiver, 1, 100));
  receiver.release();
  EXPECT_EQ(receiver.acknowledge().credit, 1000 + chunk_cost(100));
  receiver.release();
  EXPECT_EQ(receiver.acknowledge().credit, 1000 + 2 * chunk_cost(100));
}

TEST(LinkReceiver, GrantsNoMoreThanStagingHoldsHoweverMuchIsExpectedAnywhere) {
  LinkReceiver receiver(limits_of(100, 1000));
  for (int i = 0; i < 100; ++i) receiver.expect(nullptr, 100, kTag);
  EXPECT_LE(receiver.acknowledge().credit, 1000u);
  for (std::uint64_t sequence = 0; sequence < 6; ++sequence) ASSERT_TRUE(deliver(receiver, sequence, 100));
  EXPECT_LE(receiver.staged(), 1000u);
  EXPECT_FALSE(deliver(receiver, 6, 100)) << "the sender had no credit for it";
}

TEST(LinkReceiver, ChunksThatCameEarlyMoveToTheirLandingAndFreeStaging) {
  LinkReceiver receiver(limits_of(100, 1000));
  ASSERT_TRUE(deliver(receiver, 0, 100));
  const auto* arriving = receiver.begin(0, data(1, 100)).value();
  ASSERT_NE(arriving, nullptr);
  EXPECT_EQ(receiver.staged(), 2 * chunk_cost(100));
  std::byte landing[2][100];
  receiver.expect(landing[0], 100, kTag);
  EXPECT_EQ(receiver.staged(), chunk_cost(100));
  receiver.expect(landing[1], 100, kTag);
  EXPECT_EQ(receiver.staged(), chunk_cost(100)) << "it is arriving there";
  receiver.complete(0, 1);
  EXPECT_EQ(receiver.staged(), 0u);
  EXPECT_EQ(receiver.poll()->data, landing[0]);
  EXPECT_EQ(receiver.acknowledge().credit, 1000 + 2 * chunk_cost(100));
}

TEST(LinkReceiver, RefusesWhatBreaksTheRules) {
  LinkReceiver receiver(limits_of(100, 1000));
  EXPECT_FALSE(receiver.begin(0, data(0, 101)).has_value()) << "above the chunk limit";
  EXPECT_FALSE(receiver.begin(0, data(1000, 10)).has_value()) << "far ahead";
  EXPECT_FALSE(receiver.begin(0, data(~std::uint64_t{0}, 10)).has_value());
}

TEST(LinkReceiver, ReportsWhatWasNotExpectedAndStays) {
  LinkReceiver receiver(limits_of(100, 1000));
  std::byte landing[100] = {};
  receiver.expect(landing, 100, kTag);
  EXPECT_EQ(receiver.begin(0, data(0, 100, {5, 6})).value(), nullptr);
  receiver.complete(0, 0);
  const auto arrival = receiver.poll();
  ASSERT_TRUE(arrival.has_value());
  EXPECT_EQ(arrival->data, nullptr);
  EXPECT_EQ(arrival->tag, (OperationTag{5, 6}));
  receiver.release();
  EXPECT_EQ(receiver.released(), 0u);
}

TEST(LinkReceiver, SpeaksOnlyWhenTheSenderNeedsToHear) {
  LinkReceiver receiver(limits_of(1000, 100000));
  EXPECT_TRUE(receiver.owes_acknowledgement(true)) << "the first grant";
  receiver.acknowledge();
  FrameHeader small = data(0, 10);
  small.wants_ack = false;
  ASSERT_TRUE(receiver.begin(0, small).has_value());
  receiver.complete(0, 0);
  EXPECT_FALSE(receiver.owes_acknowledgement(true)) << "nobody waits for it";
  ASSERT_TRUE(receiver.begin(0, data(1, 1000)).has_value());
  EXPECT_FALSE(receiver.owes_acknowledgement(true)) << "not here yet";
  receiver.complete(0, 1);
  EXPECT_TRUE(receiver.owes_acknowledgement(true));
  EXPECT_FALSE(receiver.owes_acknowledgement(false)) << "more is coming: one answer for both";
  receiver.acknowledge();
  EXPECT_FALSE(receiver.owes_acknowledgement(true));
}

TEST(SequenceWindow, KeepsItemsWhileItGrowsAndWraps) {
  SequenceWindow<std::uint64_t> window;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    window.extend() = i;
    if (i % 3 != 0) continue;
    EXPECT_EQ(window[window.first()], window.first());
    window.advance();
  }
  for (std::uint64_t i = window.first(); i < window.end(); ++i) EXPECT_EQ(window[i], i);
  EXPECT_FALSE(window.holds(window.end()));
}

}  // namespace
}  // namespace tutti
