#include "agent/metrics.hpp"

#include <gtest/gtest.h>
#include <signal.h>

#include <optional>
#include <sstream>

#include "agent/agent_test_kit.hpp"
#include "agent/names.hpp"
#include "tutti/monitor.hpp"

namespace tutti::agent {
namespace {

/// The value of the sample whose line begins with `name` and holds `label`; nothing: there is none.
std::optional<double> value_of(const std::string& text, const std::string& name, const std::string& label = "") {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name) && (line[name.size()] == '{' || line[name.size()] == ' ') &&
        line.find(label) != std::string::npos)
      return std::stod(line.substr(line.rfind(' ')));
  return std::nullopt;
}

class MetricsTest : public ::testing::Test {
 protected:
  std::string scrape() {
    monitor::Detail detail;
    detail.operations = true;
    snapshot_ = monitor::take_snapshot({folder_.path()}, detail);
    return metrics_.text(snapshot_, counts_);
  }

  monitor::TemporaryFolder folder_;
  std::unique_ptr<monitor::Recorder> recorder_ = monitor::open_recorder(folder_.path());
  monitor::CommunicatorRecord& world_ = monitor::add_communicator(*recorder_, 1, 4);
  Metrics metrics_;
  AgentCounts counts_;
  monitor::Snapshot snapshot_;
};

TEST_F(MetricsTest, TotalsAreCountersByCollectiveAndSize) {
  for (int i = 0; i < 3; ++i) end_operation(*recorder_, world_, {Collective::all_reduce, 1 << 20, 1000, 250});
  const std::string text = scrape();
  const std::string labels = "rank=\"1\",collective=\"all_reduce\",message_size=\"256KB-1MB\"";
  EXPECT_EQ(value_of(text, "tutti_operations_total", labels), 3);
  EXPECT_EQ(value_of(text, "tutti_operations_bytes_total", labels), 3 << 20);
  EXPECT_NEAR(value_of(text, "tutti_operations_seconds_total", labels).value(), 3e-3, 3e-5);
  EXPECT_NEAR(value_of(text, "tutti_operations_waited_seconds_total", labels).value(), 0.75e-3, 1e-5);
  EXPECT_NE(text.find("# TYPE tutti_operations_total counter\n"), std::string::npos);
}

TEST_F(MetricsTest, BusBandwidthIsThatOfTheOperationsSinceTheLastScrape) {
  end_operation(*recorder_, world_, {Collective::all_reduce, 1 << 20, 1000});
  scrape();
  end_operation(*recorder_, world_, {Collective::all_reduce, 1 << 20, 500});
  const std::string text = scrape();
  EXPECT_NEAR(value_of(text, "nccl_bus_bandwidth_gbs", "collective=\"AllReduce\"").value(),
              1.5 * (1 << 20) / 500e-6 * 1e-9, 0.05);
  EXPECT_NEAR(value_of(text, "nccl_collective_exec_time_microseconds", "algo_proto=\"ring\"").value(), 500, 10);
}

TEST_F(MetricsTest, BusBandwidthIsKeptWhileNothingHappensForAMinuteAtMost) {
  end_operation(*recorder_, world_, {Collective::broadcast, 1 << 20, 1000});
  scrape();
  EXPECT_TRUE(value_of(scrape(), "nccl_bus_bandwidth_gbs"));
  snapshot_.now += 61;
  EXPECT_FALSE(value_of(metrics_.text(snapshot_, counts_), "nccl_bus_bandwidth_gbs"));
}

TEST_F(MetricsTest, SendsAndReceivesAreToldApart) {
  end_operation(*recorder_, world_, {Collective::point_to_point, 4096, 10, 0, "", monitor::What::sends});
  end_operation(*recorder_, world_, {Collective::point_to_point, 4096, 20, 0, ""});
  const std::string text = scrape();
  EXPECT_NEAR(value_of(text, "nccl_p2p_exec_time_microseconds", "p2p_operation=\"Send\"").value(), 10, 0.5);
  EXPECT_NEAR(value_of(text, "nccl_p2p_exec_time_microseconds", "p2p_operation=\"Recv\"").value(), 20, 0.5);
}

