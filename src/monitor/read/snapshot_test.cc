#include "monitor/read/snapshot.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "base/settings.hpp"
#include "monitor/operation_log.hpp"
#include "monitor/read/recording_test_kit.hpp"
#include "monitor/wait_meter.hpp"

namespace tutti::monitor {
namespace {

Snapshot look(const TemporaryFolder& folder) { return take_snapshot({folder.path()}, Detail::all()); }

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

TEST(Snapshot, tells_what_a_recording_says_of_its_process) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  add_communicator(*recorder, 1, 4);
  const Snapshot snapshot = look(folder);
  ASSERT_EQ(snapshot.processes.size(), 1U);
  EXPECT_TRUE(snapshot.problems.empty());
  const ProcessView& process = snapshot.processes[0];
  EXPECT_EQ(process.file, recorder->path());
  EXPECT_EQ(process.pid, ::getpid());
  EXPECT_TRUE(process.alive);
  EXPECT_FALSE(process.ended);
  EXPECT_FALSE(process.clock_error.has_value());
  ASSERT_EQ(process.communicators.size(), 1U);
  const CommunicatorView& communicator = process.communicators[0];
  EXPECT_EQ(communicator.state, CommunicatorRecord::alive);
  EXPECT_EQ(communicator.rank, 1);
  EXPECT_EQ(communicator.size, 4);
  EXPECT_EQ(communicator.name, "world");
  EXPECT_NEAR(communicator.created, snapshot.now, 1);
}

TEST(Snapshot, has_operations_in_the_order_they_ended_and_times_in_seconds) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  CommunicatorRecord& record = add_communicator(*recorder, 0, 2);
  for (std::uint32_t number = 0; number < 20; ++number)  // more than the ring of 16 holds
    add_operation(*recorder, record, {.number = number, .entered = 3, .done = 1, .waited = 0.5, .waited_for = 1});
  const Snapshot snapshot = look(folder);
  const auto& operations = snapshot.processes.at(0).communicators.at(0).operations;
  ASSERT_EQ(operations.size(), 16U);
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(operations[i].number, 4 + i);
  const OperationView& last = operations.back();
  EXPECT_EQ(last.collective, Collective::all_reduce);
  EXPECT_EQ(last.type, DataType::float32);
  EXPECT_EQ(last.program, "ring");
  EXPECT_NEAR(last.entered, snapshot.now - 3, 0.5);
  EXPECT_NEAR(last.done - last.entered, 2, 0.1);
  EXPECT_NEAR(last.waited, 0.5, 1e-3);
  EXPECT_NEAR(last.met(), last.entered + 0.5, 1e-3);
  EXPECT_EQ(last.waited_for, 1);
}

TEST(Snapshot, has_what_is_under_way_with_its_workers_and_the_rank_awaited) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  CommunicatorRecord& record = add_communicator(*recorder, 0, 4);
  add_pending(*recorder, record,
              {.number = 17, .entered = 5, .awaited = 2, .awaited_since = 4, .worker = 1, .step = 6});
  const Snapshot snapshot = look(folder);
  const auto& pending = snapshot.processes.at(0).communicators.at(0).pending;
  ASSERT_EQ(pending.size(), 1U);
  EXPECT_EQ(pending[0].operation.number, 17U);
  EXPECT_EQ(pending[0].operation.waited, 0);
  ASSERT_EQ(pending[0].workers.size(), 2U);
  EXPECT_EQ(pending[0].workers[0].tile, 1U);
  EXPECT_EQ(pending[0].workers[0].steps_done, 3U);
  EXPECT_EQ(pending[0].awaited, 2);
  EXPECT_EQ(pending[0].awaited_worker, 1);
  EXPECT_EQ(pending[0].awaited_step, 6);
  EXPECT_NEAR(pending[0].awaited_since, snapshot.now - 4, 0.5);
}

