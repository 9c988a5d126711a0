// Warnings of one kind: at most one per interval, however many there are, with how many it stands for. A plain value
// that is given the time (seconds, monotonic); one thread.
#pragma once

#include <string>

namespace tutti {

class RateLimitedLog {
 public:
  explicit RateLimitedLog(double interval = 1) : interval_(interval) {}

  /// Logs `line`, or keeps it if the interval since the last line is not over.
  void warn(const std::string& line, double now);
  /// Logs the newest line that was kept, if the interval is over. Returns when to call this again; kNothingKept: not
  /// before the next warn().
  double catch_up(double now);

  static constexpr double kNothingKept = 1e300;

 private:
  void log(const std::string& line, double now);

  double interval_;
  double next_ = 0;
  int kept_ = 0;
  std::string newest_;
};

}  // namespace tutti
