// The parts of a trace: times, files, rows of tracks, arrows, the pace.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <random>

#include "monitor/trace/trace_arrows.hpp"
#include "monitor/trace/trace_checker_test_kit.hpp"
#include "monitor/trace/trace_file.hpp"
#include "monitor/trace/trace_pace.hpp"
#include "monitor/trace/trace_tracks.hpp"

namespace tutti::monitor {
namespace {

class TracePartsTest : public testing::Test {
 protected:
  TracePartsTest() {
    char name[] = "/tmp/tutti-trace-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/trace.json";
    file_ = *TraceFile::create(path_);
    file_->name(1, 0, "a process", 0);
  }
  ~TracePartsTest() override { std::filesystem::remove_all(folder_); }

  void draw(const SlicePosition& place, const std::string& name) {
    file_->write({{"ph", "X"},
                  {"name", name},
                  {"pid", place.pid},
                  {"tid", place.tid},
                  {"ts", trace_microseconds(place.span.from)},
                  {"dur", trace_microseconds(place.span.to - place.span.from)}});
  }
  TraceChecker close() {
    EXPECT_TRUE(file_->close(TraceEvent::object()));
    return TraceChecker(path_);
  }

  std::string folder_, path_;
  std::unique_ptr<TraceFile> file_;
  TraceNumbers numbers_;
};

TEST(TraceTime, ComesBackToTheNanosecond) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 200000; ++i) {
    const auto nanoseconds = static_cast<std::int64_t>(random() % 2'000'000'000'000'000 >> random() % 50);
    ASSERT_EQ(trace_nanoseconds(trace_microseconds(nanoseconds)), nanoseconds);
  }
}

TEST_F(TracePartsTest, AFileWithoutEventsIsATrace) { EXPECT_EQ(close().wrong(), std::vector<std::string>{}); }

TEST_F(TracePartsTest, TextsAreEscapedWhateverTheyHold) {
  file_->write({{"ph", "M"}, {"name", "process_name"}, {"pid", 1}, {"args", {{"name", "\"\\\n\xff\x01"}}}});
  EXPECT_EQ(close().wrong(), std::vector<std::string>{});
}

TEST(TraceFile, TellsThatTheDiskIsFull) {
  auto file = TraceFile::create("/dev/full");
  ASSERT_TRUE(file);
  (*file)->write({{"ph", "M"}});
  const Status closed = (*file)->close(TraceEvent::object());
  ASSERT_FALSE(closed);
  EXPECT_NE(closed.error().message.find("cannot write '/dev/full'"), std::string::npos) << closed.error().message;
}

TEST(TraceFile, NamesThePathThatCannotBeWritten) {
  const auto file = TraceFile::create("/no/such/folder/trace.json");
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("'/no/such/folder/trace.json'"), std::string::npos);
}

TEST_F(TracePartsTest, TheCheckerSeesWhatIsWrong) {
  file_->name(1, 2, "operations", 0);
  draw({1, 2, {0, 100}}, "first");
  draw({1, 2, {50, 150}}, "crosses");
  draw({1, 3, {0, 1}}, "on a thread without a name");
  file_->write({{"ph", "s"}, {"name", "arrow"}, {"id", 1}, {"pid", 1}, {"tid", 2}, {"ts", 0}});
  file_->write({{"ph", "C"}, {"name", "counter"}, {"pid", 1}, {"ts", 0}, {"args", {{"rate", "fast"}}}});
  file_->write({{"ph", "X"}, {"name", "of another process"}, {"pid", 9}, {"tid", 2}, {"ts", 900}, {"dur", 1}});
  EXPECT_EQ(close().wrong().size(), 5U);
}

