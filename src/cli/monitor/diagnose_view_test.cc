#include "cli/monitor/diagnose_view.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "diagnosis/telemetry/telemetry_json.hpp"

namespace tutti::cli {
namespace {

/// A job of one process, and a verdict on it.
JudgedJob judged() {
  JudgedJob job;
  job.telemetry.job = 0xabcdef0123456789;
  job.telemetry.command = "train";
  job.telemetry.now = 100;
  job.telemetry.realtime_offset = 1e9;
  job.telemetry.processes.resize(1);
  job.telemetry.communicators.resize(1);
  job.telemetry.communicators[0].id = 7;
  job.telemetry.communicators[0].name = "world";
  diagnosis::Verdict verdict;
  verdict.fault = diagnosis::FaultClass::frozen;
  verdict.confidence = 0.95;
  verdict.since = 97;
  verdict.communicators = {7};
  verdict.suspects.resize(1);
  verdict.suspects[0].rank = 0;
  verdict.suspects[0].position = "pipeline stage 1 of 4";
  verdict.text = "rank 0 is stopped";
  job.verdicts = {verdict};
  return job;
}

TEST(DiagnoseView, tells_a_verdict_in_two_lines) {
  EXPECT_EQ(verdicts_text({judged()}, false),
            "train, job abcdef01:\n"
            "  frozen: rank 0 is stopped\n"
            "    95 % sure; since 3.0 s; in world; pipeline stage 1 of 4\n");
}

TEST(DiagnoseView, says_that_nothing_is_wrong_and_of_how_much) {
  JudgedJob job = judged();
  job.verdicts.clear();
  EXPECT_EQ(verdicts_text({job}, false), "nothing is wrong: 1 job, 1 process\n");
  EXPECT_EQ(verdicts_text({}, false), "") << "where there are no jobs, nothing was judged";
}

TEST(DiagnoseView, has_json_with_moments_as_the_time_of_day) {
  const auto json = verdicts_json({judged()}, {"a file"});
  EXPECT_FALSE(json["ok"]);
  EXPECT_EQ(json["problems"][0], "a file");
  EXPECT_EQ(json["jobs"][0]["id"], "abcdef0123456789");
  EXPECT_EQ(json["jobs"][0]["verdicts"][0]["since"], 1e9 + 97);
  EXPECT_EQ(json["jobs"][0]["verdicts"][0]["suspects"][0]["position"], "pipeline stage 1 of 4");
}

TEST(DiagnoseView, tells_of_a_change_whether_it_began) {
  const JudgedJob job = judged();
  diagnosis::VerdictChange change{true, 100, 0, job.verdicts[0]};
  EXPECT_EQ(json_of(change, job.telemetry)["event"], "began");
  EXPECT_NE(change_text(job, change, false).find(" frozen: rank 0 is stopped (95 % sure"), std::string::npos);
  change.began = false;
  change.lasted = 12;
  EXPECT_EQ(json_of(change, job.telemetry)["event"], "ended");
  EXPECT_NE(change_text(job, change, false).find(" over after 12.0 s: frozen: rank 0 is stopped"), std::string::npos);
}

}  // namespace
}  // namespace tutti::cli
