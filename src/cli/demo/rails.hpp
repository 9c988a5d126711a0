// Two hosts joined by two rails, with traffic on them, for the scene of `tutti demo` in which a rail fails. One
// implementation is real: ranks in network namespaces; the other is simulated. Times are seconds since the traffic
// began. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/support/interrupts.hpp"
#include "tutti/error.hpp"

namespace tutti::cli {

inline constexpr int kRails = 2;

class Rails {
 public:
  virtual ~Rails() = default;

  /// What moves, and where: the beginning of a sentence, in lines that fit a terminal.
  virtual std::string title() const = 0;
  /// "all-reduces"
  virtual std::string operations() const = 0;
  virtual double now() const = 0;
  /// Lets the traffic flow until then. Fails where a rank does, and when interrupted.
  virtual Status flow_until(double seconds) = 0;
  /// Bytes that the first host has sent on each rail.
  virtual std::array<std::uint64_t, kRails> sent() = 0;
  virtual Status set_rail(int rail, bool up) = 0;
  /// When operations were done, in order.
  const std::vector<double>& ends() const { return ends_; }
  /// Ends the traffic. Fails where any result was wrong.
  virtual Status finish() = 0;

 protected:
  std::vector<double> ends_;
};

/// `live`: a simulated second takes one; else none are waited for.
std::unique_ptr<Rails> simulate_rails(bool live, Interrupts& interrupts);

/// What namespace_rails.hpp starts: all-reduces for so long. Rank 0 writes a line for each: when it was done, in
/// nanoseconds of the monotonic clock. Returns the exit status.
int run_rails_rank(double seconds);
/// The same with broadcasts from rank 0, whose result nobody checks: nothing but the rails is to be busy.
int run_stream_rank(double seconds);
/// What the scene with the diagnosis starts: it computes (sleeps) and reduces in a loop, and writes nothing.
int run_training_rank(double seconds);

}  // namespace tutti::cli
