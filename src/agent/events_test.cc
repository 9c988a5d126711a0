#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "agent/agent_test_kit.hpp"
#include "agent/event_line.hpp"
#include "agent/event_tail.hpp"
#include "agent/outbox.hpp"

namespace tutti::agent {
namespace {

using monitor::EventKind;
using nlohmann::json;

constexpr double kEver = std::numeric_limits<double>::infinity();

TEST(EventLine, HasAllFieldsOfTheSchemaWhateverTheKind) {
  SeenEvent seen;
  seen.event.kind = EventKind::lane_dropped;
  seen.event.cause = monitor::Cause::receiver_late;
  seen.event.at = 10.0000015;
  seen.event.began = 9;
  seen.event.communicator = 0xabc;
  seen.event.rank = 2;
  seen.event.lane = 5;
  seen.event.values[0] = 2e9;
  seen.event.values[1] = 1e9;
  seen.event.values[2] = 0.25;
  seen.event.text = "a \"quote\"";
  seen.realtime_offset = 1e9;
  seen.host = "host-a";
  seen.pid = 17;
  seen.missed = 4;
  const json line = json::parse(json_line(seen));
  EXPECT_EQ(line["time"], "2001-09-09T01:46:50.000001Z");
  EXPECT_EQ(line["began"], "2001-09-09T01:46:49.000000Z");
  EXPECT_EQ(line["kind"], "lane_dropped");
  EXPECT_EQ(line["cause"], "receiver_late");
  EXPECT_EQ(line["communicator"], "0000000000000abc");
  EXPECT_EQ(line["rank"], 2);
  EXPECT_EQ(line["lane"], 5);
  EXPECT_TRUE(line["peer"].is_null());
  EXPECT_EQ(line["values"]["usual_bytes_per_second"], 2e9);
  EXPECT_EQ(line["values"]["seconds"], 0.25);
  EXPECT_EQ(line["text"], "a \"quote\"");
  EXPECT_EQ(line["missed"], 4);
  SeenEvent other;
  other.event.kind = EventKind::lane_up;
  EXPECT_EQ(json::parse(json_line(other)).size(), line.size());
}

TEST(EventLine, AsTextNamesHostProcessAndWhatHappened) {
  SeenEvent seen;
  seen.event.kind = EventKind::rank_late;
  seen.event.rank = 0;
  seen.event.peer = 3;
  seen.event.operation = 12;
  seen.event.values[0] = 10;
  seen.host = "host-a";
  seen.command = "train";
  seen.pid = 17;
  EXPECT_EQ(text_line(seen),
            "1970-01-01T00:00:00.000000Z host-a train[17] rank_late rank 0 peer 3 operation 12 seconds 10");
  seen.event = {};
  seen.event.kind = EventKind::lane_corrupted;
  seen.event.peer = 3;
  seen.event.lane = 1;
  seen.event.values[0] = 2;
  seen.event.text = "chunk 5 came corrupted";
  EXPECT_EQ(text_line(seen),
            "1970-01-01T00:00:00.000000Z host-a train[17] lane_corrupted peer 3 lane 1 corrupted_chunks 2 "
            "returned_chunks 0: chunk 5 came corrupted");
}

TEST(Outbox, DropsTheOldestAndSaysSo) {
  Outbox outbox(20);
  outbox.push("first....");
  outbox.push("second...");
  outbox.push("third....");
  EXPECT_EQ(outbox.dropped(), 1u);
  const std::string batch(outbox.batch());
  EXPECT_EQ(json::parse(batch.substr(0, batch.find('\n')))["values"]["count"], 1);
  EXPECT_EQ(batch.substr(batch.find('\n') + 1), "second...\nthird....\n");
}

TEST(Outbox, WritesABatchAgainAsAWholeWhereItsPeerWentAway) {
  Outbox outbox;
  outbox.push("line");
  EXPECT_EQ(outbox.batch(), "line\n");
  outbox.wrote(2);
  EXPECT_EQ(outbox.batch(), "ne\n");
  outbox.restart();
  EXPECT_EQ(outbox.batch(), "line\n");
  outbox.wrote(5);
  EXPECT_TRUE(outbox.is_empty());
  EXPECT_TRUE(outbox.batch().empty());
}

TEST(EventTail, TellsEachEventOfEachProcessOnceInOrderOfTime) {
  const monitor::TemporaryFolder folder;
  const auto one = monitor::open_recorder(folder.path()), two = monitor::open_recorder(folder.path());
  EventTail tail({folder.path()}, 0);
  EXPECT_TRUE(tail.look(monotonic_seconds()).empty());
  two->record(event_of(EventKind::lane_up, 1));
  one->record(event_of(EventKind::lane_down, 2));
  const auto events = tail.look(monotonic_seconds());
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].event.kind, EventKind::lane_up);
  EXPECT_EQ(events[1].event.kind, EventKind::lane_down);
  EXPECT_EQ(events[1].pid, ::getpid());
  EXPECT_NEAR(events[1].event.at, monotonic_seconds(), 5);
  EXPECT_TRUE(tail.look(monotonic_seconds()).empty());
}

