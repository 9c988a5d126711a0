#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/monitor/status_view.hpp"
#include "cli/monitor/top_view.hpp"
#include "cli/support/screen.hpp"
#include "cli/support/table.hpp"

namespace tutti::cli {
namespace {

using namespace monitor;  // NOLINT(google-build-using-namespace)

constexpr double kNow = 1000;

PendingView waiting(std::uint32_t number, int awaited, double seconds) {
  PendingView pending;
  pending.operation.number = number;
  pending.operation.bytes = 8192;
  pending.operation.program = "ring";
  pending.operation.entered = pending.awaited_since = kNow - seconds;
  pending.operation.waited = seconds;
  pending.operation.waited_for = awaited;
  pending.workers = {{0, 3}, {0, 1}};
  pending.awaited = awaited;
  return pending;
}

ProcessView process(int rank, int size) {
  ProcessView view;
  view.pid = 100 + rank;
  view.alive = true;
  view.command = "train";
  CommunicatorView communicator;
  communicator.state = CommunicatorRecord::alive;
  communicator.id = communicator.job = 0xabcdef0123456789;
  communicator.rank = rank;
  communicator.size = size;
  communicator.hosts = 1;
  communicator.name = "world";
  view.communicators.push_back(communicator);
  return view;
}

Snapshot snapshot_of(std::vector<ProcessView> processes) {
  Snapshot snapshot;
  snapshot.now = kNow;
  snapshot.realtime_offset = 1e9;
  snapshot.processes = std::move(processes);
  return snapshot;
}

/// Ranks 0 .. size - 2 wait for the last one, which has not come.
Snapshot hung_job(int size) {
  std::vector<ProcessView> processes;
  for (int rank = 0; rank < size; ++rank) {
    processes.push_back(process(rank, size));
    CommunicatorView& communicator = processes.back().communicators[0];
    if (rank == size - 1) continue;
    communicator.pending.push_back(waiting(17, size - 1, 12));
    communicator.waits = {{size - 1, 12}};
    communicator.links.push_back({size - 1, 0, true, 4, 3, 2, 4096, 17});
  }
  return snapshot_of(std::move(processes));
}

std::string text_of_snapshot(const Snapshot& snapshot, bool all = false) {
  return status_text(analyze(snapshot), {false, all});
}

TEST(StatusText, shows_ranks_what_they_are_in_and_whom_they_wait_for) {
  EXPECT_EQ(text_of_snapshot(hung_job(3)),
            "job abcdef01 (train), 3 processes here\n"
            "  world  3 ranks, 1 host, alive\n"
            "    rank  pid  done  operation        bytes  program     for  steps  waits for\n"
            "       0  100     0  all_reduce #17  8.2 kB  ring     12.0 s  3 1    rank 2\n"
            "        chunks from 2: 4 expected, 3 received, 2 done\n"
            "       1  101     0  all_reduce #17  8.2 kB  ring     12.0 s  3 1    rank 2\n"
            "        chunks from 2: 4 expected, 3 received, 2 done\n"
            "       2  102     0  none yet\n"
            "\n"
            "wrong: world: rank 2 has not entered all_reduce #17 yet: no operation done yet; ranks 0-1 wait for it, "
            "for 12.0 s\n");
}

TEST(StatusText, folds_ranks_that_do_the_same_where_there_are_many) {
  const std::string text = text_of_snapshot(hung_job(64));
  EXPECT_NE(text.find("    0-62             all_reduce #17"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7) << text;
  const std::string all = text_of_snapshot(hung_job(64), true);
  EXPECT_GT(std::count(all.begin(), all.end(), '\n'), 64);
}

TEST(StatusText, says_that_all_is_well_or_which_file_could_not_be_read) {
  Snapshot snapshot = snapshot_of({process(0, 1)});
  EXPECT_NE(text_of_snapshot(snapshot).find("all is well\n"), std::string::npos);
  snapshot.problems.push_back("x.rec cannot be read: it is not a recording of tutti");
  EXPECT_NE(text_of_snapshot(snapshot).find("unread: x.rec cannot be read"), std::string::npos);
}

LaneView lane(std::uint32_t index) {
  LaneView view;
  view.index = index;
  view.slot = index;
  view.state = "healthy";
  view.peer = 1;
  view.peer_name = "node-b";
  view.name = "10.0.0.1";
  view.rate = view.usual = 1e9;
  view.done_bytes = 1'000'000;
  return view;
}

TEST(StatusText, folds_lanes_that_are_well_and_shows_each_where_one_is_not) {
  ProcessView view = process(0, 2);
  view.lanes = {lane(0), lane(1)};
  const std::string well = text_of_snapshot(snapshot_of({view}));
  EXPECT_NE(well.find("0  rank 1  all 2  healthy  2.0 GB/s  2.0 GB/s"), std::string::npos) << well;
  view.lanes[1].condition = Condition::dropped;
  view.lanes[1].cause = Cause::receiver_late;
  view.lanes[1].rate = 5e8;
  const std::string dropped = text_of_snapshot(snapshot_of({view}));
  EXPECT_NE(dropped.find("1  healthy  500 MB/s  1.0 GB/s   50 %  10.0.0.1  dropped: receiver_late"), std::string::npos)
      << dropped;
}

TEST(StatusText, shows_a_lane_that_corrupted_something) {
  ProcessView view = process(0, 2);
  view.lanes = {lane(0), lane(1)};
  view.lanes[1].checked_chunks = 308;
  view.lanes[1].corrupted_chunks = 2;
  view.lanes[1].corrupted_at = kNow - 1;
  const std::string text = text_of_snapshot(snapshot_of({view}));
  EXPECT_NE(text.find("10.0.0.1  corrupted: 2 of 310 chunks that were checked"), std::string::npos) << text;
  EXPECT_NE(text.find("note: rank 0: lane 1 to rank 1 (10.0.0.1): corrupted: 2 of 310 chunks"), std::string::npos)
      << text;
  view.lanes[1].corrupted_chunks = 0;
  view.lanes[1].returned_chunks = 7;
  EXPECT_NE(text_of_snapshot(snapshot_of({view})).find("corrupted: 7 at the other end"), std::string::npos);
}

TEST(StatusJson, holds_everything_under_stable_names) {
  Snapshot snapshot = hung_job(2);
  snapshot.processes[0].lanes = {lane(0)};
  OperationView last;
  last.number = 16;
  last.entered = kNow - 20;
  last.done = kNow - 19;
  snapshot.processes[1].communicators[0].operations = {last};
  const auto json = status_json(snapshot, analyze(snapshot));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["time"], 1e9 + kNow);
  const auto& communicator = json["jobs"][0]["communicators"][0];
  EXPECT_EQ(communicator["id"], "abcdef0123456789");
  EXPECT_EQ(communicator["blockers"][0]["rank"], 1);
  EXPECT_EQ(communicator["blockers"][0]["why"], "not_entered");
  EXPECT_EQ(communicator["waits"][0]["awaited"], 1);
  const auto& pending = communicator["ranks"][0]["pending"][0];
  EXPECT_EQ(pending["waited_seconds"], 12);
  EXPECT_EQ(pending["waited_most_for"], 1);
  EXPECT_EQ(communicator["ranks"][0]["waited_for"][0], (nlohmann::json{{"rank", 1}, {"seconds", 12}}));
  EXPECT_TRUE(communicator["ranks"][1]["last_operations"][0]["waited_most_for"].is_null());
  EXPECT_EQ(pending["collective"], "all_reduce");
  EXPECT_EQ(pending["seconds"], 12);
  EXPECT_EQ(pending["workers"][0]["steps_done"], 3);
  EXPECT_TRUE(pending["done"].is_null());
  EXPECT_EQ(communicator["ranks"][0]["links"][0]["received"], 3);
  EXPECT_EQ(communicator["ranks"][1]["last_operations"][0]["done"], 1e9 + kNow - 19);
  EXPECT_EQ(json["processes"][0]["lanes"][0]["usual_bytes_per_second"], 1e9);
}

TEST(TopView, tells_rates_between_two_looks) {
  ProcessView view = process(0, 2);
  TotalView total;
  total.operations = 100;
  total.bytes = 1'000'000;
  total.seconds = 5;
  total.waited = 1;
  view.communicators[0].totals = {total};
  view.communicators[0].waits = {{1, 1.0}};
  view.lanes = {lane(0)};
  Snapshot before = snapshot_of({view});
  before.now = kNow - 2;
  view.communicators[0].totals[0] = {Collective::all_reduce, 0, 300, 5'000'000, 6.5, 1.5};
  view.communicators[0].waits = {{-1, 0.1}, {1, 1.15}, {3, 0.25}};
  view.lanes[0].done_bytes += 4'000'000;
  view.lanes[0].chunks = {{0, 0, 0, 0, 0, 0, 0, 1e9}, {1, 0, 0, 0, 0, 0, 0, 5e8}};
  const TopFrame frame = top_frame(before, snapshot_of({view}), {});
  ASSERT_EQ(frame.head.size(), 1U);
  EXPECT_EQ(frame.head[0], "tutti top: 1 processes, 1 ranks; 100 op/s, 2.0 MB/s; all is well");
  ASSERT_EQ(frame.body.size(), 5U);
  EXPECT_EQ(frame.body[1], "world            0  100   100   2.0 MB    75 %     25 %  rank 3");
  EXPECT_EQ(frame.body[4], "   0  rank 1     0   2.0 MB  1.0 GB   1.0 GB  █▄               healthy");
}

TEST(TopView, counts_a_rank_that_hangs_as_waiting_all_the_time) {
  Snapshot before = hung_job(2);
  before.now -= 1;
  const TopFrame frame = top_frame(before, hung_job(2), {});
  EXPECT_NE(frame.body.at(1).find("100 %    100 %  all_reduce #17  12.0 s          1"), std::string::npos)
      << frame.body[1];
}

TEST(TopView, sorts_by_what_is_asked_for) {
  Snapshot now = hung_job(3);
  now.processes[1].communicators[0].totals = {{Collective::all_reduce, 0, 10, 10, 1, 0}};
  const auto first = [&](TopOrder order) {
    const std::string line = top_frame(snapshot_of({}), now, {order, false}).body.at(1);
    return line.substr(0, line.find("10"));
  };
  EXPECT_NE(first(TopOrder::rank).find(" 0 "), std::string::npos);
  EXPECT_NE(first(TopOrder::operations).find(" 1 "), std::string::npos);
}

TEST(Sparkline, keeps_a_dip_that_shares_its_column_and_is_not_flattened_by_a_peak) {
  EXPECT_EQ(sparkline({}, 8), "");
  EXPECT_EQ(sparkline({0, 50, 100}, 8), " ▄█");
  EXPECT_EQ(sparkline({50, 50, 5000, 50}, 8), "▄▄█▄");
  std::vector<double> rates(64, 100);
  rates[10] = 0;
  EXPECT_EQ(sparkline(rates, 8), "█ ██████");
}

TEST(Table, leaves_out_columns_that_hold_nothing) {
  Table table({{"a"}, {"b"}, {"c", true}});
  table.add({"long", "", "1"});
  table.add({"x", "", "22"});
  EXPECT_EQ(table.lines("", false), (std::vector<std::string>{"a      c", "long   1", "x     22"}));
}

TEST(Table, clips_what_is_seen_and_not_what_colours_it) {
  EXPECT_EQ(width_of("\x1b[31m█ab\x1b[0m"), 3U);
  EXPECT_EQ(clipped("\x1b[31m█ab\x1b[0m", 2), "\x1b[31m█a\x1b[0m");
  EXPECT_EQ(clipped("abc", 3), "abc");
}

TEST(Screen, knows_keys_by_what_a_terminal_sends) {
  EXPECT_EQ(parse_key("\x1b[A").key, Key::up);
  EXPECT_EQ(parse_key("\x1b[6~").key, Key::page_down);
  EXPECT_EQ(parse_key("q").letter, 'q');
  EXPECT_EQ(parse_key("\x1b[99~").key, Key::none);
}

}  // namespace
}  // namespace tutti::cli
