#include "bound/network.hpp"

#include <fmt/format.h>

#include <numeric>
#include <queue>

namespace tutti {
namespace {

constexpr std::int64_t kMostInAll = std::int64_t{1} << 61;

/// The largest fraction all values are multiples of, and the multiples.
Rational scale(const std::vector<Rational>& values, std::vector<std::int64_t>& multiples) {
  std::int64_t numerators = 0;
  Rational denominators = 1;  // as a fraction, so that overflow is seen
  for (const Rational& value : values) {
    if (value.is_zero()) continue;
    numerators = std::gcd(numerators, value.numerator());
    denominators = denominators * (value.denominator() / std::gcd(denominators.numerator(), value.denominator()));
  }
  const Rational unit(std::max<std::int64_t>(numerators, 1), denominators.numerator());
  std::int64_t sum = 0;
  for (const Rational& value : values) {
    const std::int64_t multiple = (value / unit).numerator();
    if (multiple > kMostInAll - sum) throw RationalOverflow("the sum of all is more than 2^61 times their common unit");
    sum += multiple;
    multiples.push_back(multiple);
  }
  return unit;
}

}  // namespace

Result<Network> Network::of(const Topology& topology) {
  if (Status status = validate(topology); !status) return tl::unexpected(status.error());
  Network network;
  network.topology = &topology;
  std::vector<Rational> capacities, latencies;
  for (const Link& link : topology.links()) {
    capacities.push_back(link.capacity);
    latencies.push_back(link.latency);
  }
  try {
    network.capacity_unit = scale(capacities, network.capacity);
    network.latency_unit = scale(latencies, network.latency);
  } catch (const RationalOverflow& error) {
    return fail(ErrorCode::unsupported,
                fmt::format("the figures of this topology have too little in common ({}); round them", error.what()));
  }
  return network;
}

std::vector<std::int64_t> Network::distances(const std::vector<int>& ends, bool against,
                                             const std::vector<std::int64_t>& lengths) const {
  std::vector<std::int64_t> distance(topology->vertices().size(), kUnreachable);
  using Entry = std::pair<std::int64_t, int>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  for (const int end : ends) {
    distance[static_cast<std::size_t>(end)] = 0;
    open.push({0, end});
  }
  while (!open.empty()) {
    const auto [reached, vertex] = open.top();
    open.pop();
    if (distance[static_cast<std::size_t>(vertex)] < reached) continue;
    for (const int link : against ? topology->in_links(vertex) : topology->out_links(vertex)) {
      const int next = against ? topology->link(link).from : topology->link(link).to;
      const std::int64_t candidate = reached + lengths[static_cast<std::size_t>(link)];
      if (distance[static_cast<std::size_t>(next)] <= candidate) continue;
      distance[static_cast<std::size_t>(next)] = candidate;
      open.push({candidate, next});
    }
  }
  return distance;
}

std::int64_t Network::capacity_out_of(const Marks& inside) const {
  std::int64_t sum = 0;
  for (int i = 0; i < topology->link_count(); ++i) {
    const Link& link = topology->link(i);
    if (inside[static_cast<std::size_t>(link.from)] && !inside[static_cast<std::size_t>(link.to)])
      sum += capacity[static_cast<std::size_t>(i)];
  }
  return sum;
}

}  // namespace tutti
