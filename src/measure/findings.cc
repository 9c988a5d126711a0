#include "measure/findings.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "measure/plan.hpp"

namespace tutti {
namespace {

constexpr double kShares = 0.85;   // of the sum of rates alone, below which flows share something
constexpr double kGains = 1.15;    // by which more peers must change a port's bandwidth to matter
constexpr double kNearRate = 0.9;  // of the best rate, and times the best latency, to be nearest to a NIC
constexpr double kNearLatency = 1.5;

bool shares(const Together& together) { return together.rate < kShares * together.alone; }

/// What pairs alone say of a port.
struct PairRates {
  double sum = 0;  // no more than this can ever be seen
  double best = 0;
};

PairRates rates_of(const PairTable& pairs, int rank, bool local, bool out) {
  PairRates rates;
  for (const int peer : pairs.peers(rank, local)) {
    const double rate = out ? pairs.rate(rank, peer) : pairs.rate(peer, rank);
    rates.sum += rate;
    rates.best = std::max(rates.best, rate);
  }
  return rates;
}

MeasuredPort port_of(const std::vector<const Together*>& seen, const PairRates& pairs) {
  MeasuredPort port;
  port.rate = pairs.sum;
  double most = pairs.best;  // what one peer gets alone the port carries, whatever several get
  for (const Together* together : seen) {
    port.by_peers.push_back({static_cast<int>(together->flows.size()), together->rate});
    most = std::max(most, together->rate);
  }
  // Whether all peers together get their due decides: fewer cannot share more.
  const auto fewer = [](const Together* a, const Together* b) { return a->flows.size() < b->flows.size(); };
  port.shared = !seen.empty() && shares(**std::max_element(seen.begin(), seen.end(), fewer));
  std::sort(port.by_peers.begin(), port.by_peers.end(),
            [](const PeersRate& a, const PeersRate& b) { return a.peers < b.peers; });
  if (port.shared) port.rate = std::min(most, pairs.sum);
  return port;
}

/// Ports that were not measured are taken to be as those that were.
void fill_gaps(std::vector<MeasuredPort>& ports) {
  std::vector<double> rates;
  for (const MeasuredPort& port : ports)
    if (port.shared) rates.push_back(port.rate);
  for (MeasuredPort& port : ports)
    if (port.by_peers.empty() && !rates.empty() && median(rates) < kShares * port.rate) {
      port.rate = median(rates);
      port.shared = true;
    }
}

PeerPolicy policy_of(const PairTable& pairs, const std::vector<MeasuredPort>& out, bool local) {
  std::vector<double> gains;
  for (int rank = 0; rank < pairs.ranks(); ++rank) {
    const auto& seen = out[static_cast<std::size_t>(rank)].by_peers;
    if (seen.empty()) continue;
    gains.push_back(seen.back().rate / pairs.rate(rank, pairs.peers(rank, local).front()));
  }
  if (gains.empty()) return PeerPolicy::either;
  const double gain = median(gains);
  return gain > kGains ? PeerPolicy::many : gain < 1 / kGains ? PeerPolicy::few : PeerPolicy::either;
}

PortFindings ports_of(const Measurements& measurements, const PairTable& pairs, bool local) {
  std::map<std::pair<SharedResource, int>, std::vector<const Together*>> seen;
  for (const Together& together : measurements.together)
    if (pairs.same_host(together.flows.front().from, together.flows.front().to) == local)
      seen[{together.shared, together.subject}].push_back(&together);
  PortFindings ports;
  for (int rank = 0; rank < pairs.ranks(); ++rank) {
    ports.out.push_back(port_of(seen[{SharedResource::egress, rank}], rates_of(pairs, rank, local, true)));
    ports.in.push_back(port_of(seen[{SharedResource::ingress, rank}], rates_of(pairs, rank, local, false)));
  }
  fill_gaps(ports.out);
  fill_gaps(ports.in);
  ports.policy = policy_of(pairs, ports.out, local);
  return ports;
}

/// The ranks whose way to other hosts is the best of their host.
std::vector<int> nearest_of(const PairTable& pairs, const std::vector<int>& ranks) {
  if (pairs.hosts() < 2) return {};
  const auto rate_of = [&](int rank) { return pairs.rate(rank, pairs.peers(rank, false).front()); };
  double best_rate = 0;
  for (const int rank : ranks) best_rate = std::max(best_rate, rate_of(rank));
  // Bandwidth first: relays are for large messages.
  std::vector<int> nearest;
  for (const int rank : ranks)
    if (rate_of(rank) >= kNearRate * best_rate) nearest.push_back(rank);
  double least = std::numeric_limits<double>::infinity();
  for (const int rank : nearest) least = std::min(least, pairs.remote_latency(rank));
  std::erase_if(nearest, [&](int rank) { return pairs.remote_latency(rank) > kNearLatency * least; });
  return nearest;
}

std::vector<HostFinding> hosts_of(const Measurements& measurements, const PairTable& pairs) {
  std::vector<HostFinding> hosts(static_cast<std::size_t>(pairs.hosts()));
  for (int rank = 0; rank < pairs.ranks(); ++rank)
    hosts[static_cast<std::size_t>(pairs.host(rank))].ranks.push_back(rank);
  for (HostFinding& host : hosts) host.nearest = nearest_of(pairs, host.ranks);
  for (const Together& together : measurements.together) {
    const bool of_host = together.shared == SharedResource::host_egress ||
                         together.shared == SharedResource::host_ingress ||
                         together.shared == SharedResource::host_memory;
    if (!of_host || !shares(together)) continue;
    double rate = together.rate;
    for (const RankFlow& flow : together.flows) rate = std::max(rate, pairs.rate(flow.from, flow.to));
    HostFinding& host = hosts[static_cast<std::size_t>(together.subject)];
    (together.shared == SharedResource::host_egress    ? host.out
     : together.shared == SharedResource::host_ingress ? host.in
                                                       : host.memory) = rate;
  }
  return hosts;
}

/// The rate that flows reach if nothing but pairs, ports and NICs holds them up, each lasting as long as it would
/// alone.
double expected_rate(const Together& together, const Findings& findings) {
  std::map<int, double> out, in, host_out, host_in;
  const PairTable& pairs = findings.pairs;
  for (const RankFlow& flow : together.flows) {
    const double rate = pairs.rate(flow.from, flow.to);
    out[flow.from] += rate;
    in[flow.to] += rate;
    host_out[pairs.host(flow.from)] += rate;
    host_in[pairs.host(flow.to)] += rate;
  }
  double longest = 1;  // times what a flow takes alone
  const auto hold_up = [&](const std::map<int, double>& loads, const auto& capacity_of) {
    for (const auto& [subject, load] : loads)
      if (const double capacity = capacity_of(static_cast<std::size_t>(subject)); capacity > 0)
        longest = std::max(longest, load / capacity);
  };
  hold_up(out, [&](std::size_t rank) { return findings.remote.out[rank].rate; });
  hold_up(in, [&](std::size_t rank) { return findings.remote.in[rank].rate; });
  hold_up(host_out, [&](std::size_t host) { return findings.hosts[host].out; });
  hold_up(host_in, [&](std::size_t host) { return findings.hosts[host].in; });
  return together.alone / longest;
}

std::vector<Trunk> shared_trunks(const Measurements& measurements, const Findings& findings) {
  std::vector<Trunk> trunks;
  const auto all = trunks_of(findings.pairs, findings.islands);
  for (const Together& together : measurements.together) {
    if (together.shared != SharedResource::trunk || together.rate >= kShares * expected_rate(together, findings))
      continue;
    const auto [from, to] = all[static_cast<std::size_t>(together.subject)];
    trunks.push_back({findings.islands[static_cast<std::size_t>(from)], findings.islands[static_cast<std::size_t>(to)],
                      together.rate});
  }
  return trunks;
}

void level_ports(std::vector<MeasuredPort>& ports) {
  std::vector<double> rates;
  for (const MeasuredPort& port : ports) rates.push_back(port.rate);
  rates = levelled(rates);
  for (std::size_t i = 0; i < ports.size(); ++i) ports[i].rate = rates[i];
}

}  // namespace

std::string_view name_of(PeerPolicy policy) {
  switch (policy) {
    case PeerPolicy::either:
      return "either";
    case PeerPolicy::few:
      return "uc-min";
    case PeerPolicy::many:
      return "uc-max";
  }
  return "?";
}

Findings conclude(const Measurements& measurements) {
  Findings findings{PairTable(measurements), {}, {}, {}, {}, {}};
  findings.islands = islands_of(findings.pairs);
  findings.local = ports_of(measurements, findings.pairs, true);
  findings.remote = ports_of(measurements, findings.pairs, false);
  findings.hosts = hosts_of(measurements, findings.pairs);
  findings.trunks = shared_trunks(measurements, findings);
  findings.pairs.level();
  for (PortFindings* ports : {&findings.local, &findings.remote}) {
    level_ports(ports->out);
    level_ports(ports->in);
  }
  return findings;
}

}  // namespace tutti
