#include "diagnosis/telemetry/telemetry_json.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/synthetic_job_test_kit.hpp"

namespace tutti::diagnosis {
namespace {

TEST(TelemetryJson, is_judged_the_same_after_it_was_written_and_read) {
  for (int i = 0; i < kFaultClasses; ++i) {
    SyntheticJob job(64, 3);
    job.inject(static_cast<FaultClass>(i), 0.5);
    Telemetry telemetry = job.finish();
    telemetry.job = ~std::uint64_t{0};
    const std::string line = line_of(telemetry);
    const auto read = parse_telemetry(line);
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(line_of(*read), line);
    EXPECT_EQ(read->job, telemetry.job);
    const auto before = diagnose(telemetry), after = diagnose(*read);
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t k = 0; k < before.size(); ++k)
      EXPECT_EQ(json_of(before[k], 5).dump(), json_of(after[k], 5).dump());
  }
}

TEST(TelemetryJson, refuses_what_does_not_hold_together) {
  const auto error_of = [](const char* text) {
    const auto read = parse_telemetry(text);
    return read ? std::string("read") : read.error().message;
  };
  EXPECT_EQ(error_of(R"({"telemetry": 1})"), "read");
  EXPECT_EQ(error_of(R"({"telemetry": 2})"), "line 1: telemetry: version 2 is not known; expected 1");
  EXPECT_NE(error_of(R"({"telemetry": 1, "speed": 3})").find("unknown key"), std::string::npos);
  EXPECT_NE(error_of(R"({"telemetry": 1, "processes": [{"state": "asleep"}]})").find("'asleep'"), std::string::npos);
  EXPECT_EQ(error_of(R"({"telemetry": 1, "delays": [{"source": 0, "destination": 1}]})"),
            "delays: process 0 is out of range; expected 0 to -1");
  EXPECT_EQ(error_of(R"({"telemetry": 1, "communicators": [{"size": 2, "members": [{"rank": 1}, {"rank": 0}]}]})"),
            "members: rank 0 comes after rank 1");
  EXPECT_NE(error_of(R"({"telemetry": 1, "job": "xyz"})").find("no id"), std::string::npos);
  EXPECT_NE(error_of("{").find("parse error"), std::string::npos);
}

TEST(VerdictJson, says_null_for_what_does_not_apply) {
  Verdict verdict;
  verdict.fault = FaultClass::slow_path;
  verdict.suspects.emplace_back();
  verdict.suspects[0].path = 3;
  verdict.communicators = {255};
  verdict.since = 10;
  verdict.evidence = {{"times_usual", 1.5}};
  const auto json = json_of(verdict, 100);
  EXPECT_EQ(json["class"], "slow_path");
  EXPECT_TRUE(json["suspects"][0]["rank"].is_null());
  EXPECT_EQ(json["suspects"][0]["path"], 3);
  EXPECT_EQ(json["communicators"][0], "00000000000000ff");
  EXPECT_EQ(json["since"], 110.0);
  EXPECT_EQ(json["evidence"]["times_usual"], 1.5);
}

}  // namespace
}  // namespace tutti::diagnosis
