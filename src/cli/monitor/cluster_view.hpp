// All hosts of all jobs, as `tutti status --collector` and `tutti top --collector` show them, from what a collector
// knows. Pure; docs/diagnosis.md explains both forms.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/monitor/collector_client.hpp"
#include "cli/monitor/diagnose_view.hpp"
#include "cli/monitor/status_view.hpp"

namespace tutti::cli {

/// An answer, and what is wrong with each of its jobs.
struct JudgedCluster {
  nlohmann::ordered_json hosts;
  std::vector<JudgedJob> jobs;

  explicit JudgedCluster(CollectorAnswer answer);
  bool is_wrong() const;
};

/// `before`: an earlier look, for what happened since; null: there was none.
std::vector<std::string> cluster_lines(const JudgedCluster& cluster, const JudgedCluster* before,
                                       const StatusStyle& style);
nlohmann::ordered_json cluster_json(const JudgedCluster& cluster);

}  // namespace tutti::cli
