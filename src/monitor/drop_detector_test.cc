#include "monitor/drop_detector.hpp"

#include <gtest/gtest.h>

#include "monitor/rate_window.hpp"

namespace tutti::monitor {
namespace {

constexpr double kBytes = 100'000;
constexpr double kEach = 1e-3;  // seconds that a sample usually takes
constexpr double kGap = 0.05;

/// Samples of one chunk each, one right after the other, judged like a LaneMonitor does.
class Judged {
 public:
  explicit Judged(int window = 8) : detector_(window, 5.0) {}

  /// Returns the last drop that began, or that was over, on the way.
  std::optional<Drop> add(int samples, double each = kEach) {
    std::optional<Drop> found;
    for (int i = 0; i < samples; ++i) {
      LaneSample sample;
      sample.begin = now_;
      sample.end = now_ += each;
      sample.chunks = 1;
      sample.bytes = kBytes;
      sample.busy = each;
      detector_.add(sample);
      if (const auto drop = judge()) found = drop;
    }
    return found;
  }
  std::optional<Drop> judge() {
    if (!detector_.is_ready()) return std::nullopt;
    const auto change = in_drop_ ? detector_.find_end(now_) : detector_.find_drop(now_, kGap, false);
    if (change) in_drop_ = !in_drop_;
    if (!change && !in_drop_) detector_.learn();
    return change;
  }

  const DropDetector& detector() const { return detector_; }
  bool in_drop() const { return in_drop_; }
  double now() const { return now_; }

 private:
  DropDetector detector_;
  bool in_drop_ = false;
  double now_ = 1;
};

TEST(DropDetector, LearnsTheUsualRateFromWindows) {
  Judged lane;
  lane.add(30);
  EXPECT_FALSE(lane.detector().usual().is_known());
  EXPECT_EQ(lane.detector().usual_rate(), 0);
  lane.add(100);
  EXPECT_NEAR(lane.detector().usual_rate(), kBytes / kEach, 1);
}

TEST(DropDetector, PlacesADropWhereTheLevelChanged) {
  for (const int window : {1, 8, 32}) {
    Judged lane(window);
    lane.add(400);
    const double cut = lane.now();
    const auto begun = lane.add(50, 3 * kEach);
    ASSERT_TRUE(begun);
    EXPECT_NEAR(begun->began, cut, 1e-9);
    EXPECT_NEAR(begun->usual, kBytes / kEach, 1);
    EXPECT_NEAR(begun->rate, kBytes / kEach / 3, 1);
    EXPECT_NEAR(begun->shares.path, begun->until - begun->began - (begun->until - begun->began) / 3, 1e-9);
    const double back = lane.now();
    const auto over = lane.add(200);
    ASSERT_TRUE(over);
    EXPECT_NEAR(over->began, cut, 1e-9);
    EXPECT_NEAR(over->until, back, 1e-9);
  }
}

TEST(DropDetector, TakesOneSlowSampleForADropOnlyIfItIsAGap) {
  Judged lane;
  lane.add(400);
  EXPECT_FALSE(lane.add(1, kGap / 2));
  EXPECT_FALSE(lane.add(100));
  EXPECT_TRUE(lane.add(1, kGap));
}

TEST(DropDetector, OneFastWindowDoesNotEndADrop) {
  Judged lane;
  lane.add(400);
  ASSERT_TRUE(lane.add(20, 2 * kEach));
  EXPECT_FALSE(lane.add(10, kEach / 10));
  lane.add(20, 2 * kEach);
  EXPECT_TRUE(lane.in_drop());
}

TEST(DropDetector, ForgetsWhatWasUsualWhenADropLasts) {
  Judged lane;
  lane.add(400);
  lane.add(2600, 2 * kEach);
  EXPECT_FALSE(lane.in_drop());
  EXPECT_NEAR(lane.detector().usual_rate(), kBytes / kEach / 2, 1);
}

TEST(DropDetector, AStalledLaneHasDropped) {
  DropDetector detector(8, 5.0);
  LaneSample sample;
  sample.chunks = 1;
  sample.bytes = kBytes;
  sample.busy = kEach;
  for (int i = 0; i < 100; ++i) {
    sample.begin = i * kEach;
    sample.end = sample.begin + kEach;
    detector.add(sample);
    if (detector.is_ready()) detector.learn();
  }
  EXPECT_FALSE(detector.find_drop(1, kGap, false));
  EXPECT_TRUE(detector.find_drop(1, kGap, true));
}

TEST(RateWindow, ForgetsWhatIsOlderThanItsWindow) {
  RateWindow window(2);
  EXPECT_EQ(window.rate(), 0);
  window.add({100, 1});
  EXPECT_DOUBLE_EQ(window.rate(), 100);
  window.add({100, 3});
  EXPECT_DOUBLE_EQ(window.rate(), 50);
  window.add({300, 1});
  EXPECT_DOUBLE_EQ(window.rate(), 100);
  EXPECT_EQ(window.count(), 3u);
}

}  // namespace
}  // namespace tutti::monitor