TEST_F(MetricsTest, SecondsNeverGoBackThoughTheirClockIsMeasuredAnew) {
  end_operation(*recorder_, world_, {Collective::all_reduce, 64, 1e6});
  scrape();
  const double before = value_of(metrics_.text(snapshot_, counts_), "tutti_operations_seconds_total").value();
  snapshot_.processes[0].communicators[0].totals[0].seconds *= 1 - 1e-6;
  EXPECT_EQ(value_of(metrics_.text(snapshot_, counts_), "tutti_operations_seconds_total"), before);
  snapshot_.processes[0].communicators[0].totals[0].seconds = 0.25;  // another communicator in its place
  EXPECT_EQ(value_of(metrics_.text(snapshot_, counts_), "tutti_operations_seconds_total"), 0.25);
}

TEST_F(MetricsTest, ABrokenCommunicatorIsToldAndAClosedOneIsNot) {
  world_.state.set(monitor::CommunicatorRecord::broken);
  EXPECT_EQ(value_of(scrape(), "tutti_communicator_broken", "comm_name=\"world\""), 1);
  recorder_->close_communicator(&world_);
  EXPECT_EQ(value_of(scrape(), "tutti_communicator_broken"), std::nullopt);
}

TEST_F(MetricsTest, APendingOperationHasAnAgeAndAnAwaitedRank) {
  EXPECT_EQ(value_of(scrape(), "tutti_awaited_rank"), -1);
  monitor::add_pending(*recorder_, world_, {1, 5, 3, 2});
  const std::string text = scrape();
  EXPECT_NEAR(value_of(text, "tutti_pending_operation_age_seconds").value(), 5, 1);
  EXPECT_EQ(value_of(text, "tutti_awaited_rank"), 3);
  EXPECT_NEAR(value_of(text, "tutti_awaited_seconds").value(), 2, 1);
}

TEST_F(MetricsTest, WaitsAreCountersByTheRankThatWasWaitedFor) {
  world_.waits[3].name.set(3);
  world_.waits[3].ticks.set(ticks_of_microseconds(2e6));
  world_.waits[monitor::kWaits - 1].ticks.set(ticks_of_microseconds(1e6));
  const std::string text = scrape();
  EXPECT_NEAR(value_of(text, "tutti_waited_seconds_total", "rank=\"1\",awaited=\"2\"").value(), 2, 0.02);
  EXPECT_NEAR(value_of(text, "tutti_waited_seconds_total", "awaited=\"others\"").value(), 1, 0.02);
}

TEST_F(MetricsTest, TheRankThatHoldsOthersUpIsToldWithThoseThatWait) {
  monitor::add_pending(*recorder_, world_, {.number = 1, .entered = 5, .awaited = 3, .awaited_since = 4});
  EXPECT_NEAR(value_of(scrape(), "tutti_blocking_rank", "rank=\"3\",why=\"not_seen\",waiters=\"rank 1\"").value_or(0),
              4, 1);
  world_.actives[0].awaited_since.set(monitor::ago(0.1));
  EXPECT_EQ(value_of(scrape(), "tutti_blocking_rank"), std::nullopt) << "such waits come and go";
}

TEST_F(MetricsTest, AProcessThatWasToldToEndWasNotKilled) {
  for (const int told : {0, SIGTERM}) {
    world_.state.set(monitor::CommunicatorRecord::broken);
    recorder_->map().head().told_to_end.set(static_cast<std::uint32_t>(told));
    monitor::Detail detail;
    snapshot_ = monitor::take_snapshot({folder_.path()}, detail);
    snapshot_.processes.at(0).alive = false;
    const std::string text = metrics_.text(snapshot_, counts_);
    EXPECT_EQ(value_of(text, "tutti_process_killed"), told == 0 ? 1 : 0);
    EXPECT_EQ(value_of(text, "tutti_communicator_broken"), told == 0 ? 1 : 0);
  }
}

