// A training-like job on simulated hosts, and what must be true of it whatever happens: results are right to the bit,
// no call takes longer than its time-out, survivors agree on who is left, a job whose faults leave it a way goes on
// without an error, and who has ended has left nothing open.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kernel.hpp"
#include "network.hpp"
#include "tutti/communicator.hpp"

namespace tutti::simulated {

/// Counts by name, of what happened.
using Counts = std::map<std::string, std::uint64_t>;

/// What may happen to a job.
enum class Harm : std::uint8_t {
  none,        // no fault at all
  survivable,  // connections remain possible: no call may fail, some take longer
  deadly,      // processes are killed, the network is whole: the others go on
  splitting,   // networks that fall apart, on top of all others
};

class SimulatedJob {
 public:
  SimulatedJob(Kernel& kernel, std::uint64_t seed, Counts& counts);
  ~SimulatedJob();

  /// Runs it to its end. What is wrong is the kernel's failure().
  void run();

 private:
  struct Rank {
    Process* process = nullptr;
    bool ended = false;
    bool trained = false;  // it has done all steps
    Time stopped = 0;      // for how long it was stopped
  };
  /// What the survivors of a communicator have agreed on.
  struct Decision {
    int size = 0;
    std::map<int, int> ranks;  // to the number of who has it
  };

  // Of a rank, on its own thread:
  void be_rank(int number);
  void join_again(int number, const UniqueId& id, std::uint64_t lineage);
  void train(int number, Communicator communicator, std::uint64_t lineage, int step);
  Status step(int number, Communicator& communicator, int step);
  Status split_and_use(int number, Communicator& communicator, int step);
  void expect_abort(int number, Communicator& fresh);
  std::optional<Communicator> recover(int number, Communicator& broken, std::uint64_t& lineage);
  std::optional<Communicator> grow(int number, Communicator& small, std::uint64_t lineage);
  void leave_out(int number, Communicator& whole);
  void check_time(int number, const char* call, Time since, Time stopped_before, double seconds);
  void judge(int number, const char* call, const Error& error);

  // Faults:
  void plan_faults();
  void disturb_recovery(std::uint64_t lineage);
  Time spend_outage(Time wanted);
  bool spend_relays();
  void inject(int kind);
  void end_process(Process& process, int tries);
  void stop_process(Rank& rank, Time duration, int tries);
  void check_end();

  Kernel& kernel_;
  Random draw_;  // of its own: what happens does not depend on how threads are scheduled
  Counts& counts_;
  Network network_;
  Harm harm_;
  int steps_;
  int leaves_at_;    // at this step a rank leaves, in order; with a time-out it comes too late
  int leaver_ = 0;   // which
  double timeout_;   // seconds, of an operation; 0: none, as is the default
  double patience_;  // seconds that an operation may take
  double shrink_seconds_ = 4;
  std::deque<Rank> ranks_;  // stay where they are when a newcomer is added
  std::optional<UniqueId> id_;
  std::map<std::uint64_t, Decision> decisions_;
  std::map<std::uint64_t, bool> grows_;  // by lineage: whether its ranks take in a newcomer
  std::set<std::uint64_t> recoveries_;   // lineages of which a rank has begun to shrink
  int replacements_ = 0;                 // processes that may still be started for those that were killed
  int killed_ = 0;
  int created_ = 0;                 // ranks that are in the first communicator
  bool only_kills_ = false;         // nothing else happens: every death is known, and all who are left go on
  bool memory_refused_ = false;     // to a process, at some time
  bool creation_may_fail_ = false;  // something happened before all ranks had joined
  // For this long all ways of a host may be gone, or it may stand still.
  static constexpr Time kOutages = 500 * kMillisecond;
  Time outages_left_ = kOutages;
  bool relays_ = false;  // some rely on a third host to connect them
};

}  // namespace tutti::simulated