TEST(EventTail, CountsWhatARingHadNoRoomFor) {
  const monitor::TemporaryFolder folder;
  const auto recorder = monitor::open_recorder(folder.path());
  EventTail tail({folder.path()}, 0);
  tail.look(monotonic_seconds());
  const int room = static_cast<int>(recorder->map().shape().events);
  for (int i = 0; i < 100; ++i) recorder->record(event_of(EventKind::lane_up, i));
  const auto events = tail.look(monotonic_seconds());
  ASSERT_EQ(events.size(), static_cast<std::size_t>(room));
  EXPECT_EQ(events[0].missed, static_cast<std::uint64_t>(100 - room));
  EXPECT_EQ(events.back().event.peer, 99);
}

TEST(EventTail, LooksBackAsFarAsItIsTold) {
  const monitor::TemporaryFolder folder;
  const auto recorder = monitor::open_recorder(folder.path());
  monitor::Event old = event_of(EventKind::lane_up, 1);
  old.at = monitor::ago(0.05);
  recorder->record(old);
  recorder->record(event_of(EventKind::lane_up, 2));
  EXPECT_EQ(EventTail({folder.path()}, kEver).look(monotonic_seconds()).size(), 2u);
  EXPECT_EQ(EventTail({folder.path()}, 0.04).look(monotonic_seconds()).size(), 1u);
}

TEST(EventTail, HearsAProcessBesideMoreFilesThanItMayOpen) {
  const monitor::TemporaryFolder folder, other;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{256, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  // Some are locked, as if a process wrote them: nobody knows that they will stay empty.
  std::vector<Fd> locked;
  for (int i = 0; i < 400; ++i) {
    Fd file(::open((folder.path() + "/" + std::to_string(i) + ".rec").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_TRUE(file);
    if (i >= 60) continue;
    ASSERT_EQ(::flock(file.get(), LOCK_EX), 0);
    locked.push_back(std::move(file));
  }
  EventTail tail({folder.path(), other.path()}, 0);
  tail.look(monotonic_seconds());
  EXPECT_LE(tail.open_files(), EventTail::folder_limit());
  const auto recorder = monitor::open_recorder(other.path());
  tail.look(monotonic_seconds() + 2);
  recorder->record(event_of(EventKind::lane_up, 1));
  EXPECT_EQ(tail.look(monotonic_seconds() + 4).size(), 1u);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(EventTail, HearsTheLastWordsOfAProcessThatLeavesAndForgetsIt) {
  const monitor::TemporaryFolder folder;
  auto recorder = monitor::open_recorder(folder.path());
  EventTail tail({folder.path()}, 0);
  tail.look(monotonic_seconds());
  recorder->record(event_of(EventKind::communicator_closed));
  recorder.reset();
  const auto events = tail.look(monotonic_seconds() + 2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].event.kind, EventKind::communicator_closed);
}

TEST(EventTail, TellsOnceOfAProcessThatWasKilled) {
  const monitor::TemporaryFolder folder;
  EventTail tail({folder.path()}, 0);
  tail.look(monotonic_seconds());
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto recorder = monitor::open_recorder(folder.path());
    recorder->record(event_of(EventKind::lane_up, 7));
    [[maybe_unused]] const auto written = ::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char letter = 0;
  ASSERT_EQ(::read(ready[0], &letter, 1), 1);
  EXPECT_EQ(tail.look(monotonic_seconds() + 2).size(), 1u);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const auto events = tail.look(monotonic_seconds() + 4);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_STREQ(kind_of(events[0]), "process_killed");
  EXPECT_EQ(events[0].pid, child);
  EXPECT_EQ(json::parse(json_line(events[0]))["kind"], "process_killed");
  EXPECT_TRUE(tail.look(monotonic_seconds() + 6).empty());
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace tutti::agent
