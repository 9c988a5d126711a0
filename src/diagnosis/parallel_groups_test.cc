#include "diagnosis/parallel_groups.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "diagnosis/diagnose.hpp"

namespace tutti::diagnosis {
namespace {

constexpr int kPerHost = 8;

/// A training job: how its ranks are divided, and how it trains.
struct Layout {
  int tensor = 1, pipeline = 1, expert = 1, data = 1;
  int layers = 32, micro_batches = 8;
  bool sharded = false;   // parameters and optimizer: gathered and scattered in each layer
  bool sequence = false;  // tensor groups gather and scatter instead of reducing

  int ranks() const { return tensor * pipeline * data; }
};

class LayoutJob {
 public:
  LayoutJob(const Layout& layout, std::uint64_t seed) : layout_(layout), random_(seed) {
    std::vector<int> order(static_cast<std::size_t>(layout.ranks()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    // Processes stay on their hosts, in groups of tensor ranks; their numbers are mixed.
    process_of_ = order;
    telemetry.processes.resize(order.size());
    for (std::size_t place = 0; place < order.size(); ++place) {
      ProcessFacts& process = telemetry.processes[static_cast<std::size_t>(order[place])];
      process.rank = order[place];
      process.host = "node" + std::to_string(place / kPerHost);
    }
    add_groups();
    std::shuffle(telemetry.communicators.begin(), telemetry.communicators.end(), random_);
    for (const CommunicatorFacts& each : telemetry.communicators) roles.push_back(role_named(each.name));
  }

  Telemetry telemetry;
  std::vector<ParallelRole> roles;  // as they are

 private:
  static ParallelRole role_named(const std::string& name) {
    if (name == "tensor") return ParallelRole::tensor;
    if (name == "pipeline") return ParallelRole::pipeline;
    if (name == "expert") return ParallelRole::expert;
    return name == "data" ? ParallelRole::data : ParallelRole::unknown;
  }

  int place(int data, int pipeline, int tensor) const {
    return (pipeline * layout_.data + data) * layout_.tensor + tensor;
  }
  /// How much there is of something, give or take a fifth.
  double about(double value) { return value * std::uniform_real_distribution<double>(0.8, 1.2)(random_); }

  void add(const char* name, const std::vector<int>& places, std::vector<TrafficFacts> traffic) {
    if (places.size() < 2) return;
    CommunicatorFacts communicator;
    communicator.name = name;
    communicator.size = static_cast<int>(places.size());
    communicator.traffic = std::move(traffic);
    for (std::size_t i = 0; i < places.size(); ++i) {
      MemberFacts member;
      member.rank = static_cast<int>(i);
      member.process = process_of_[static_cast<std::size_t>(places[i])];
      communicator.members.push_back(member);
    }
    telemetry.communicators.push_back(communicator);
  }

  TrafficFacts calls(Collective collective, double count, double bytes_of_each) {
    const auto calls = static_cast<std::uint64_t>(std::max(1.0, count));
    return {collective, calls, static_cast<std::uint64_t>(static_cast<double>(calls) * about(bytes_of_each))};
  }

  std::vector<TrafficFacts> tensor_traffic(double steps) {
    const double count = steps * 4 * layout_.layers / layout_.pipeline * layout_.micro_batches;
    if (!layout_.sequence) return {calls(Collective::all_reduce, count, 3.2e7)};
    return {calls(Collective::all_gather, count, 3.2e7), calls(Collective::reduce_scatter, count, 3.2e7)};
  }

  std::vector<TrafficFacts> data_traffic(double steps) {
    const double layers = static_cast<double>(layout_.layers) / layout_.pipeline;
    if (layout_.sharded)
      return {calls(Collective::all_gather, steps * 2 * layers, 2e8),
              calls(Collective::reduce_scatter, steps * layers, 2e8)};
    return {calls(Collective::all_reduce, steps * std::uniform_int_distribution<int>(1, 16)(random_), 1e8)};
  }

  void add_groups() {
    constexpr double kSteps = 50;
    const double micro = kSteps * layout_.micro_batches;
    std::vector<int> everybody(static_cast<std::size_t>(layout_.ranks()));
    std::iota(everybody.begin(), everybody.end(), 0);
    add("world", everybody, {calls(Collective::barrier, 3, 0), calls(Collective::all_reduce, 2 * kSteps, 8)});
    for (int p = 0; p < layout_.pipeline; ++p)
      for (int d = 0; d < layout_.data; ++d) {
        std::vector<int> group;
        for (int t = 0; t < layout_.tensor; ++t) group.push_back(place(d, p, t));
        add("tensor", group, tensor_traffic(kSteps));
      }
    for (int d = 0; d < layout_.data; ++d)
      for (int t = 0; t < layout_.tensor; ++t) {
        std::vector<int> group;
        for (int p = 0; p < layout_.pipeline; ++p) group.push_back(place(d, p, t));
        add("pipeline", group, {calls(Collective::point_to_point, 2 * micro, 1.6e7)});
      }
    for (int p = 0; p < layout_.pipeline; ++p)
      for (int t = 0; t < layout_.tensor; ++t) {
        std::vector<int> group;
        for (int d = 0; d < layout_.data; ++d) group.push_back(place(d, p, t));
        add("data", group, data_traffic(kSteps));
        for (std::size_t first = 0; layout_.expert > 1 && first < group.size();
             first += static_cast<std::size_t>(layout_.expert))
          add("expert",
              {group.begin() + static_cast<std::ptrdiff_t>(first),
               group.begin() + static_cast<std::ptrdiff_t>(first) + layout_.expert},
              {calls(Collective::all_to_all, micro * 4 * layout_.layers / layout_.pipeline, 6e6)});
      }
  }

  Layout layout_;
  std::mt19937_64 random_;
  std::vector<int> process_of_;  // by place: the numbers that ranks were given
};

/// A layout of 64 to 1,024 ranks.
Layout draw_layout(std::mt19937_64& random) {
  const auto one_of = [&](std::vector<int> values) {
    return values[std::uniform_int_distribution<std::size_t>(0, values.size() - 1)(random)];
  };
  Layout layout;
  const int ranks = one_of({64, 128, 256, 512, 1024});
  layout.tensor = one_of({1, 2, 4, 8});
  layout.pipeline = one_of({1, 2, 4, 8});
  layout.data = ranks / layout.tensor / layout.pipeline;
  layout.expert = layout.data % 4 == 0 ? one_of({1, 2, 4}) : 1;
  layout.layers = one_of({24, 32, 64, 96});
  layout.micro_batches = one_of({1, 4, 8, 32});
  layout.sharded = one_of({0, 1}) == 1;
  layout.sequence = one_of({0, 1}) == 1;
  return layout;
}

/// Groups of generated layouts, and how many of them were taken for what they are, or for something else.
struct Recognition {
  int groups = 0, right = 0, wrong = 0;
};

Recognition recognise(int layouts, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Recognition sum;
  for (int i = 0; i < layouts; ++i) {
    const Layout layout = draw_layout(random);
    const LayoutJob job(layout, seed + static_cast<std::uint64_t>(i));
    const auto found = recognise_groups(job.telemetry);
    for (std::size_t k = 0; k < found.size(); ++k) {
      sum.groups += job.roles[k] == ParallelRole::unknown ? 0 : 1;  // the world is no group of the model
      sum.right += job.roles[k] != ParallelRole::unknown && found[k] == job.roles[k] ? 1 : 0;
      sum.wrong += found[k] != ParallelRole::unknown && found[k] != job.roles[k] ? 1 : 0;
    }
  }
  return sum;
}

TEST(ParallelGroups, are_recognised_by_what_is_called_in_them) {
  for (const int layouts : {20, 500}) {
    const Recognition sum = recognise(layouts, 2026);
    EXPECT_GE(sum.right, 0.95 * sum.groups) << layouts << " layouts, " << sum.groups << " groups";
    EXPECT_LE(sum.wrong, 0.01 * sum.groups) << layouts << " layouts: what is not sure is to be unknown";
    RecordProperty("layouts" + std::to_string(layouts), std::to_string(sum.groups) + " groups, " +
                                                            std::to_string(sum.right) + " right, " +
                                                            std::to_string(sum.wrong) + " wrong");
  }
}

TEST(ParallelGroups, are_unknown_where_nothing_tells_them_apart) {
  // Two reductions, as often, both across hosts.
  Telemetry telemetry;
  telemetry.processes.resize(4);
  for (int i = 0; i < 4; ++i) telemetry.processes[static_cast<std::size_t>(i)].host = std::to_string(i);
  for (const std::vector<int>& processes : std::vector<std::vector<int>>{{0, 1}, {2, 3}, {0, 2}, {1, 3}}) {
    CommunicatorFacts communicator;
    communicator.size = 2;
    communicator.traffic = {{Collective::all_reduce, 100, 100'000'000}};
    for (int i = 0; i < 2; ++i) {
      MemberFacts member;
      member.rank = i;
      member.process = processes[static_cast<std::size_t>(i)];
      communicator.members.push_back(member);
    }
    telemetry.communicators.push_back(communicator);
  }
  for (const ParallelRole role : recognise_groups(telemetry)) EXPECT_EQ(role, ParallelRole::unknown);
}

TEST(ParallelGroups, let_a_verdict_name_the_stage) {
  Layout layout;
  layout.tensor = 2;
  layout.pipeline = 4;
  layout.data = 8;
  LayoutJob job(layout, 5);
  for (CommunicatorFacts& communicator : job.telemetry.communicators) {
    if (communicator.name != "pipeline") continue;
    job.telemetry.processes[static_cast<std::size_t>(communicator.members[2].process)].state = ProcessState::killed;
    break;
  }
  const auto verdicts = diagnose(job.telemetry);
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_TRUE(verdicts[0].suspects[0].position.starts_with("pipeline stage 2 of 4, tensor part "))
      << verdicts[0].suspects[0].position;
}

}  // namespace
}  // namespace tutti::diagnosis
