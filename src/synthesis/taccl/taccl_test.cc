#include "synthesis/taccl/taccl.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "synthesis/taccl/taccl_test_kit.hpp"
#include "topology/routes.hpp"

namespace tutti {

ShippedCase shipped_case(const std::string& topology, const std::string& sketch, Collective collective) {
  const auto cases = shipped_cases(TUTTI_EXAMPLES);
  for (const ShippedCase& one : cases.value())
    if (one.topology == topology && one.sketch == sketch && one.collective == collective) return one;
  ADD_FAILURE() << "no example " << topology << " " << sketch;
  return {};
}

namespace {

constexpr double kMicro = 1e6;

constexpr double kSeconds = 4;  // to search

TacclResult synthesize(const ShippedCase& shipped, TacclOptions options = {.bytes = 0, .seconds = kSeconds}) {
  auto result = taccl_synthesize(shipped.profile, shipped.restrictions, shipped.collective, options);
  if (!result) ADD_FAILURE() << shipped.name() << ": " << result.error().message;
  return result.value_or(TacclResult());
}

/// TACCL's model, from the files and nothing else: replays a plan transfer by transfer.
class Replay {
 public:
  Replay(const ShippedCase& shipped, double chunk, bool reduction)
      : profile_(shipped.profile), sketch_(shipped.restrictions), chunk_(chunk), reduction_(reduction) {}

  /// The time it takes; failures are told.
  double run(const TacclPlan& plan) {
    for (std::size_t i = 0; i < plan.schedule.transfers.size(); ++i) look_at(plan, i);
    for (const auto& [what, flights] : carried_)
      for (std::size_t i = 1; i < flights.size(); ++i)
        EXPECT_GE(flights[i].first, flights[i - 1].second - kLittle) << what << " carries two chunks at a time";
    return last_;
  }

 private:
  static constexpr double kLittle = 1e-15;

  int node(int rank) const { return rank / profile_.gpus; }

  /// Seconds of `count` chunks that go together.
  double cost(int from, int to, int count) const {
    if (reduction_) std::swap(from, to);
    if (node(from) == node(to)) {
      const double bandwidth =
          profile_.bandwidth[std::size_t(from % profile_.gpus)][std::size_t(to % profile_.gpus)].value();
      return profile_.alpha.value() + count * chunk_ / bandwidth;
    }
    using Pattern = InternodeSketch::Pattern;
    int connections = 0;
    for (const auto& [sender, receivers] : sketch_.internode->connections) connections += int(receivers.size());
    if (sketch_.internode->pattern == Pattern::direct_map) connections = profile_.gpus;
    if (sketch_.internode->pattern == Pattern::fully_connected) connections = profile_.gpus * profile_.gpus;
    const double share = profile_.remote_bandwidth.value() * profile_.nics / connections;
    return profile_.remote_alpha.value() + count * chunk_ / share;
  }

  void look_at(const TacclPlan& plan, std::size_t i) {
    const Transfer& transfer = plan.schedule.transfers[i];
    const double begin = plan.begins[i], end = plan.ends[i];
    const auto there = arrived_.find({transfer.chunk, transfer.from});
    const bool starts_there = home_of(plan.schedule.shape, transfer.chunk) == transfer.from;
    EXPECT_TRUE(starts_there || there != arrived_.end()) << "transfer " << i << " sends what is not there";
    const double available = starts_there ? 0 : there->second;
    EXPECT_GE(begin, available - kLittle) << "transfer " << i << " begins before its chunk is there";
    arrived_[{transfer.chunk, transfer.to}] = end;
    last_ = std::max(last_, end);
    const int together = companions(plan, i);
    EXPECT_LE(together, 6);
    EXPECT_NEAR(end - begin, cost(transfer.from, transfer.to, together), kLittle) << "transfer " << i;
    for (const std::string& lane : lanes(transfer)) {
      auto& flights = carried_[lane];
      if (together == 1 || flights.empty() || flights.back() != std::pair(begin, end)) flights.emplace_back(begin, end);
    }
  }

  /// Chunks between the same nodes' ranks at exactly the same time.
  int companions(const TacclPlan& plan, std::size_t i) const {
    const Transfer& one = plan.schedule.transfers[i];
    if (node(one.from) == node(one.to)) return 1;
    int count = 0;
    for (std::size_t j = 0; j < plan.begins.size(); ++j) {
      const Transfer& other = plan.schedule.transfers[j];
      if (other.from == one.from && other.to == one.to && plan.begins[j] == plan.begins[i]) ++count;
    }
    return count;
  }

  std::vector<std::string> lanes(const Transfer& transfer) const {
    const std::string from = std::to_string(transfer.from), to = std::to_string(transfer.to);
    std::vector<std::string> lanes = {"link " + from + " to " + to};
    const bool remote = node(transfer.from) != node(transfer.to);
    if ((remote && sketch_.nodes > 2) || (!remote && !sketch_.switches.empty())) {
      lanes.push_back((remote ? "NIC out of " : "port out of ") + from);
      lanes.push_back((remote ? "NIC into " : "port into ") + to);
    }
    if (reduction_) lanes.push_back("sums of chunk " + std::to_string(transfer.chunk) + " in " + from);
    return lanes;
  }

