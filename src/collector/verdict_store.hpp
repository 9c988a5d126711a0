// Verdicts in an SQLite database, one row each, for whoever asks later, and so that a fault is known to be `repeated`
// after the collector was started again. A verdict that was open when a collector ended is taken up again if it holds
// still, and else ends a minute after the next one began. Rows older than 90 days are dropped at the start.
//
//   verdicts(id, job, command, key, class, confidence, host, rank, place, began, ended, suspects, evidence,
//            communicators, text)
//
// `began` and `ended` are seconds since 1970, `ended` null while it holds; host and rank are those of the first
// suspect; `suspects`, `evidence` and `communicators` are JSON as docs/diagnosis.md says. One thread. What cannot be
// written is logged and lost: judging goes on.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/rate_limited_log.hpp"
#include "diagnosis/telemetry/telemetry.hpp"
#include "diagnosis/verdict_watch.hpp"
#include "tutti/error.hpp"

struct sqlite3;

namespace tutti::collector {

class VerdictStore {
 public:
  /// `now`: seconds since 1970. The error names the file and what is wrong with it.
  static Result<std::unique_ptr<VerdictStore>> open(const std::string& path, double now);
  ~VerdictStore();
  VerdictStore(const VerdictStore&) = delete;
  VerdictStore& operator=(const VerdictStore&) = delete;

  /// Faults that are over; the newest thousands of the last week.
  Result<std::vector<diagnosis::PastFault>> past(double now);
  void add(const diagnosis::VerdictChange& change, const diagnosis::Telemetry& telemetry);
  /// Ends verdicts of an earlier run that have not come back within a minute.
  void tick(double now);

 private:
  using OpenKey = std::pair<std::string, std::string>;  // job, key

  VerdictStore(sqlite3* database, std::string path, double began)
      : database_(database), path_(std::move(path)), began_(began) {}
  Status prepare(double now);
  Status begin(const diagnosis::VerdictChange& change, const diagnosis::Telemetry& telemetry);
  Status end(std::int64_t row, double at);
  tl::unexpected<Error> error(const std::string& what) const;

  sqlite3* database_;
  std::string path_;
  double began_;
  std::map<OpenKey, std::int64_t> open_;      // rows of verdicts that hold
  std::map<OpenKey, std::int64_t> leftover_;  // of an earlier run, and not seen in this one
  RateLimitedLog log_{60};
};

}  // namespace tutti::collector
