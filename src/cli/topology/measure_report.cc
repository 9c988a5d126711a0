#include "cli/topology/measure_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/support/parse.hpp"
#include "cli/support/table.hpp"

namespace tutti::cli {
namespace {

constexpr std::size_t kMostRows = 128;  // of pairs; the JSON has them all

std::string rate_text(double rate) { return fmt::format("{:.4g}", rate / 1e6); }

std::string shared_text(double rate) { return rate > 0 ? rate_text(rate) + " MB/s" : "not shared"; }

std::string lines_of(const Table& table) {
  std::string text;
  for (const std::string& line : table.lines("", false)) text += line + "\n";
  return text;
}

std::string pairs_table(const Measurements& measurements) {
  Table table({{"from", true},
               {"to", true},
               {"latency us", true},
               {"MB/s", true},
               {"+-%", true},
               {"fit error %", true},
               {"largest", true},
               {"chunk", true},
               {"one by one us", true},
               {"back to back us", true}});
  std::size_t rows = 0;
  for (const PairTimes& pair : measurements.pairs) {
    if (++rows > kMostRows) break;
    const LineFit fit = fit_line(pair.times);
    const bool chunks = pair.chunk_bytes > 0;
    table.add({std::to_string(pair.from), std::to_string(pair.to), fmt::format("{:.1f}", fit.latency * 1e6),
               rate_text(fit.rate), fmt::format("{:.1f}", 100 * fit.rate_error), fmt::format("{:.1f}", 100 * fit.error),
               show_bytes(pair.times.back().bytes), chunks ? show_bytes(pair.chunk_bytes) : "",
               chunks ? fmt::format("{:.1f}", pair.one_by_one * 1e6) : "",
               chunks ? fmt::format("{:.1f}", pair.back_to_back * 1e6) : ""});
  }
  std::string text = lines_of(table);
  if (measurements.pairs.size() > kMostRows)
    text += fmt::format("and {} pairs more, in the measurements (--json)\n", measurements.pairs.size() - kMostRows);
  return text;
}

std::string by_peers(const MeasuredPort& port) {
  std::vector<std::string> parts;
  for (const PeersRate& each : port.by_peers) parts.push_back(fmt::format("{}: {}", each.peers, rate_text(each.rate)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string ports_table(const Findings& findings, const PortFindings& ports, bool local) {
  Table table(
      {{"rank", true}, {"best pair", true}, {"out MB/s by peers"}, {"out", true}, {"in MB/s by peers"}, {"in", true}});
  bool any = false;
  for (int rank = 0; rank < findings.pairs.ranks(); ++rank) {
    const MeasuredPort& out = ports.out[static_cast<std::size_t>(rank)];
    const MeasuredPort& in = ports.in[static_cast<std::size_t>(rank)];
    if (out.by_peers.empty() && in.by_peers.empty()) continue;
    any = true;
    table.add({std::to_string(rank), rate_text(findings.pairs.rate(rank, findings.pairs.peers(rank, local).front())),
               by_peers(out), out.shared ? rate_text(out.rate) : "not shared", by_peers(in),
               in.shared ? rate_text(in.rate) : "not shared"});
  }
  if (!any) return {};
  return fmt::format("\nports towards ranks of {}; peers at once: {}\n{}", local ? "the same host" : "other hosts",
                     name_of(ports.policy), lines_of(table));
}

std::string hosts_text(const Findings& findings) {
  std::string text;
  for (std::size_t host = 0; host < findings.hosts.size(); ++host) {
    const HostFinding& found = findings.hosts[host];
    if (found.ranks.size() < 2) continue;
    if (found.memory > 0)
      text += fmt::format("host {}: its ranks together move {} MB/s, less than the sum of pairs\n", host,
                          rate_text(found.memory));
    if (findings.pairs.hosts() < 2) continue;
    if (found.out > 0 || found.in > 0)
      text += fmt::format("host {}: ranks share a NIC: out {}, in {}\n", host, shared_text(found.out),
                          shared_text(found.in));
    text += fmt::format("host {}: nearest to the network: rank {}\n", host, fmt::join(found.nearest, ", "));
  }
  return text;
}

std::string islands_text(const Findings& findings) {
  std::string text;
  if (findings.islands.size() > 1)
    for (std::size_t i = 0; i < findings.islands.size(); ++i)
      text += fmt::format("island {}: ranks {}\n", i, fmt::join(findings.islands[i], ", "));
  for (const Trunk& trunk : findings.trunks)
    text += fmt::format("from ranks {} to ranks {}: one path of {} MB/s\n", fmt::join(trunk.from, ", "),
                        fmt::join(trunk.to, ", "), rate_text(trunk.rate));
  return text;
}

}  // namespace

std::string report_of(const Measurements& measurements, const Findings& findings) {
  std::string text = pairs_table(measurements);
  if (measurements.sampled)
    text += fmt::format(
        "time was up after {} of {} ordered pairs; the others are taken to be as the median of their "
        "kind\n",
        measurements.pairs.size(), measurements.ranks() * (measurements.ranks() - 1));
  text += ports_table(findings, findings.local, true);
  text += ports_table(findings, findings.remote, false);
  const std::string shared = hosts_text(findings) + islands_text(findings);
  return shared.empty() ? text : text + "\n" + shared;
}

}  // namespace tutti::cli
