// What chance rarely brings about, step by step on a simulated clock: the last word on a lane is lost with it, a lane
// falls silent for good, an end is gone and nobody is told.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/fake/conversation_test_kit.hpp"
#include "transport/fake/network.hpp"

namespace tutti {
namespace {

[[maybe_unused]] const int kQuiet = ::setenv("TUTTI_LOG", "off", 1);

constexpr std::uint64_t kTick = 10'000;  // microseconds
constexpr double kSoon = 5.0;            // seconds
constexpr double kAtOnce = 0.05;         // seconds: before a lane is suspected, or probed
constexpr OperationTag kTag{1, 2};
const LinkId kLink{77, 0, 1, 2};

/// Two processes, of which the first dials.
class Two {
 public:
  explicit Two(std::uint32_t lanes) {
    one->dial_lanes(lanes, 1e9);
    tick(*one);
    tick(*other);
    EXPECT_TRUE(until([&] { return one->lanes().size() == lanes && other->lanes().size() == lanes; }));
  }

  /// Goes on until it is so; false: that takes too long.
  bool until(const std::function<bool()>& is_so, double within = kSoon) {
    const double end = network.seconds() + within;
    while (network.seconds() < end) {
      if (is_so()) return true;
      network.step();
    }
    return false;
  }

  void block(std::uint32_t lane) {
    network.block(*one, lane);
    network.block(*other, lane);
  }

  FakeNetwork network{1, {}};
  std::shared_ptr<Peer> one = make_peer();
  std::shared_ptr<Peer> other = make_peer();

 private:
  std::shared_ptr<Peer> make_peer() {
    PeerOptions options;
    options.limits = small_limits();
    options.checksums = Checksums::all;
    options.clock = [this] { return network.seconds(); };
    return std::make_shared<Peer>("peer", std::move(options));
  }

  void tick(Peer& peer) {
    std::vector<WantedLane> wanted;
    peer.tick(wanted);
    for (const WantedLane& lane : wanted) network.dial(*one, *other, lane);
    network.later(kTick, [this, &peer] { tick(peer); });
  }
};

/// A link on which all chunks are alike.
class Stream {
 public:
  Stream(Peer& from, Peer& to, std::size_t bytes)
      : memory_(bytes, std::byte{7}), send_(from.open_send(kLink)), recv_(to.open_recv(kLink)) {}

  bool offer() { return send_->send(memory_.data(), memory_.size(), kTag); }
  bool all_acked() { return send_->released() == send_->sent(); }
  std::uint64_t sent() const { return send_->sent(); }
  void close_sender() { send_.reset(); }
  void close_receiver() { recv_.reset(); }
  void expect() { recv_->expect(nullptr, memory_.size(), kTag); }
  bool take() {
    if (!recv_->poll()) return false;
    recv_->release();
    return true;
  }

