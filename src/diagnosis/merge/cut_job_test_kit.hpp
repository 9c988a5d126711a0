// Cuts the telemetry of a whole job into what each of its hosts would tell: for tests of merging, and for the bench of
// the collector.
#pragma once

#include <vector>

#include "diagnosis/telemetry/telemetry.hpp"

namespace tutti::diagnosis {

/// A part for each host, in the order in which hosts first appear. `clock_of(i)`: by how much the clock of the host is
/// ahead. What others wait for in communicators across hosts becomes stretches.
template <typename ClockOf>
std::vector<Telemetry> cut_by_host(const Telemetry& job, const ClockOf& clock_of);

/// The part of one host. `pace`: of the best rate of any path, the best that this host has seen.
Telemetry part_of_host(const Telemetry& job, const std::string& host, double clock, double pace);

/// In the order in which they first appear.
std::vector<std::string> hosts_of(const Telemetry& job);

template <typename ClockOf>
std::vector<Telemetry> cut_by_host(const Telemetry& job, const ClockOf& clock_of) {
  std::vector<Telemetry> parts;
  for (const std::string& host : hosts_of(job)) {
    const double clock = clock_of(parts.size());
    parts.push_back(part_of_host(job, host, clock, 1 - 0.1 * static_cast<double>(parts.size() % 3)));
  }
  return parts;
}

}  // namespace tutti::diagnosis
