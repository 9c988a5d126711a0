#include "collector/verdict_store.hpp"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>

#include "monitor/read/recording_test_kit.hpp"

namespace tutti::collector {
namespace {

using diagnosis::FaultClass;
using diagnosis::Telemetry;
using diagnosis::VerdictChange;

constexpr double kNow = 1.7e9;  // seconds since 1970

Telemetry job() {
  Telemetry telemetry;
  telemetry.job = 7;
  telemetry.command = "train";
  telemetry.realtime_offset = kNow - 100;
  return telemetry;
}

VerdictChange change(bool began, double at) {
  VerdictChange change;
  change.began = began;
  change.at = at;
  change.verdict.fault = FaultClass::crashed;
  change.verdict.place = "all_reduce #17";
  change.verdict.text = "rank 3 died; it's said";
  change.verdict.suspects.resize(1);
  change.verdict.suspects[0].rank = 3;
  change.verdict.suspects[0].host = "node3";
  change.verdict.evidence = {{"accusations", 2}};
  return change;
}

/// The first column of all rows.
std::vector<std::string> ask(const std::string& path, const std::string& text) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(path.c_str(), &database), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  EXPECT_EQ(sqlite3_prepare_v2(database, text.c_str(), -1, &statement, nullptr), SQLITE_OK);
  std::vector<std::string> rows;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    const auto* value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
    rows.emplace_back(value == nullptr ? "null" : value);
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return rows;
}

class VerdictStores : public ::testing::Test {
 protected:
  std::unique_ptr<VerdictStore> open(double now = kNow) {
    auto store = VerdictStore::open(path_, now);
    EXPECT_TRUE(store.has_value()) << store.error().message;
    return *std::move(store);
  }
  std::vector<std::string> rows(const std::string& text) const { return ask(path_, text); }

  const monitor::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/verdicts.db";
};

using Rows = std::vector<std::string>;

TEST_F(VerdictStores, keep_a_row_for_each_verdict) {
  const auto store = open();
  store->add(change(true, 110), job());
  EXPECT_EQ(rows("SELECT text FROM verdicts WHERE ended IS NULL"), Rows{"rank 3 died; it's said"});
  EXPECT_EQ(rows("SELECT class || ' ' || host || ' ' || rank || ' ' || place FROM verdicts"),
            Rows{"crashed node3 3 all_reduce #17"});
  EXPECT_EQ(rows("SELECT evidence FROM verdicts"), Rows{R"({"accusations":2.0})"});
  store->add(change(false, 130), job());
  EXPECT_EQ(rows("SELECT CAST(ended - began AS INTEGER) FROM verdicts"), Rows{"20"});
}

TEST_F(VerdictStores, remember_faults_that_are_over) {
  open()->add(change(true, 110), job());
  {
    const auto store = open();
    EXPECT_TRUE(store->past(kNow).value().empty()) << "it is not over";
    store->add(change(true, 120), job());
    store->add(change(false, 130), job());
  }
  EXPECT_EQ(rows("SELECT COUNT(*) FROM verdicts"), Rows{"1"}) << "it was taken up again";
  const auto past = open()->past(kNow + 60).value();
  ASSERT_EQ(past.size(), 1U);
  EXPECT_EQ(past[0].fault, FaultClass::crashed);
  EXPECT_EQ(past[0].host, "node3");
  EXPECT_EQ(past[0].rank, 3);
  EXPECT_EQ(past[0].place, "all_reduce #17");
  EXPECT_EQ(past[0].command, job().command);
  EXPECT_FALSE(past[0].command.empty());
  EXPECT_TRUE(open()->past(kNow + 10 * 86400).value().empty()) << "that was long ago";
}

TEST_F(VerdictStores, end_what_an_earlier_run_left_open_and_nobody_sees_again) {
  open()->add(change(true, 110), job());
  const auto store = open(kNow + 1000);
  store->tick(kNow + 1030);
  EXPECT_EQ(rows("SELECT ended FROM verdicts"), Rows{"null"});
  store->tick(kNow + 1061);
  EXPECT_EQ(rows("SELECT CAST(ended AS INTEGER) FROM verdicts"), Rows{"1700001000"});
}

TEST_F(VerdictStores, drop_what_is_older_than_90_days) {
  {
    const auto store = open();
    store->add(change(true, 110), job());
    store->add(change(false, 130), job());
  }
  open(kNow + 91 * 86400.0);
  EXPECT_EQ(rows("SELECT COUNT(*) FROM verdicts"), Rows{"0"});
}

TEST_F(VerdictStores, refuse_a_file_that_is_no_database) {
  std::ofstream(path_) << std::string(4096, 'x');
  const auto store = VerdictStore::open(path_, kNow);
  ASSERT_FALSE(store.has_value());
  EXPECT_NE(store.error().message.find(path_), std::string::npos);
  EXPECT_FALSE(VerdictStore::open(folder_.path() + "/nowhere/verdicts.db", kNow).has_value());
}

}  // namespace
}  // namespace tutti::collector
