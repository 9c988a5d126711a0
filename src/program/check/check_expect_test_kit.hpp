// How tests of the checker say what is broken, and where. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "program/check/check.hpp"
#include "program/check/check_programs_test_kit.hpp"

namespace tutti::check_programs {

struct At {
  int rank;
  int worker;
  int step;
};

inline void expect_broken(const Program& program, Violation::Rule rule, At at, const std::string& piece,
                          const CheckOptions& options = {}) {
  const CheckReport report = check(program, options);
  ASSERT_FALSE(report.ok()) << "expected: " << piece;
  const Violation& found = *report.violation;
  EXPECT_EQ(name_of(found.rule), name_of(rule)) << found.to_string();
  EXPECT_EQ(found.rank, at.rank) << found.to_string();
  EXPECT_EQ(found.worker, at.worker) << found.to_string();
  EXPECT_EQ(found.step, at.step) << found.to_string();
  EXPECT_NE(found.message.find(piece), std::string::npos) << found.to_string();
}

inline constexpr Shape kPair{Collective::all_reduce, 2, 0, 1};
inline constexpr Shape kOne{Collective::all_reduce, 1, 0, 1};
inline constexpr At kNowhere{-1, -1, -1};

/// Rank 0 sends its input to rank 1; each side as given.
inline Program transfer(std::vector<Worker> source, std::vector<Worker> target, int chunks = 1,
                        int target_scratch = 0) {
  return make_flat("transfer", {Collective::point_to_point, 2, 0, chunks},
                   {part(std::move(source)), part(std::move(target), target_scratch)});
}

}  // namespace tutti::check_programs
