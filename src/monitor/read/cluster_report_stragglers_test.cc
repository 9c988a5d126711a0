// Stragglers, on the recordings of simulated training jobs: ranks compute, then run some collectives, step after step.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "monitor/read/cluster_report.hpp"

namespace tutti::monitor {
namespace {

struct JobOptions {
  int ranks = 4;
  int collectives = 2;     // a step
  double compute = 0.005;  // seconds of each rank a step
  double jitter = 0.02;    // of that, standard deviation
  int late = -1;           // this rank computes so much longer
  double delay = 0;
  Collective collective = Collective::all_reduce;
  std::uint32_t seed = 1;
};

/// Runs the job on virtual time, and records it as OperationLog does.
class RecordedJob {
 public:
  explicit RecordedJob(const JobOptions& options) : options_(options), random_(options.seed) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      CommunicatorView view;
      view.state = CommunicatorRecord::alive;
      view.id = view.job = 7;
      view.rank = rank;
      view.size = options.ranks;
      view.name = "world";
      view.marks.resize(kMarkLevels);
      views_.push_back(view);
    }
    free_at_.assign(views_.size(), 1000);
    sums_.resize(views_.size());
  }

  JobOptions& options() { return options_; }
  double now() const { return *std::max_element(free_at_.begin(), free_at_.end()); }

  void step() {
    std::normal_distribution<double> noise(1, options_.jitter);
    for (std::size_t rank = 0; rank < views_.size(); ++rank) {
      free_at_[rank] += std::max(0.0, options_.compute * noise(random_));
      if (static_cast<int>(rank) == options_.late) free_at_[rank] += options_.delay;
    }
    for (int i = 0; i < options_.collectives; ++i) collective();
  }
  /// One rank stands still for so long.
  void pause(int rank, double seconds) { free_at_[static_cast<std::size_t>(rank)] += seconds; }

  ClusterReport report() const {
    Snapshot snapshot;
    snapshot.now = now();
    for (const CommunicatorView& view : views_) {
      ProcessView process;
      process.pid = 100 + view.rank;
      process.alive = true;
      process.communicators = {view};
      snapshot.processes.push_back(process);
    }
    return analyze(snapshot);
  }

 private:
  void collective() {
    std::uniform_real_distribution<double> skew(0, 20e-6);
    const double all_here = *std::max_element(free_at_.begin(), free_at_.end());
    for (std::size_t rank = 0; rank < views_.size(); ++rank) {
      OperationView view;
      view.number = number_;
      view.collective = options_.collective;
      view.entered = free_at_[rank];
      view.waited = all_here - view.entered;
      view.done = free_at_[rank] = all_here + 200e-6 + skew(random_);
      record(views_[rank], sums_[rank], view);
    }
    ++number_;
  }

  static void record(CommunicatorView& view, MarkView& sum, const OperationView& done) {
    view.operations.push_back(done);
    if (view.operations.size() > 256) view.operations.erase(view.operations.begin());
    sum.number = done.number;
    sum.at = done.done;
    if (leaves_together(done.collective)) {
      sum.seconds += done.done - done.entered;
      sum.waited += done.waited;
    }
    for (int level = 0; level < kMarkLevels && done.number % mark_interval(level) == 0; ++level) {
      auto& marks = view.marks[static_cast<std::size_t>(level)];
      marks.push_back(sum);
      if (marks.size() > kMarks) marks.erase(marks.begin());
    }
  }

  JobOptions options_;
  std::mt19937 random_;
  std::vector<CommunicatorView> views_;
  std::vector<double> free_at_;
  std::vector<MarkView> sums_;
  std::uint32_t number_ = 0;
};

CommunicatorReport world_of(const ClusterReport& report) { return report.jobs.at(0).communicators.at(0); }

std::string describe(const JobOptions& options) {
  return std::to_string(options.ranks) + " ranks, " + std::to_string(options.collectives) + " collectives a step of " +
         std::to_string(options.compute) + " s, delay " + std::to_string(options.delay) + " s, seed " +
         std::to_string(options.seed);
}

/// The ranks that were named in any of so many looks, a few steps apart, and how often each.
std::multiset<int> named_in(RecordedJob& job, int looks, int steps_between) {
  std::multiset<int> named;
  for (int look = 0; look < looks; ++look) {
    for (int i = 0; i < steps_between; ++i) job.step();
    const ClusterReport report = job.report();
    for (const Straggler& each : world_of(report).stragglers) named.insert(each.rank);
  }
  return named;
}

/// Steps until a straggler has to be found: eight of them, or five seconds.
int steps_to_find(const JobOptions& options) { return 8 + static_cast<int>(5 / (options.compute + options.delay)); }