TEST(Snapshot, has_communicators_that_are_being_made) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  GatheringRecord* const closed = recorder->open_gathering(5, 0, 2);
  GatheringRecord* const open = recorder->open_gathering(6, 3, 4096);
  ASSERT_TRUE(closed != nullptr && open != nullptr);
  EXPECT_EQ(recorder->open_gathering(7, 0, 4097), nullptr);
  recorder->close_gathering(closed);
  for (const int rank : {0, 3, 64, 4095}) open->join(rank);
  open->serves.set(1);
  const Snapshot snapshot = look(folder);
  const auto& gatherings = snapshot.processes.at(0).gatherings;
  ASSERT_EQ(gatherings.size(), 1U);
  EXPECT_EQ(gatherings[0].key, 6U);
  EXPECT_EQ(gatherings[0].rank, 3);
  EXPECT_EQ(gatherings[0].size, 4096);
  EXPECT_TRUE(gatherings[0].serves);
  EXPECT_EQ(gatherings[0].joined, (std::vector<int>{0, 3, 64, 4095}));
  EXPECT_NEAR(gatherings[0].began, snapshot.now, 0.5);
}

TEST(Snapshot, has_for_how_long_each_rank_was_waited_for) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  CommunicatorRecord& record = add_communicator(*recorder, 0, 100);
  OperationLog log(recorder->map(), &record);
  Title title;
  title.what.collective = static_cast<std::uint8_t>(Collective::all_reduce);
  Active* const active = log.enter(title, 0, 1, true);
  const std::uint64_t entered = active->entered.get(), second = ticks_of_microseconds(1e6);
  WaitMeter meter;
  meter.observe(active, &record);
  meter.begin();
  for (int rank = 1; rank < 100; ++rank) {
    meter.note_wait(rank, 0, entered + static_cast<std::uint64_t>(rank - 1) * second);
    meter.note_wait(rank, 0, entered + static_cast<std::uint64_t>(rank) * second);
  }
  const Snapshot snapshot = look(folder);
  const CommunicatorView& view = snapshot.processes.at(0).communicators.at(0);
  ASSERT_EQ(view.waits.size(), 64U) << "one of them stands for all there was no room for";
  EXPECT_EQ(view.waits[0].rank, -1);
  EXPECT_NEAR(view.waits[0].seconds, 99 - 63, 0.1);
  EXPECT_EQ(view.waits[1].rank, 1);
  EXPECT_NEAR(view.waits[1].seconds, 1, 0.01);
  double sum = 0;
  for (const WaitedView& each : view.waits) sum += each.seconds;
  EXPECT_NEAR(sum, 99, 0.5);
  EXPECT_NEAR(view.pending.at(0).operation.waited, sum, 1e-6) << "what is under way counts already";
}

TEST(Snapshot, has_steps_as_the_log_of_operations_writes_them) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  OperationLog log(recorder->map(), &add_communicator(*recorder, 0, 2));
  log.step(70000, 3, 5, 2, ago(2), ago(1.5));
  const Snapshot snapshot = look(folder);
  const auto& steps = snapshot.processes.at(0).communicators.at(0).steps;
  ASSERT_EQ(steps.size(), 1U);
  EXPECT_EQ(steps[0].operation, 70000U);
  EXPECT_EQ(steps[0].worker, 3);
  EXPECT_EQ(steps[0].step, 5);
  EXPECT_EQ(steps[0].tile, 2U);
  EXPECT_NEAR(steps[0].begun, snapshot.now - 2, 0.5);
  EXPECT_NEAR(steps[0].done - steps[0].begun, 0.5, 0.05);
}

TEST(Snapshot, has_lanes_links_totals_and_events) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  CommunicatorRecord& record = add_communicator(*recorder, 0, 4);
  record.totals[0][3].operations.set(2);
  recorder->open_link(record, 3, 1, true)->transferred.set(8);
  LaneRecord& lane = *recorder->open_lane();
  lane.name.set("tcp 127.0.0.1");
  lane.rate.set(5e8);
  lane.usual.set(std::numeric_limits<double>::infinity());
  lane.condition.set(static_cast<std::uint32_t>(Condition::dropped));
  lane.state.set(2);
  ChunkRecord& chunk = recorder->map().chunk(lane, 0);
  chunk.bytes.set(65536);
  chunk.index.set(1);
  recorder->record({.kind = EventKind::lane_dropped, .cause = Cause::path_congested, .lane = 1, .text = "slow\x1b[2J"});
  const ProcessView process = look(folder).processes.at(0);
  ASSERT_EQ(process.communicators.at(0).totals.size(), 1U);
  EXPECT_EQ(process.communicators[0].totals[0].size_class, 3);
  ASSERT_EQ(process.communicators[0].links.size(), 1U);
  EXPECT_EQ(process.communicators[0].links[0].peer, 3);
  EXPECT_TRUE(process.communicators[0].links[0].receives);
  ASSERT_EQ(process.lanes.size(), 1U);
  EXPECT_EQ(process.lanes[0].state, "healthy");
  EXPECT_EQ(process.lanes[0].rate, 5e8);
  EXPECT_EQ(process.lanes[0].usual, 0) << "a number that is none";
  EXPECT_EQ(process.lanes[0].condition, Condition::dropped);
  ASSERT_EQ(process.lanes[0].chunks.size(), 1U);
  ASSERT_EQ(process.events.size(), 1U);
  EXPECT_EQ(process.events[0].cause, Cause::path_congested);
  EXPECT_EQ(process.events[0].text, "slow?[2J") << "nothing that a terminal would obey";
}

