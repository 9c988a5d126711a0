#include <gtest/gtest.h>

#include "diagnosis/diagnose.hpp"
#include "diagnosis/synthetic_job_test_kit.hpp"

namespace tutti::diagnosis {
namespace {

constexpr int kRanks = 256;

std::string told(const std::vector<Verdict>& verdicts) {
  std::string text;
  for (const Verdict& each : verdicts) text += std::string(name_of(each.fault)) + ": " + each.text + "\n";
  return text;
}

bool is_found(const ExpectedVerdict& expected, const std::vector<Verdict>& verdicts) {
  return std::any_of(verdicts.begin(), verdicts.end(), [&](const Verdict& each) { return is_met(expected, each); });
}

TEST(SyntheticJob, is_well_without_a_fault) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const auto verdicts = diagnose(SyntheticJob(kRanks, seed).finish());
    EXPECT_TRUE(verdicts.empty()) << "seed " << seed << "\n" << told(verdicts);
  }
}

TEST(SyntheticJob, has_each_fault_found_and_nothing_else) {
  for (int i = 0; i < kFaultClasses; ++i)
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SyntheticJob job(kRanks, seed);
      job.inject(static_cast<FaultClass>(i), 0.5);
      const auto verdicts = diagnose(job.finish());
      for (const ExpectedVerdict& expected : job.expected())
        EXPECT_TRUE(is_found(expected, verdicts)) << name_of(expected.fault) << ", seed " << seed << "\n"
                                                  << told(verdicts);
      EXPECT_EQ(verdicts.size(), job.expected().size())
          << name_of(static_cast<FaultClass>(i)) << ", seed " << seed << "\n"
          << told(verdicts);
    }
}

}  // namespace
}  // namespace tutti::diagnosis