 private:
  std::vector<std::byte> memory_;
  std::unique_ptr<SendLink> send_;
  std::unique_ptr<RecvLink> recv_;
};

/// Nothing of the sender's is under way, and it can send nothing more.
void use_up_credit(Two& two, Stream& stream) {
  ASSERT_TRUE(two.until([&] { return stream.offer(); }));
  ASSERT_TRUE(two.until([&] { return !stream.offer() && stream.all_acked(); }));
}

void take_all(Stream& stream) {
  for (std::uint64_t chunk = 0; chunk < stream.sent(); ++chunk) stream.expect();
  for (std::uint64_t chunk = 0; chunk < stream.sent(); ++chunk) ASSERT_TRUE(stream.take());
}

/// Offers two chunks, one on each of two lanes, and waits until that on lane 1 has come corrupted: the request for it
/// is on lane 0.
void corrupt_on_lane_1(Two& two, Stream& stream) {
  ASSERT_TRUE(two.until([&] { return stream.offer(); }));
  two.network.flip_next(1);
  ASSERT_TRUE(stream.offer());
  ASSERT_TRUE(two.until([&] { return two.network.flips() == 1; }, kAtOnce));
}

TEST(CorruptedChunks, AreSentAgainAtOnce) {
  Two two(2);
  Stream stream(*two.one, *two.other, 1000);
  corrupt_on_lane_1(two, stream);
  EXPECT_TRUE(two.until([&] { return stream.all_acked(); }, kAtOnce));
  EXPECT_EQ(two.one->lanes().size(), 2u) << "no lane is lost for it";
  take_all(stream);
}

TEST(CorruptedChunks, AreAskedForAgainWhenTheLaneOfTheRequestIsLost) {
  for (const bool cut : {true, false}) {
    Two two(2);
    Stream stream(*two.one, *two.other, 1000);
    corrupt_on_lane_1(two, stream);
    cut ? two.network.cut(0) : two.network.drop_end(*two.one, 0, "no carrier");
    EXPECT_TRUE(two.until([&] { return stream.all_acked(); }, kAtOnce)) << cut;
    take_all(stream);
  }
}

TEST(CorruptedChunks, AThousandOfThemOnTheOnlyLaneHarmNothing) {
  Two two(1);
  Stream stream(*two.one, *two.other, 1000);
  for (std::uint64_t chunk = 0; chunk < 1000; ++chunk) {
    two.network.flip_next(0);
    ASSERT_TRUE(two.until([&] { return stream.offer(); }, kAtOnce));
    stream.expect();
    ASSERT_TRUE(two.until([&] { return stream.take(); }, kAtOnce)) << chunk;
  }
  EXPECT_EQ(two.network.flips(), 1000u);
  EXPECT_EQ(two.one->lanes().entries()[0].live->epoch(), 1u) << "it is the first lane";
}

// The only lane corrupts whatever it carries: it is connected again now and then, and a path that heals is used.
TEST(CorruptedChunks, APathThatCorruptsEverythingIsLeftAndTriedAgain) {
  Two two(1);
  Stream stream(*two.one, *two.other, 1000);
  ASSERT_TRUE(two.until([&] { return stream.offer(); }));
  const auto flips_all = [&] {
    two.network.flip_next(0);
    return two.one->lanes().entries()[0].slot.in_use() && two.one->lanes().entries()[0].live->epoch() > 3;
  };
  ASSERT_TRUE(two.until(flips_all));
  EXPECT_TRUE(two.until([&] { return stream.all_acked(); }, kSoon));
  take_all(stream);
}

/// Of two lanes, the receiver loses one. Nothing that the sender says gets through: credit must come unasked.
class CreditAndALostLane : public testing::TestWithParam<std::uint32_t> {
 protected:
  CreditAndALostLane() {
    use_up_credit(two, stream);
    two.block(GetParam());
    two.network.block(*two.one, 1 - GetParam());
  }
  void lose() { two.network.drop_end(*two.other, GetParam(), "no carrier"); }
  bool gets_credit() {
    return two.until([&] { return stream.offer(); }, kAtOnce);
  }