TEST(Snapshot, leaves_out_rings_that_nobody_asked_for) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  add_operation(*recorder, add_communicator(*recorder, 0, 2), {});
  recorder->record({});
  const ProcessView process = take_snapshot({folder.path()}, {}).processes.at(0);
  EXPECT_TRUE(process.communicators.at(0).operations.empty());
  EXPECT_TRUE(process.events.empty());
  EXPECT_EQ(process.event_count, 1U);
}

/// A child that has entered an operation and was killed in it.
void record_in_a_process_that_is_killed(const std::string& folder) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto recorder = open_recorder(folder);
    add_pending(*recorder, add_communicator(*recorder, 0, 2), {.number = 17});
    const char done = 1;
    (void)!::write(ready[1], &done, 1);
    ::pause();
    ::_exit(0);
  }
  ::close(ready[1]);
  char done = 0;
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  ::close(ready[0]);
  EXPECT_TRUE(take_snapshot({folder}, {}).processes.at(0).alive);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Snapshot, reads_the_last_state_of_a_process_that_was_killed) {
  const TemporaryFolder folder;
  record_in_a_process_that_is_killed(folder.path());
  const ProcessView process = look(folder).processes.at(0);
  EXPECT_FALSE(process.alive);
  EXPECT_FALSE(process.ended);
  EXPECT_EQ(process.communicators.at(0).pending.at(0).operation.number, 17U);
}

TEST(Snapshot, loses_the_recordings_of_the_dead_when_the_next_process_opens_its_own) {
  const TemporaryFolder folder;
  record_in_a_process_that_is_killed(folder.path());
  ASSERT_EQ(look(folder).processes.size(), 1U);
  const auto recorder = open_recorder(folder.path());
  const Snapshot snapshot = look(folder);
  ASSERT_EQ(snapshot.processes.size(), 1U);
  EXPECT_EQ(snapshot.processes[0].pid, ::getpid());
}

TEST(Recorder, refuses_a_folder_that_others_may_write_to) {
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  RecorderOptions options;
  options.folder = folder.path();
  const auto opened = Recorder::open(options);
  ASSERT_FALSE(opened.has_value());
  EXPECT_NE(opened.error().message.find(folder.path()), std::string::npos) << opened.error().message;
}

TEST(Recorder, removes_its_file_when_it_leaves_in_order_and_leaves_it_where_a_communicator_broke) {
  const TemporaryFolder folder;
  open_recorder(folder.path());
  EXPECT_TRUE(look(folder).processes.empty());
  {
    const auto recorder = open_recorder(folder.path());
    add_communicator(*recorder, 0, 2).state.set(CommunicatorRecord::broken);
  }
  const Snapshot snapshot = look(folder);
  ASSERT_EQ(snapshot.processes.size(), 1U);
  EXPECT_TRUE(snapshot.processes[0].ended);
  EXPECT_FALSE(snapshot.processes[0].alive);
}