TEST_F(TracePartsTest, SlicesThatOverlapGetRowsOfTheirOwn) {
  numbers_.next();
  TraceTrack track(1, "lane", 0);
  const SlicePosition first = track.place({0, 100'000}, numbers_, *file_);
  const SlicePosition second = track.place({50'000, 150'000}, numbers_, *file_);
  const SlicePosition third = track.place({100'000, 160'000}, numbers_, *file_);
  EXPECT_NE(first.tid, second.tid);
  EXPECT_EQ(first.tid, third.tid);
  for (const SlicePosition& place : {first, second, third}) draw(place, "slice");
  const TraceChecker checked = close();
  EXPECT_EQ(checked.wrong(), std::vector<std::string>{});
  EXPECT_EQ(checked.find("M", "thread_name")[1]["args"]["name"], "lane (2)");
}

TEST_F(TracePartsTest, AnOverlapThatIsOnlyTheClocksIsTakenBack) {
  numbers_.next();
  TraceTrack track(1, "operations", 0);
  const SlicePosition first = track.place({0, 100'000}, numbers_, *file_);
  const SlicePosition second = track.place({99'900, 150'000}, numbers_, *file_);
  EXPECT_EQ(first.tid, second.tid);
  EXPECT_EQ(second.span.from, 100'000);
}

TEST_F(TracePartsTest, RowsNeverHoldSlicesThatCross) {
  numbers_.next();
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937 random(seed);
    std::vector<TimeSpan> spans;
    for (int i = 0; i < 500; ++i) {
      const auto from = static_cast<std::int64_t>(random() % 10'000'000);
      spans.push_back({from, from + static_cast<std::int64_t>(random() % 1'000'000)});
    }
    std::sort(spans.begin(), spans.end(), [](const TimeSpan& a, const TimeSpan& b) { return a.to < b.to; });
    TraceTrack track(1, fmt::format("lane {}", seed), 0);
    for (const TimeSpan& span : spans) draw(track.place(span, numbers_, *file_), fmt::format("seed {}", seed));
  }
  EXPECT_EQ(close().wrong(), std::vector<std::string>{});
}

class ArrowsTest : public TracePartsTest {
 protected:
  /// A rank of the communicator 7 that entered and met others, in microseconds, and its slice.
  void arrive(Arrows& arrows, int rank, int entered, int met, int ranks = 3, std::uint32_t number = 1) {
    const auto pid = static_cast<std::uint32_t>(10 + rank);
    const std::uint32_t tid = 100 + pid;
    file_->name(pid, 0, "rank", rank);
    file_->name(pid, tid, "operations", 0);
    draw({pid, tid, {entered * 1000, 1'000'000}}, "all_reduce");
    arrows.add({7, number, ranks, rank, pid, tid, entered * 1000, met * 1000, met * 1000});
  }
};

TEST_F(ArrowsTest, LeadFromTheLastRankToThoseThatWaited) {
  Arrows arrows(*file_);
  arrive(arrows, 0, 10, 305);
  arrive(arrows, 1, 300, 302);
  arrive(arrows, 2, 20, 310);
  const TraceChecker checked = close();
  EXPECT_EQ(checked.wrong(), std::vector<std::string>{});
  ASSERT_EQ(checked.find("s").size(), 2U);
  for (const auto& start : checked.find("s")) EXPECT_EQ(start["pid"], 11);
}

TEST_F(ArrowsTest, AreNotDrawnWhereARankIsNotKnown) {
  Arrows arrows(*file_);
  arrive(arrows, 0, 10, 305);
  arrive(arrows, 1, 300, 302);
  arrive(arrows, 1, 300, 302);
  EXPECT_TRUE(close().find("s").empty());
}

TEST_F(ArrowsTest, AreNotDrawnBackInTime) {
  Arrows arrows(*file_);
  arrive(arrows, 0, 10, 200, 2);  // it was done before another had come: the clocks are not known that well
  arrive(arrows, 1, 300, 302, 2);
  EXPECT_TRUE(close().find("s").empty());
}

TEST(TracePace, QuickensUntilRingsDoNotWrap) {
  TracePace pace;
  double fill = 0;
  constexpr double kWrapsIn = 0.004;  // seconds
  for (int i = 0; i < 50; ++i) {
    fill = std::min(1.0, pace.seconds() / kWrapsIn);
    pace.take(fill);
  }
  EXPECT_LT(fill, 0.5);
  EXPECT_GT(fill, 0.1);
}

TEST(TracePace, SlowsDownWhereNothingHappensAndNeverStops) {
  TracePace pace;
  for (int i = 0; i < 50; ++i) pace.take(0);
  EXPECT_EQ(pace.seconds(), TracePace::kLongest);
  for (int i = 0; i < 50; ++i) pace.take(1);
  EXPECT_EQ(pace.seconds(), TracePace::kShortest);
}

}  // namespace
}  // namespace tutti::monitor
