// Telemetry of jobs that never ran, with faults put in, for tests and for the bench of scale. A job is servers of eight
// ranks each: the ranks of a server reduce among themselves, then the ranks of the same place on all servers do, step
// after step. What each rank is in follows from running that program until nothing moves, so that faults have the
// symptoms they would have. All is drawn from a seed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict.hpp"

namespace tutti::diagnosis {

/// What a fault that was put in should be called.
struct ExpectedVerdict {
  FaultClass fault{};
  std::vector<int> processes;  // any of these is right as the first suspect; empty: none is named
  int peer = -1;               // of a link
  int path = -1;
};

bool is_met(const ExpectedVerdict& expected, const Verdict& verdict);

class SyntheticJob {
 public:
  static constexpr int kPerServer = 8;
  static constexpr int kPaths = 8;

  /// `ranks`: a multiple of 64.
  SyntheticJob(int ranks, std::uint64_t seed);

  /// Puts one in, on a server of its own. `severity`, 0 to 1: transfers take 1.1 to 3.1 times as long, others wait for
  /// a straggler for 10 to 50 % of the time.
  void inject(FaultClass fault, double severity);
  /// The telemetry, once all faults are in.
  Telemetry finish();
  const std::vector<ExpectedVerdict>& expected() const { return expected_; }

  /// Whether both can be seen at once: a rank that is missing hides what would go wrong later.
  static bool go_together(FaultClass one, FaultClass other);

 private:
  /// Where a rank stops. Operations of a step are counted: four of the server, then one across.
  struct Halt {
    int before = -1;     // it does not enter this one; -1: it does not stop by itself
    bool wrong = false;  // it enters it, with another call
    bool skips = false;  // it enters the one across too early instead
  };

  int servers() const { return ranks_ / kPerServer; }
  int draw_server();
  int draw_rank() { return draw_server() * kPerServer + draw(kPerServer); }
  int draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  double draw(double from, double to) { return std::uniform_real_distribution<double>(from, to)(random_); }

  void add_communicators();
  void add_delays();
  void add_waits();
  void inject_stop(FaultClass fault);
  void inject_deadlock();
  void inject_slow(FaultClass fault, double factor);
  void inject_straggler(int rank, double share);
  void inject_lost_lane(FaultClass fault);
  void inject_corruption();
  void inject_unobserved();
  void slow_down(int source, int destination, int path, double factor);
  DelayFacts& draw_network_delay();
  void run_step();
  void enter(CommunicatorFacts& communicator, std::uint32_t number, const std::vector<int>& reached, int position);
  void add_flows(CommunicatorFacts& communicator, std::uint32_t number, std::size_t stuck);

  int ranks_;
  std::mt19937_64 random_;
  Telemetry telemetry_;
  std::vector<ExpectedVerdict> expected_;
  std::vector<Halt> halts_;
  std::vector<bool> used_;    // servers that have a fault
  std::vector<int> reached_;  // the operation in which each rank is
  int stuck_lane_ = -1;       // across which the transfer from `stuck_member_` does not move
  std::size_t stuck_member_ = 0;
  int position_ = 2;  // of the operation before which ranks stop
  bool hangs_ = false;
};

}  // namespace tutti::diagnosis