  Two two{2};
  Stream stream{*two.one, *two.other, 1900};
};

TEST_P(CreditAndALostLane, CreditThatWasUnderWayComesByAnother) {
  take_all(stream);
  lose();
  EXPECT_TRUE(gets_credit());
}

TEST_P(CreditAndALostLane, CreditThatIsGivenLaterComesByAnother) {
  lose();
  take_all(stream);
  EXPECT_TRUE(gets_credit());
}

INSTANTIATE_TEST_SUITE_P(EachLane, CreditAndALostLane, testing::Values(0u, 1u));

// The sender has no chunk under way, and yet waits; only its end can dial, and it was not told.
TEST(LaneCases, ASenderWithoutCreditNoticesThatItsOnlyLaneIsGone) {
  Two two(1);
  Stream stream(*two.one, *two.other, 1900);
  use_up_credit(two, stream);
  two.block(0);
  take_all(stream);
  two.network.drop_end(*two.other, 0, "no carrier");
  two.network.unblock_all();
  EXPECT_TRUE(two.until([&] { return stream.offer(); }));
}

TEST(LaneCases, AReceiverNoticesThatItsOnlyLaneIsGone) {
  Two two(1);
  Stream stream(*two.other, *two.one, 1900);
  use_up_credit(two, stream);
  take_all(stream);
  two.block(0);
  two.network.drop_end(*two.other, 0, "no carrier");
  two.network.unblock_all();
  stream.expect();
  EXPECT_TRUE(two.until([&] { return stream.offer(); }));
  EXPECT_TRUE(two.until([&] { return stream.take(); }));
}

TEST(LaneCases, ALaneThatWasLostComesBackWhileAnotherCarries) {
  Two two(2);
  two.network.drop_end(*two.one, 1, "no carrier");
  ASSERT_EQ(two.one->lanes().size(), 1u);
  EXPECT_TRUE(two.until([&] { return two.one->lanes().size() == 2 && two.other->lanes().size() == 2; }));
}

TEST(LaneCases, WhatIsOnALaneThatFallsSilentComesByAnother) {
  for (const std::uint32_t silent : {0u, 1u}) {
    Two two(2);
    Stream stream(*two.one, *two.other, 1900);
    ASSERT_TRUE(two.until([&] { return stream.offer(); }));
    ASSERT_TRUE(two.until([&] { return stream.all_acked(); }));
    two.network.block(*two.one, silent);
    while (stream.offer()) {
    }
    EXPECT_TRUE(two.until([&] { return stream.all_acked(); })) << "lane " << silent;
  }
}

TEST(LaneCases, AnOpeningThatIsLostWithItsLaneIsAnnouncedByAnother) {
  Two two(2);
  two.block(0);
  Stream stream(*two.one, *two.other, 1900);
  two.network.drop_end(*two.one, 0, "no carrier");
  EXPECT_TRUE(two.until([&] { return stream.offer(); }, kAtOnce));
}

TEST(LaneCases, AnIncarnationThatComesLateDoesNotReplaceALaterOne) {
  FakeNetwork network(1, {});
  const auto one = std::make_shared<Peer>("one", PeerOptions{});
  const auto other = std::make_shared<Peer>("other", PeerOptions{});
  ASSERT_TRUE(network.connect(*one, *other, 0, 2));
  EXPECT_FALSE(network.connect(*one, *other, 0, 1));
  ASSERT_EQ(one->lanes().size(), 1u);
  EXPECT_EQ(one->lanes().live().front()->live->epoch(), 2u);
}

TEST(LaneCases, AnIncarnationThatIsOverStaysOver) {
  FakeNetwork network(1, {});
  const auto one = std::make_shared<Peer>("one", PeerOptions{});
  const auto other = std::make_shared<Peer>("other", PeerOptions{});
  ASSERT_TRUE(network.connect(*one, *other, 0, 2));
  network.drop_end(*one, 0, "no carrier");
  network.drop_end(*other, 0, "no carrier");
  EXPECT_FALSE(network.connect(*one, *other, 0, 1));
  EXPECT_FALSE(network.connect(*one, *other, 0, 2));
  EXPECT_TRUE(network.connect(*one, *other, 0, 3));
}

// The sender has lost an incarnation that the receiver has not seen yet, and that may still come.
TEST(LaneCases, AnIncarnationThatWasFencedBeforeItCameStaysOver) {
  FakeNetwork network(1, {});
  const auto one = std::make_shared<Peer>("one", PeerOptions{});
  const auto other = std::make_shared<Peer>("other", PeerOptions{});
  ASSERT_TRUE(network.connect(*one, *other, 0, 1));
  FrameHeader fence;
  fence.type = FrameType::fence;
  fence.epoch = 1;
  fence.lane = 1;
  fence.lane_epoch = 1;
  {
    const std::lock_guard lock(other->mutex());
    ASSERT_TRUE(other->complete(*other->lanes().live().front()->live, fence));
  }
  EXPECT_FALSE(network.connect(*one, *other, 1, 1));
  EXPECT_TRUE(network.connect(*one, *other, 1, 2));
}

// Two lanes bring chunks and no answers. When the sender asks by the third what has come, it must hear of it before it
// hears that it may send again.
TEST(LaneCases, WhatHadComeOnALostLaneIsNotSentAgain) {
  Two two(3);
  Stream stream(*two.one, *two.other, 1900);
  ASSERT_TRUE(two.until([&] { return stream.offer(); }));
  ASSERT_TRUE(two.until([&] { return stream.all_acked(); }));
  const std::uint64_t before = two.network.carried(0);
  two.network.block(*two.other, 0);
  two.network.block(*two.other, 1);
  ASSERT_TRUE(stream.offer());
  EXPECT_TRUE(two.until([&] { return stream.all_acked(); }));
  EXPECT_GT(two.network.carried(0), before);
  EXPECT_EQ(two.network.carried(1) + two.network.carried(2), 0u);
}

/// The receiver has taken a chunk, and the sender has not heard of it.
void take_unheard(Two& two, Stream& stream) {
  stream.expect();
  stream.expect();
  ASSERT_TRUE(two.until([&] { return stream.offer(); }));
  ASSERT_TRUE(two.until([&] { return stream.take(); }));
  ASSERT_TRUE(two.until([&] { return stream.all_acked(); }));
  two.network.block(*two.other, 0);
  two.network.block(*two.other, 1);
  ASSERT_TRUE(stream.offer());
  ASSERT_TRUE(two.until([&] { return stream.take(); }, kAtOnce));
  ASSERT_FALSE(stream.all_acked());
}

TEST(LaneCases, ASenderHearsOfALinkThatWasClosedWhileThereWasNoLane) {
  Two two(1);
  Stream stream(*two.one, *two.other, 1900);
  take_unheard(two, stream);
  two.network.cut(0);
  ASSERT_TRUE(two.until([&] { return two.other->lanes().empty(); }));
  stream.close_receiver();
  two.network.unblock_all();
  EXPECT_TRUE(two.until([&] { return stream.all_acked(); }));
}

TEST(LaneCases, ASenderHearsOfALinkThatWasClosedOnALaneThatIsLost) {
  for (const std::uint32_t lost : {0, 1}) {
    Two two(2);
    Stream stream(*two.one, *two.other, 1900);
    take_unheard(two, stream);
    stream.close_receiver();
    two.network.cut(lost);
    two.network.unblock_all();
    EXPECT_TRUE(two.until([&] { return stream.all_acked(); })) << "lane " << lost;
  }
}

TEST(LaneCases, CopiedChunksComeThoughTheirSenderIsGone) {
  Two two(1);
  Stream stream(*two.one, *two.other, 100);
  ASSERT_TRUE(two.until([&] { return stream.offer(); }));
  ASSERT_TRUE(stream.all_acked()) << "a copy is released at once";
  stream.close_sender();
  stream.expect();
  EXPECT_TRUE(two.until([&] { return stream.take(); }));
}

TEST(LaneCases, WhatALinkHadCopiedArrivesThoughItIsClosedAndItsLaneLost) {
  Two two(2);
  Stream stream(*two.one, *two.other, 50);
  stream.expect();
  stream.expect();
  ASSERT_TRUE(two.until([&] { return stream.offer(); }));
  ASSERT_TRUE(two.until([&] { return stream.take(); }));
  two.block(0);
  ASSERT_TRUE(stream.offer());
  stream.close_sender();
  EXPECT_TRUE(two.until([&] { return stream.take(); }));
}

}  // namespace
}  // namespace tutti
