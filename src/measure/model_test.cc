#include "measure/model.hpp"

#include <gtest/gtest.h>

#include "measure/measure_test_kit.hpp"
#include "topology/formats/format_json.hpp"
#include "topology/routes.hpp"

namespace tutti {
namespace {

/// The least capacity on the way from rank to rank, and the sum of latencies.
double way_rate(const Topology& topology, int from, int to) {
  Routes routes(topology);
  double least = 1e300;
  for (const int link : routes.links(from, to)) least = std::min(least, topology.link(link).capacity.value());
  return least;
}
double way_latency(const Topology& topology, int from, int to) {
  Routes routes(topology);
  double sum = 0;
  for (const int link : routes.links(from, to)) sum += topology.link(link).latency.value();
  return sum;
}

void expect_pairs(const Topology& topology, const PaperMachine& machine) {
  ASSERT_TRUE(validate(topology)) << validate(topology).error().message;
  for (int from = 0; from < topology.ranks(); ++from)
    for (int to = 0; to < topology.ranks(); ++to) {
      if (from == to) continue;
      EXPECT_NEAR(way_rate(topology, from, to) / machine.rate(from, to), 1, 0.1) << from << " to " << to;
      EXPECT_NEAR(way_latency(topology, from, to) / machine.latency(from, to), 1, 0.3) << from << " to " << to;
    }
}

/// The sum of capacities with which a rank can send, or receive.
double out_of(const Topology& topology, int rank) {
  double sum = 0;
  for (const int link : topology.out_links(topology.gpu(rank))) sum += topology.link(link).capacity.value();
  return sum;
}
double into(const Topology& topology, int rank) {
  double sum = 0;
  for (const int link : topology.in_links(topology.gpu(rank))) sum += topology.link(link).capacity.value();
  return sum;
}

int count_of(const Topology& topology, VertexKind kind) {
  return static_cast<int>(std::count_if(topology.vertices().begin(), topology.vertices().end(),
                                        [&](const Vertex& vertex) { return vertex.kind == kind; }));
}

/// Two islands of four, interleaved, one pair of the first slow; every rank's port sends 25 MB/s at most.
PaperMachine uneven() {
  PaperMachine machine{{0, 1, 2, 3, 4, 5, 6, 7}, [](int from, int to) {
                         if (std::minmax(from, to) == std::minmax(0, 2)) return 1 * kMB;
                         return from % 2 == to % 2 ? 12 * kMB : 2 * kMB;
                       }};
  machine.limit = [rate = machine.rate](const Together& together) {
    return port_limit(together, rate, 25 * kMB, 1e300);
  };
  return machine;
}

TEST(Model, TellsTwoIslandsWithASlowPairBehindPorts) {
  const PaperMachine machine = uneven();
  const Findings findings = conclude(machine.measure());
  EXPECT_EQ(findings.islands.size(), 2u);
  EXPECT_TRUE(findings.trunks.empty());
  EXPECT_EQ(findings.remote.policy, PeerPolicy::many);
  const Topology topology = topology_of(findings, "uneven");
  expect_pairs(topology, machine);
  for (int rank = 0; rank < 8; ++rank) EXPECT_NEAR(out_of(topology, rank), 25 * kMB, 2 * kMB) << rank;
  // Nothing was seen to be shared on the way in: all that peers can send.
  EXPECT_NEAR(into(topology, 1), (3 * 12 + 4 * 2) * kMB, 4 * kMB);
}

TEST(Model, IsASwitchWhereOnlyPortsHoldRanksUp) {
  PaperMachine machine{{0, 1, 2, 3}, [](int, int) { return 10 * kMB; }};
  machine.limit = [rate = machine.rate](const Together& together) {
    return port_limit(together, rate, 10 * kMB, 10 * kMB);
  };
  const Findings findings = conclude(machine.measure());
  EXPECT_EQ(findings.remote.policy, PeerPolicy::either);
  const Topology topology = topology_of(findings, "even");
  expect_pairs(topology, machine);
  EXPECT_EQ(topology.vertex_count(), 5);
  EXPECT_EQ(topology.link_count(), 8);
}

TEST(Model, HasOneNicForRanksThatShareIt) {
  // Hosts of two ranks; rank 1 of each is farther from the NIC, which carries 10 MB/s each way.
  PaperMachine machine{{0, 0, 1, 1, 2, 2}, [](int from, int to) {
                         return from / 2 == to / 2 ? 1000 * kMB : from % 2 + to % 2 > 0 ? 5 * kMB : 10 * kMB;
                       }};
  machine.limit = [rate = machine.rate](const Together& together) {
    if (together.shared == SharedResource::host_egress || together.shared == SharedResource::host_ingress)
      return 10 * kMB;
    return port_limit(together, rate, 10 * kMB, 10 * kMB);
  };
  const Findings findings = conclude(machine.measure());
  for (int host = 0; host < 3; ++host) {
    const HostFinding& found = findings.hosts[static_cast<std::size_t>(host)];
    EXPECT_NEAR(found.out, 10 * kMB, 1 * kMB);
    EXPECT_EQ(found.nearest, std::vector<int>{2 * host});
  }
  const Topology topology = topology_of(findings, "hosts");
  ASSERT_TRUE(validate(topology)) << validate(topology).error().message;
  EXPECT_GE(count_of(topology, VertexKind::nic), 6);
  EXPECT_NEAR(way_rate(topology, 0, 2), 10 * kMB, 1 * kMB);
  EXPECT_NEAR(way_rate(topology, 0, 1), 1000 * kMB, 50 * kMB);
  // The two ranks of a host leave it over one link.
  Routes routes(topology);
  std::set<int> shared;
  for (const int a : routes.links(0, 2))
    for (const int b : routes.links(1, 4))
      if (a == b) shared.insert(a);
  ASSERT_FALSE(shared.empty());
  EXPECT_NEAR(topology.link(*shared.begin()).capacity.value(), 10 * kMB, 1 * kMB);
}

TEST(Model, HasANicForEachRankWhereTheyDoNotShareOne) {
  PaperMachine machine{{0, 0, 1, 1}, [](int from, int to) { return from / 2 == to / 2 ? 1000 * kMB : 10 * kMB; }};
  machine.limit = [rate = machine.rate](const Together& together) {
    return port_limit(together, rate, 2000 * kMB, 10 * kMB);
  };
  const Topology topology = topology_of(conclude(machine.measure()), "rails");
  expect_pairs(topology, machine);
  // Into each rank 10 MB/s from the network, whoever sends, and 1,000 from its neighbour.
  EXPECT_NEAR(into(topology, 0), 1010 * kMB, 25 * kMB);
}

TEST(Model, JoinsIslandsByTheTrunkTheyShare) {
  PaperMachine machine{{0, 1, 2, 3, 4, 5}, [](int from, int to) { return from / 3 == to / 3 ? 50 * kMB : 10 * kMB; }};
  machine.limit = [](const Together& together) { return together.shared == SharedResource::trunk ? 20 * kMB : 1e300; };
  const Findings findings = conclude(machine.measure());
  ASSERT_EQ(findings.trunks.size(), 2u);
  const Topology topology = topology_of(findings, "trunk");
  expect_pairs(topology, machine);
  Routes routes(topology);
  const auto first = routes.links(0, 3), second = routes.links(1, 5);
  const auto common = std::find_first_of(first.begin(), first.end(), second.begin(), second.end());
  ASSERT_NE(common, first.end());
  EXPECT_NEAR(topology.link(*common).capacity.value(), 20 * kMB, 1 * kMB);
}

TEST(Model, HasOneMemoryForTheRanksOfAHostThatShareIt) {
  PaperMachine machine{{0, 0, 0, 0}, [](int, int) { return 4000 * kMB; }};
  machine.limit = [](const Together& together) {
    return together.shared == SharedResource::host_memory ? 6000 * kMB : 4000 * kMB;
  };
  const Topology topology = topology_of(conclude(machine.measure()), "crowded");
  expect_pairs(topology, machine);
  Routes routes(topology);
  const auto first = routes.links(0, 1), second = routes.links(2, 3);
  const auto common = std::find_first_of(first.begin(), first.end(), second.begin(), second.end());
  ASSERT_NE(common, first.end());
  EXPECT_NEAR(topology.link(*common).capacity.value(), 6000 * kMB, 150 * kMB);
}

TEST(Model, AdvisesFewPeersWhereEachCostsBandwidth) {
  PaperMachine machine{{0, 1, 2, 3, 4}, [](int, int) { return 10 * kMB; }};
  machine.limit = [](const Together& together) {
    return 10 * kMB / std::sqrt(static_cast<double>(together.flows.size()));
  };
  EXPECT_EQ(conclude(machine.measure()).remote.policy, PeerPolicy::few);
}

TEST(Model, IsReadBackFromItsFile) {
  const Topology topology = topology_of(conclude(uneven().measure()), "uneven");
  const auto read = topology_from_json(topology_to_json(topology));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, topology);
}

TEST(Model, IsValidForRandomMachines) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    PaperMachine machine;
    const int ranks = 2 + static_cast<int>(random() % 9), hosts = 1 + static_cast<int>(random() % 4);
    for (int rank = 0; rank < ranks; ++rank) machine.host_of.push_back(rank * std::min(hosts, ranks) / ranks);
    std::map<std::pair<int, int>, double> rates;
    for (int a = 0; a < ranks; ++a)
      for (int b = 0; b < ranks; ++b) rates[{a, b}] = (1 + static_cast<double>(random() % 4) * 10) * kMB;
    machine.rate = [&](int from, int to) { return rates[{from, to}]; };
    machine.limit = [&](const Together&) { return (5 + static_cast<double>(random() % 40)) * kMB; };
    const Measurements measurements = machine.measure(seed);
    const Topology topology = topology_of(conclude(measurements), "random");
    const Status valid = validate(topology);
    ASSERT_TRUE(valid) << "seed " << seed << ": " << valid.error().message;
    Routes routes(topology);
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to) {
        if (from == to) continue;
        EXPECT_GT(routes.count(from, to), 0) << "seed " << seed;
      }
  }
}

}  // namespace
}  // namespace tutti
