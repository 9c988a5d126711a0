// Asks a collector what it knows. One thread; waits, until a deadline.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "agent/report/collector_link.hpp"
#include "base/clock.hpp"
#include "cli/monitor/collector_flags.hpp"
#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::cli {

/// All hosts of all jobs.
struct CollectorAnswer {
  nlohmann::ordered_json hosts = nlohmann::ordered_json::array();  // the agents, as KnownHosts::as_json() tells them
  std::vector<diagnosis::Telemetry> jobs;
};

class CollectorClient {
 public:
  static Result<std::unique_ptr<CollectorClient>> open(const CollectorFlags& flags);

  /// Connects where there is no connection. An error says why there is no answer; it may be asked again.
  Result<CollectorAnswer> ask(Deadline deadline);

 private:
  CollectorClient(HostPort where, const JobKey& key);
  Status take(const agent::Frame& frame);

  std::string name_;
  agent::CollectorLink link_;
  CollectorAnswer answer_;
  bool is_whole_ = false;
};

}  // namespace tutti::cli
