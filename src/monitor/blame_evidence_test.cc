#include "monitor/blame_evidence.hpp"

#include <gtest/gtest.h>

namespace tutti::monitor {
namespace {

constexpr double kCost = 1e-8;  // seconds per byte
constexpr std::uint64_t kBytes = 100'000;
constexpr double kEach = kBytes * kCost;

/// Two chunks were handed over at time 0, of which the first has arrived and was completed after twice the usual time.
class BlameEvidenceOfALateChunk : public testing::Test {
 protected:
  void SetUp() override {
    evidence_.begin(0, 0, 0);
    evidence_.post(0, 0);
    evidence_.post(0, kBytes);
    evidence_.complete(kBytes);
  }
  PathView on_path() const {
    PathView view;
    view.delivered = kBytes;
    view.in_path = kBytes;
    return view;
  }

  BlameEvidence evidence_;
};

TEST_F(BlameEvidenceOfALateChunk, BlamesThePathForBytesThatAreStillOnIt) {
  evidence_.look(on_path(), {2 * kEach, false, kCost, 0});
  EXPECT_NEAR(evidence_.found().in_path, kEach, 1e-12);
  EXPECT_NEAR(evidence_.found().at_receiver, 0, 1e-12);
}

TEST_F(BlameEvidenceOfALateChunk, BlamesTheReceiverForBytesThatHadArrived) {
  PathView view;
  view.delivered = 2 * kBytes;
  evidence_.look(view, {2 * kEach, false, kCost, 0});
  EXPECT_NEAR(evidence_.found().at_receiver, kEach, 1e-12);
  EXPECT_NEAR(evidence_.found().in_path, 0, 1e-12);
}

TEST_F(BlameEvidenceOfALateChunk, BlamesThisProcessForWhatItDidNotSendOrRead) {
  PathView view;
  view.delivered = 2 * kBytes;
  view.is_held = true;
  evidence_.look(view, {2 * kEach, false, kCost, 0});
  EXPECT_NEAR(evidence_.take().at_sender, kEach, 1e-12);

  view.is_held = false;
  view.unread = kEach / 4;
  evidence_.look(view, {3 * kEach, true, kCost, 0});
  EXPECT_NEAR(evidence_.take().at_sender, kEach / 4, 1e-12);
}

TEST_F(BlameEvidenceOfALateChunk, BlamesNobodyForTheTimeThereAndBack) {
  evidence_.begin(0, 0, kEach);
  evidence_.complete(kBytes);
  evidence_.look(on_path(), {2 * kEach, false, kCost, kEach});
  EXPECT_NEAR(evidence_.found().in_path, 0, 1e-12);
  EXPECT_NEAR(evidence_.found().at_receiver, 0, 1e-12);
}

TEST_F(BlameEvidenceOfALateChunk, BlamesThePathForASilenceOnlyIfPacketsWereLost) {
  for (const std::uint64_t lost : {0, 5}) {
    BlameEvidence evidence = evidence_;
    evidence.look(on_path(), {2 * kEach, false, kCost, 0});
    evidence.take();
    evidence.look(on_path(), {12 * kEach, false, kCost, 0});
    EXPECT_NEAR(evidence.silent(), 10 * kEach, 1e-12);
    PathView view;
    view.delivered = 2 * kBytes;
    view.lost = lost;
    evidence.look(view, {12 * kEach, false, kCost, 0});
    EXPECT_EQ(evidence.silent(), 0);
    const LostTime found = evidence.take();
    EXPECT_EQ(found.in_path > found.at_receiver, lost != 0) << found.in_path << " " << found.at_receiver;
  }
}

TEST_F(BlameEvidenceOfALateChunk, CountsCompletionsSinceTheLastLook) {
  EXPECT_EQ(evidence_.completions(), 1u);
  evidence_.look(on_path(), {kEach, false, kCost, 0});
  EXPECT_EQ(evidence_.completions(), 0u);
  EXPECT_EQ(evidence_.looked_at(), kEach);
}

TEST(SharesOf, DividesTimeBeyondTheUsualByWhoCausedIt) {
  LaneSample sum;
  sum.bytes = kBytes;
  sum.busy = 5 * kEach;
  sum.late = 2 * kEach;
  sum.starved = 3 * kEach;
  const Cost usual{kCost, kCost, kCost};
  const Shares unknown = shares_of(sum, usual);
  EXPECT_NEAR(unknown.path, 4 * kEach, 1e-12);
  EXPECT_NEAR(unknown.receiver, kEach, 1e-12);
  EXPECT_NEAR(unknown.sender, 2 * kEach, 1e-12);
  EXPECT_EQ(unknown.cause(), Cause::path_congested);
  sum.lost = {1, 3, 0};
  EXPECT_NEAR(shares_of(sum, usual).receiver, 4 * kEach, 1e-12);
  EXPECT_EQ(shares_of(sum, usual).cause(), Cause::receiver_late);
}

}  // namespace
}  // namespace tutti::monitor
