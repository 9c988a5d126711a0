#include "diagnosis/job_watch.hpp"

#include <gtest/gtest.h>

namespace tutti::diagnosis {
namespace {

/// A job of two ranks, of which one died.
Telemetry with_a_death(std::uint64_t job, double now) {
  Telemetry telemetry;
  telemetry.job = job;
  telemetry.now = now;
  for (int rank = 0; rank < 2; ++rank) {
    ProcessFacts process;
    process.rank = rank;
    process.host = "node" + std::to_string(rank);
    telemetry.processes.push_back(process);
  }
  telemetry.processes[1].state = ProcessState::killed;
  return telemetry;
}

struct Told {
  std::uint64_t job;
  FaultClass fault;
  bool began;
  bool operator==(const Told&) const = default;
};

class Looks {
 public:
  explicit Looks(std::vector<PastFault> past = {}) : watch_(std::move(past)) {}

  std::vector<Told> look(std::vector<Telemetry> seen) {
    std::vector<Told> told;
    watch_.look(std::move(seen), [&](const JudgedJob& job, const VerdictChange& change) {
      told.push_back({job.telemetry.job, change.verdict.fault, change.began});
    });
    return told;
  }
  const JobWatch& watch() const { return watch_; }

 private:
  JobWatch watch_;
};

TEST(JobWatch, tells_once_of_a_fault_and_that_it_is_over_once_its_job_is_not_seen) {
  Looks looks;
  EXPECT_EQ(looks.look({with_a_death(7, 10)}), (std::vector<Told>{{7, FaultClass::crashed, true}}));
  EXPECT_TRUE(looks.look({with_a_death(7, 11)}).empty());
  EXPECT_EQ(looks.look({}), (std::vector<Told>{{7, FaultClass::crashed, false}}));
  looks.look({});
  EXPECT_EQ(looks.watch().jobs().size(), 1U);
  looks.look({});
  EXPECT_TRUE(looks.watch().jobs().empty());
}

TEST(JobWatch, calls_a_fault_repeated_that_was_over_before_it_began_to_watch) {
  PastFault past;
  past.fault = FaultClass::crashed;
  past.host = "node1";
  Looks looks({past});
  EXPECT_EQ(looks.look({with_a_death(8, 10)}),
            (std::vector<Told>{{8, FaultClass::crashed, true}, {8, FaultClass::repeated, true}}));
}

}  // namespace
}  // namespace tutti::diagnosis
