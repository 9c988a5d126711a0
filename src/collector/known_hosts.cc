#include "collector/known_hosts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "diagnosis/merge/merge_telemetry.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"

namespace tutti::collector {

using diagnosis::HostTelemetry;
using diagnosis::Telemetry;

void KnownHosts::connected(const Key& key, double now) {
  KnownHost& host = hosts_[key];
  host.connected = true;
  host.heard = now;
}

void KnownHosts::disconnected(const Key& key) {
  if (const auto host = hosts_.find(key); host != hosts_.end()) host->second.connected = false;
}

Status KnownHosts::take_telemetry(const Key& key, const std::string& line, double now) {
  KnownHost& host = hosts_[key];
  auto telemetry = diagnosis::parse_telemetry(line);
  if (!telemetry) return tl::unexpected(telemetry.error());
  std::size_t bytes = line.size();
  for (const auto& [id, job] : host.jobs)
    if (id != telemetry->job) bytes += job.bytes;
  if (bytes > kMostBytes || (host.jobs.size() >= agent::kMostJobs && !host.jobs.contains(telemetry->job)))
    return fail(ErrorCode::refused,
                fmt::format("telemetry of {} bytes in {} jobs; expected at most {} bytes in {} jobs", bytes,
                            host.jobs.size() + 1, kMostBytes, agent::kMostJobs));
  host.heard = now;
  over_.erase(telemetry->job);
  KnownJob& job = host.jobs[telemetry->job];
  job.telemetry = *std::move(telemetry);
  job.bytes = line.size();
  return {};
}

Status KnownHosts::take_look(const Key& key, const agent::LookMessage& look, double now, double real) {
  KnownHost& host = hosts_[key];
  host.heard = now;
  host.looked_at = look.looked_at;
  // Until the agent has measured it: as if the message had taken no time.
  if (look.offset_known)
    host.offset = 1e-9 * static_cast<double>(look.offset);
  else if (!host.has_looked)
    host.offset = real - 1e-9 * static_cast<double>(look.sent);
  host.has_looked = true;
  std::erase_if(host.jobs, [&](const auto& each) {
    const bool is_here = std::find(look.jobs.begin(), look.jobs.end(), each.first) != look.jobs.end();
    if (!is_here) over_.insert(each.first);
    return !is_here;
  });
  return {};
}

void KnownHosts::take_alive(const Key& key, double now) { hosts_[key].heard = now; }

std::vector<Telemetry> KnownHosts::merged(double now) {
  forget(now);
  std::map<std::uint64_t, std::size_t> count;
  for (const auto& [key, host] : hosts_)
    for (const auto& [id, job] : host.jobs) ++count[id];
  std::set<std::uint64_t> left_out;
  for (const auto& [id, hosts] : count)
    if (is_joining(id, hosts, now)) left_out.insert(id);
  std::erase_if(joining_, [&](const auto& each) { return !count.contains(each.first); });
  is_joining_ = !left_out.empty();
  std::vector<HostTelemetry> parts;
  for (const auto& [key, host] : hosts_) {
    if (!host.has_looked) continue;  // on which clock its moments are is not known yet
    for (const auto& [id, job] : host.jobs)
      if (!left_out.contains(id))
        parts.push_back({&job.telemetry, std::max(host.looked_at, job.telemetry.now), host.offset, answers(host, now)});
  }
  return diagnosis::merge_telemetry(parts);
}

bool KnownHosts::is_joining(std::uint64_t job, std::size_t hosts, double now) {
  const auto [place, is_new] = joining_.try_emplace(job, JoiningJob{hosts, now, now});
  JoiningJob& known = place->second;
  if (known.hosts < hosts) known.grew = now;
  known.hosts = hosts;
  return now < known.grew + kJoin && now < known.first + kJoinAtMost;
}

void KnownHosts::forget(double now) {
  std::erase_if(hosts_, [&](const auto& each) { return !each.second.connected && now - each.second.heard > kForget; });
  // A job that ended on a host that answers has ended, if no other that answers has it still.
  std::set<std::uint64_t> going_on;
  for (const auto& [key, host] : hosts_)
    if (answers(host, now))
      for (const auto& [id, job] : host.jobs) going_on.insert(id);
  for (auto& [key, host] : hosts_)
    std::erase_if(host.jobs,
                  [&](const auto& each) { return over_.contains(each.first) && !going_on.contains(each.first); });
  std::erase_if(over_, [&](std::uint64_t id) { return !going_on.contains(id); });
}

bool KnownHosts::answers(const Key& key, double now) const {
  const auto host = hosts_.find(key);
  return host != hosts_.end() && answers(host->second, now);
}

std::vector<std::uint64_t> KnownHosts::jobs_of(const Key& key) const {
  std::vector<std::uint64_t> ids;
  if (const auto host = hosts_.find(key); host != hosts_.end())
    for (const auto& [id, job] : host->second.jobs) ids.push_back(id);
  return ids;
}

nlohmann::ordered_json KnownHosts::as_json(double now, double real) const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [key, host] : hosts_) {
    nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
    for (const auto& [id, job] : host.jobs) jobs.push_back(fmt::format("{:016x}", id));
    list.push_back({{"host", key.first},
                    {"place", fmt::format("{:016x}", key.second)},
                    {"connected", host.connected},
                    {"answers", answers(host, now)},
                    {"heard_seconds_ago", now - host.heard},
                    {"looked_seconds_ago", host.has_looked ? nlohmann::ordered_json(real - host.looked_at - host.offset)
                                                           : nlohmann::ordered_json(nullptr)},
                    {"jobs", jobs}});
  }
  return list;
}

}  // namespace tutti::collector