TEST(Stragglers, AreNamedAtEveryLookWhateverTheStepsLookLike) {
  constexpr int kLooks = 40;
  for (const int ranks : {2, 3, 4, 8, 16})
    for (const int collectives : {1, 2, 3, 5, 8})
      for (const double compute : {0.005, 0.1})
        for (const double delay : {0.01, 0.03}) {
          const JobOptions options{ranks, collectives, compute, 0.02, ranks - 1, delay};
          RecordedJob job(options);
          for (int i = 0; i < steps_to_find(options); ++i) job.step();
          const std::multiset<int> named = named_in(job, kLooks, 3);
          EXPECT_EQ(named.count(ranks - 1), kLooks) << describe(options);
          EXPECT_EQ(named.size(), kLooks) << "others are named: " << describe(options);
          const ClusterReport report = job.report();
          const Straggler straggler = world_of(report).stragglers.at(0);
          const double step = compute + delay + collectives * 0.21e-3;
          EXPECT_NEAR(straggler.share(), delay / step, 0.15 * delay / step) << describe(options);
          EXPECT_EQ(straggler.why, Straggler::Habit::late);
          EXPECT_FALSE(report.findings.empty());
        }
}

TEST(Stragglers, AreNoneAmongEquals) {
  for (const int ranks : {2, 3, 4, 16})
    for (const int collectives : {1, 2, 8})
      for (const double jitter : {0.0, 0.02, 0.1})
        for (std::uint32_t seed = 1; seed <= 5; ++seed) {
          JobOptions options{ranks, collectives, 0.05, jitter};
          options.seed = seed;
          RecordedJob job(options);
          EXPECT_EQ(named_in(job, 60, 5).size(), 0U) << describe(options) << ", jitter " << jitter;
        }
}

TEST(Stragglers, SayWhatTheyCostOfAStep) {
  RecordedJob job({4, 5, 0.005, 0, 1, 0.03});
  for (int i = 0; i < 300; ++i) job.step();
  const std::string text = job.report().findings.at(0).text;
  EXPECT_TRUE(text.starts_with("world: rank 1 came last, and cost the others 30 ms of every 36 ms (83 % of the last "))
      << text;
  EXPECT_FALSE(job.report().is_wrong());
}

TEST(Stragglers, AreFoundAmongThousandsOfCollectivesAStep) {
  RecordedJob job({4, 2000, 0.1, 0.02, 2, 0.4});
  for (int i = 0; i < 60; ++i) job.step();
  const std::multiset<int> named = named_in(job, 10, 1);
  EXPECT_EQ(named.count(2), 10U);
  EXPECT_EQ(named.size(), 10U);
  const std::string text = job.report().findings.at(0).text;
  EXPECT_TRUE(text.starts_with("world: rank 2 came last, and cost the others 4")) << text;
  EXPECT_EQ(text.find("of every"), std::string::npos) << "no step can be made out: " << text;
}

TEST(Stragglers, AreFoundAndForgottenWithinSeconds) {
  RecordedJob job({4, 3, 0.05, 0.02, 1, 0});
  for (int i = 0; i < 500; ++i) job.step();
  EXPECT_TRUE(world_of(job.report()).stragglers.empty());
  job.options().delay = 0.02;
  const double began = job.now();
  while (world_of(job.report()).stragglers.empty() && job.now() < began + 60) job.step();
  EXPECT_LT(job.now() - began, 10);
  job.options().delay = 0;
  const double ended = job.now();
  while (!world_of(job.report()).stragglers.empty() && job.now() < ended + 600) job.step();
  EXPECT_LT(job.now() - ended, 120);
}

TEST(Stragglers, AreNotTheOneThatPausedOnce) {
  RecordedJob job({3, 2, 0.02, 0.02});
  for (int i = 0; i < 200; ++i) job.step();
  job.pause(1, 5);
  EXPECT_EQ(named_in(job, 200, 3).size(), 0U);
}

TEST(Stragglers, AreTwoWhereTwoAreLate) {
  RecordedJob job({8, 2, 0.02, 0.02, 3, 0.02});
  for (int i = 0; i < 300; ++i) {
    job.pause(5, 0.02);
    job.step();
  }
  std::vector<int> ranks;
  const ClusterReport report = job.report();
  for (const Straggler& each : world_of(report).stragglers) ranks.push_back(each.rank);
  EXPECT_EQ(ranks, (std::vector<int>{3, 5}));
}

TEST(Stragglers, AreNotSoughtWhereRanksMayLeaveEarly) {
  JobOptions options{3, 2, 0.02, 0.02, 1, 0.02};
  options.collective = Collective::broadcast;
  RecordedJob job(options);
  EXPECT_EQ(named_in(job, 50, 5).size(), 0U);
}

}  // namespace
}  // namespace tutti::monitor