  const NodeProfile& profile_;
  const Sketch& sketch_;
  double chunk_;
  bool reduction_;
  std::map<std::pair<int, int>, double> arrived_;  // by chunk and rank
  std::map<std::string, std::vector<std::pair<double, double>>> carried_;
  double last_ = 0;
};

double replayed(const ShippedCase& shipped, const TacclResult& result) {
  const double chunk = result.bytes / (result.plan.schedule.shape.ranks * result.plan.schedule.shape.chunks);
  const bool reduces_only = shipped.collective == Collective::reduce_scatter;
  double seconds = Replay(shipped, chunk, reduces_only).run(result.plan);
  if (result.reduction) seconds += Replay(shipped, chunk, true).run(*result.reduction);
  return seconds;
}

struct SmallCase {
  const char* topology;
  const char* sketch;
  double routed;  // microseconds of the all_gather, as the first stage has it
};

class TacclOnSmallCases : public testing::TestWithParam<SmallCase> {};

TEST_P(TacclOnSmallCases, TakesTheTimeThatAReplayFinds) {
  for (const Collective collective :
       {Collective::all_gather, Collective::all_to_all, Collective::reduce_scatter, Collective::all_reduce}) {
    const ShippedCase shipped = shipped_case(GetParam().topology, GetParam().sketch, collective);
    const TacclResult result = synthesize(shipped);
    SCOPED_TRACE(shipped.name());
    EXPECT_TRUE(check_schedule(result.plan.schedule));
    EXPECT_NEAR(replayed(shipped, result), result.seconds, 1e-12);
    EXPECT_LE(result.seconds, result.ordered_seconds * (1 + 1e-9));
    EXPECT_TRUE(result.routing_optimal);
    if (collective == Collective::all_gather) {
      EXPECT_NEAR(result.routed_seconds * kMicro, GetParam().routed, 1e-6);
    }
    EXPECT_EQ(result.reduction.has_value(), collective == Collective::all_reduce);
  }
}

// TACCL's figures where they are known: 856, since it rounds 107.6 down, and 916 in units of 10 ns.
INSTANTIATE_TEST_SUITE_P(Shipped, TacclOnSmallCases,
                         testing::Values(SmallCase{"topo-ndv2-1MB", "sk1-ndv2-n2", 8 * 107.6},
                                         SmallCase{"topo-ndv2-1KB", "sk2-ndv2-n2", 9.16},
                                         SmallCase{"topo-ndv2-32KB", "sk3-ndv2-n2", 31.596},
                                         SmallCase{"topo-ndv2-1KB", "sk1-ndv2-n1", 0.69},
                                         SmallCase{"topo-dgx2-1MB", "sk1-dgx2-n1", 15 * 8.3}));

TEST(Taccl, SendsOnlyWhereTheSketchedMachineHasRoutes) {
  const ShippedCase shipped = shipped_case("topo-ndv2-1MB", "sk1-ndv2-n2", Collective::all_reduce);
  const TacclResult result = synthesize(shipped);
  const Topology machine = apply_sketch(shipped.profile, shipped.restrictions)->topology;
  Routes routes(machine);
  for (const Transfer& transfer : result.plan.schedule.transfers)
    EXPECT_GT(routes.count(transfer.from, transfer.to), 0) << transfer.from << " to " << transfer.to;
  for (const Transfer& transfer : result.reduction->schedule.transfers)  // which runs backwards
    EXPECT_GT(routes.count(transfer.to, transfer.from), 0) << transfer.to << " to " << transfer.from;
}

TEST(Taccl, JoinsChunksWhereLatencyCounts) {
  // Eight chunks of 1 KB between two nodes: most of 8 * 2.7 us is latency, which six of them can share.
  const TacclResult result = synthesize(shipped_case("topo-ndv2-1KB", "sk1-ndv2-n2", Collective::all_gather));
  EXPECT_LT(result.seconds, 0.5 * result.ordered_seconds);
  EXPECT_TRUE(result.joining_optimal);
}

TEST(Taccl, TakesLongerForMoreBytesButNotMoreLatency) {
  const ShippedCase shipped = shipped_case("topo-ndv2-1MB", "sk1-ndv2-n2", Collective::all_gather);
  const TacclResult small = synthesize(shipped);
  EXPECT_EQ(small.bytes, 16.0 * (1 << 20));
  const TacclResult large = synthesize(shipped, {.bytes = 10 * small.bytes, .seconds = kSeconds});
  EXPECT_NEAR(large.routed_seconds * kMicro, 8 * (2.6 + 1050), 1e-6);
}

TEST(Taccl, EvensOutLinksWhereTheSketchAsks) {
  for (const LinkBalance balance : {LinkBalance::least_of_the_busiest, LinkBalance::most_of_the_idlest}) {
    ShippedCase shipped = shipped_case("topo-ndv2-1MB", "sk1-ndv2-n1", Collective::all_gather);
    shipped.restrictions.balance = balance;
    EXPECT_NEAR(synthesize(shipped).routed_seconds * kMicro, 3 * 23.3, 1e-6);
  }
}

TEST(Taccl, RefusesWhatItCannotDo) {
  const ShippedCase shipped = shipped_case("topo-ndv2-1MB", "sk1-ndv2-n2", Collective::all_gather);
  EXPECT_EQ(taccl_synthesize(shipped.profile, shipped.restrictions, Collective::broadcast).error().code,
            ErrorCode::unsupported);
  Sketch wrong = shipped.restrictions;
  wrong.symmetry_offsets = {{1, 16}};
  EXPECT_EQ(taccl_synthesize(shipped.profile, wrong, Collective::all_gather).error().message,
            "symmetry_offsets[0]: [1, 16] is no symmetry of this topology: a link is mapped to where none is");
}

TEST(Taccl, FitsAllOfItsExamples) {
  const auto cases = shipped_cases(TUTTI_EXAMPLES);
  ASSERT_TRUE(cases) << cases.error().message;
  EXPECT_EQ(cases->size(), (2 * 4 + 3 * 7) * 4U);
  EXPECT_FALSE(shipped_cases("/nowhere"));
}

}  // namespace
}  // namespace tutti
