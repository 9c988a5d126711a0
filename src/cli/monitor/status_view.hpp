// `tutti status` as text and as JSON, from what was seen. Pure; docs/monitor.md explains both.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "monitor/read/cluster_report.hpp"
#include "monitor/read/snapshot.hpp"

namespace tutti::cli {

struct StatusStyle {
  bool color = false;
  bool all = false;  // ranks and lanes that have nothing special to them are not folded into one line
};

std::string status_text(const monitor::ClusterReport& report, const StatusStyle& style);
nlohmann::ordered_json status_json(const monitor::Snapshot& snapshot, const monitor::ClusterReport& report);

}  // namespace tutti::cli
