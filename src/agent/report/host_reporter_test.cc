#include "agent/report/host_reporter.hpp"

#include <gtest/gtest.h>

#include <set>

#include "agent/agent_test_kit.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"

namespace tutti::agent {
namespace {

std::uint64_t fingerprint(const std::string& folder, const monitor::Detail& detail) {
  return fingerprint_of(monitor::take_snapshot({folder}, detail));
}

TEST(Fingerprint, is_the_same_at_a_glance_and_at_a_whole_look) {
  const monitor::TemporaryFolder folder;
  const auto recorder = monitor::open_recorder(folder.path());
  auto& communicator = monitor::add_communicator(*recorder, 0, 2);
  end_operation(*recorder, communicator, {});
  add_lane(*recorder, 0, 1);
  const std::uint64_t glance = fingerprint(folder.path(), {});
  EXPECT_EQ(glance, fingerprint(folder.path(), {}));
  EXPECT_EQ(glance, fingerprint(folder.path(), diagnosis::RecordingObserver::detail()));
}

TEST(Fingerprint, changes_with_everything_that_moves) {
  const monitor::TemporaryFolder folder;
  const auto recorder = monitor::open_recorder(folder.path());
  auto& communicator = monitor::add_communicator(*recorder, 0, 2);
  monitor::LaneRecord& lane = add_lane(*recorder, 0, 1);
  std::set<std::uint64_t> seen{fingerprint(folder.path(), {})};
  communicator.entered.set(1);
  seen.insert(fingerprint(folder.path(), {}));
  communicator.done.set(1);
  seen.insert(fingerprint(folder.path(), {}));
  lane.state.set(3);
  seen.insert(fingerprint(folder.path(), {}));
  communicator.state.set(monitor::CommunicatorRecord::broken);
  seen.insert(fingerprint(folder.path(), {}));
  EXPECT_EQ(seen.size(), 5U);
}

TEST(Summary, has_no_lanes_that_are_well_and_no_digits_that_nobody_needs) {
  diagnosis::Telemetry telemetry;
  telemetry.now = 123456.78901234567;
  telemetry.processes.resize(1);
  telemetry.lanes.resize(3);
  for (diagnosis::LaneFacts& lane : telemetry.lanes) lane.process = 0;
  telemetry.lanes[1].state = diagnosis::LaneFacts::State::down;
  telemetry.lanes[2].losses = 1;
  const std::string summary = summary_of(telemetry);
  EXPECT_NE(summary.find("\"now\":123456.789012,"), std::string::npos) << summary;
  const auto read = diagnosis::parse_telemetry(summary);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->lanes.size(), 2U);
}

TEST(Hello, of_this_host_tells_its_agents_apart) {
  EXPECT_EQ(hello_of_this_host({"a"}).place, hello_of_this_host({"a"}).place);
  EXPECT_NE(hello_of_this_host({"a"}).place, hello_of_this_host({"b"}).place);
  EXPECT_FALSE(hello_of_this_host({}).host.empty());
}

}  // namespace
}  // namespace tutti::agent