TEST_F(MetricsTest, ALaneTellsItsRatesConditionAndCause) {
  monitor::LaneRecord& lane = add_lane(*recorder_, 3, 2);
  lane.done_bytes.set(1000);
  lane.quick_bytes.set(24);
  lane.posted_bytes.set(1500);
  lane.rate.set(1e9);
  lane.usual.set(2e9);
  lane.condition.set(static_cast<std::uint32_t>(monitor::Condition::dropped));
  lane.cause.set(static_cast<std::uint32_t>(monitor::Cause::path_congested));
  lane.checked_chunks.set(10);
  lane.corrupted_chunks.set(2);
  lane.returned_chunks.set(3);
  const std::string text = scrape();
  EXPECT_EQ(value_of(text, "tutti_lane_checked_chunks_total"), 12) << "those that were corrupted, too";
  EXPECT_EQ(value_of(text, "tutti_lane_corrupted_chunks_total"), 2);
  EXPECT_EQ(value_of(text, "tutti_lane_returned_chunks_total"), 3);
  EXPECT_EQ(value_of(text, "tutti_lane_bytes_total", "lane=\"3\""), 1024);
  EXPECT_EQ(value_of(text, "tutti_lane_outstanding_bytes"), 500);
  EXPECT_EQ(value_of(text, "tutti_lane_usual_rate_bytes_per_second"), 2e9);
  EXPECT_EQ(value_of(text, "tutti_lane_state", "state=\"healthy\""), 1);
  EXPECT_EQ(value_of(text, "tutti_lane_state", "state=\"dead\""), 0);
  EXPECT_EQ(value_of(text, "tutti_lane_condition", "condition=\"dropped\""), 1);
  EXPECT_EQ(value_of(text, "tutti_lane_cause", "cause=\"path_congested\""), 1);
  EXPECT_EQ(value_of(text, "tutti_lane_cause", "cause=\"sender_starved\""), 0);
}

TEST_F(MetricsTest, LinksAreSummedUpOverTheirChannels) {
  for (const int channel : {0, 1}) recorder_->open_link(world_, 2, channel, false)->posted.set(10);
  EXPECT_EQ(value_of(scrape(), "tutti_link_posted_total", "peer=\"2\",direction=\"send\""), 20);
}

TEST(Exposition, EscapesLabelsAndWritesNumbersAsPrometheusReadsThem) {
  Exposition out;
  out.family("a", Exposition::Type::gauge, "help");
  out.sample(Labels().add("l", "x\"y\\z\nw"), 1.0 / 0.0);
  out.family("never", Exposition::Type::gauge, "has no samples");
  EXPECT_EQ(out.take(), "# HELP a help\n# TYPE a gauge\na{l=\"x\\\"y\\\\z\\nw\"} +Inf\n");
}

TEST(Names, SizesAreRangesOfTheirClass) {
  EXPECT_EQ(size_range(0), "0-64B");
  EXPECT_EQ(size_range(monitor::size_class(1000)), "256B-1KB");
  EXPECT_EQ(size_range(monitor::size_class(64 << 10)), "16-64KB");
  EXPECT_EQ(size_range(monitor::size_class(1 << 30)), ">64MB");
}

TEST(Names, TheCallbackCallsEventsAsTheFeedDoes) {
  for (std::uint32_t i = 0; i < monitor::kEventKinds; ++i)
    EXPECT_EQ(name_of(static_cast<MonitorEvent::Kind>(i)), name_of(static_cast<monitor::EventKind>(i)));
  for (std::uint32_t i = 0; i < 4; ++i)
    EXPECT_EQ(name_of(static_cast<MonitorEvent::Cause>(i)), name_of(static_cast<monitor::Cause>(i)));
}

}  // namespace
}  // namespace tutti::agent