TEST(Snapshot, says_of_each_file_it_cannot_read_why) {
  const TemporaryFolder folder;
  std::string good;
  {
    const auto recorder = open_recorder(folder.path());
    add_communicator(*recorder, 0, 2);
    good = bytes_of(recorder->path());
  }
  const auto put = [&](const char* name, const std::string& bytes) { write_file(folder.path() + "/" + name, bytes); };
  const auto with = [&](std::size_t offset, std::uint32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + offset, &value, sizeof value);
    return bytes;
  };
  put("1-empty.rec", "");
  put("2-cut.rec", good.substr(0, good.size() / 2));
  put("3-foreign.rec", std::string(good.size(), 'x'));
  put("4-newer.rec", with(offsetof(Head, version), kVersion + 1));
  put("5-huge.rec", with(offsetof(Head, communicators), 0xffffffff));
  put("6-odd.rec", with(offsetof(Head, operations), 17));
  put("7-longer.rec", good + "more");
  ASSERT_EQ(::mkfifo((folder.path() + "/8-pipe.rec").c_str(), 0600), 0);
  put("9-good.rec", good);
  put("not a recording", "at all");
  const Snapshot snapshot = look(folder);
  EXPECT_EQ(snapshot.processes.size(), 1U);
  ASSERT_EQ(snapshot.problems.size(), 8U);
  const std::string newer = "of version " + std::to_string(kVersion + 1);
  const std::string reasons[] = {"0 bytes", "its head speaks of", "not a recording",    newer,
                                 "larger",  "power of two",       "its head speaks of", "not a file"};
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_NE(snapshot.problems[i].find(reasons[i]), std::string::npos) << snapshot.problems[i];
}

TEST(Snapshot, finds_nothing_in_a_folder_that_nobody_has_made) {
  const Snapshot snapshot = take_snapshot({"/dev/shm/tutti-nobody-has-made-this"}, {});
  EXPECT_TRUE(snapshot.processes.empty());
  EXPECT_TRUE(snapshot.problems.empty());
}

/// Writes records in which all that is told follows from the operation's number.
void write_without_pause(Recorder& recorder, CommunicatorRecord& record, const std::atomic<bool>& stop) {
  for (std::uint32_t number = 1; !stop; ++number) {
    OperationRecord& each = recorder.map().operation(record, number);
    each.index.set(0);
    each.what.set(all_reduce(number).pack());
    each.bytes.set(number * 3ULL);
    each.root.set(static_cast<std::int32_t>(number & 0xff));
    each.signature.set(~number);
    each.index.set(number + 1);
    Active& active = record.actives[0];
    active.generation.set(2ULL * number);
    active.what.set(all_reduce(number).pack());
    active.bytes.set(number * 3ULL);
    active.signature.set(~number);
    active.generation.set(2ULL * number + 1);
    recorder.record({.operation = number, .values = {0, 0, static_cast<double>(number)}});
  }
}

TEST(Snapshot, never_takes_a_record_that_is_half_rewritten) {
  const TemporaryFolder folder;
  const auto recorder = open_recorder(folder.path());
  CommunicatorRecord& record = add_communicator(*recorder, 0, 2);
  std::atomic<bool> stop{false};
  std::thread writer([&] { write_without_pause(*recorder, record, stop); });
  std::size_t seen = 0;
  const auto check = [&](const OperationView& operation) {
    ++seen;
    EXPECT_EQ(operation.bytes, operation.number * 3ULL);
    EXPECT_EQ(operation.signature, ~operation.number);
  };
  const Deadline end = Deadline::in(10);
  for (int looks = 0; (looks < 2000 || seen < 1000) && !end.passed() && !HasFailure(); ++looks) {
    const Snapshot snapshot = look(folder);
    for (const OperationView& operation : snapshot.processes.at(0).communicators.at(0).operations) {
      check(operation);
      EXPECT_EQ(operation.index, operation.number);
    }
    for (const PendingView& pending : snapshot.processes[0].communicators[0].pending) check(pending.operation);
    for (const EventView& event : snapshot.processes[0].events) EXPECT_EQ(event.values[2], event.operation);
  }
  stop = true;
  writer.join();
  EXPECT_GE(seen, 1000U);
}

TEST(Snapshot, of_all_users_leaves_out_folders_that_belong_to_another) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, which looks at all users' folders";
  if (!settings().monitor_dir.empty()) GTEST_SKIP() << "TUTTI_MONITOR_DIR is set";
  const std::string folder = "/dev/shm/tutti-54399";
  std::filesystem::create_directory(folder);
  const auto is_looked_at = [&] {
    const std::vector<std::string> all = recording_folders();
    return std::find(all.begin(), all.end(), folder) != all.end();
  };
  EXPECT_FALSE(is_looked_at());
  EXPECT_EQ(::chown(folder.c_str(), 54399, 54399), 0);
  EXPECT_TRUE(is_looked_at());
  std::filesystem::remove(folder);
}

}  // namespace
}  // namespace tutti::monitor
