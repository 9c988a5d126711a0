// Ranks, each a process, that call different operations: all are told at once, and what both sides called.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "rank_processes.hpp"

namespace tutti::integration {
namespace {

// Slow under sanitizers and beside other work; what is promised is measured, this only bounds the test.
constexpr double kPatience = 20;
constexpr double kMismatchKnown = 2.0;
constexpr int kRanks = 4;

struct Call {
  std::string collective = "all_reduce";
  std::size_t count = 0;
  std::string type = "float32";
  std::string op = "sum";
  int root = 0;

  std::vector<std::string> command() const {
    return {FAILURE_RANK, "--call",     collective, "--count", std::to_string(count), "--type",
            type,         "--operator", op,         "--root",  std::to_string(root)};
  }
  /// As an error has it.
  std::string name() const {
    std::string text = fmt::format("{}({} x {}", collective, count, type);
    if (collective != "broadcast") text += ", " + op;
    if (collective == "broadcast" || collective == "reduce") text += fmt::format(", root {}", root);
    return text + ")";
  }
};

/// How the call of one rank differs from the others'.
struct Difference {
  const char* name;
  std::string collective;
  std::function<void(Call&)> change;
};
void PrintTo(const Difference& difference, std::ostream* out) { *out << difference.name; }

struct Way {
  const char* name;
  Variables variables;
  int ranks_of_host;  // 0: all
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class Mismatch : public testing::TestWithParam<std::tuple<Way, Difference>> {
 protected:
  void start(const Call& usual, int odd_rank, const Call& odd) {
    const Way& way = std::get<0>(GetParam());
    job_ = std::make_unique<RankProcesses>(kRanks, way.variables);
    for (int rank = 0; rank < kRanks; ++rank) {
      Variables own;
      if (way.ranks_of_host > 0) own["TUTTI_HOST_ID"] = fmt::format("host{}", rank / way.ranks_of_host);
      job_->start(rank, (rank == odd_rank ? odd : usual).command(), own);
    }
    for (int rank = 0; rank < kRanks; ++rank)
      ASSERT_TRUE(job_->hear(rank, "ready", in(kPatience))) << "rank " << rank << " said: " << job_->said(rank);
  }

  void expect_told(int rank, const Call& usual, const Call& odd) {
    const auto line = job_->hear(rank, "failed", in(kPatience));
    ASSERT_TRUE(line) << "rank " << rank << " said: " << job_->said(rank);
    EXPECT_EQ(line->rfind("failed mismatch ", 0), 0U) << *line;
    EXPECT_NE(line->find(usual.name()), std::string::npos) << usual.name() << " is not in: " << *line;
    EXPECT_NE(line->find(odd.name()), std::string::npos) << odd.name() << " is not in: " << *line;
  }

  std::unique_ptr<RankProcesses> job_;
};

const Variables kQuiet{{"TUTTI_LOG", "error"}};
const Difference kDifferences[] = {
    {"Collective", "all_reduce", [](Call& call) { call.collective = "broadcast"; }},
    {"Count", "all_reduce", [](Call& call) { ++call.count; }},
    {"Type", "all_reduce", [](Call& call) { call.type = "int32"; }},
    {"Operator", "all_reduce", [](Call& call) { call.op = "max"; }},
    {"Root", "broadcast", [](Call& call) { call.root = 1; }},
};
INSTANTIATE_TEST_SUITE_P(
    Over, Mismatch,
    testing::Combine(testing::Values(Way{"SharedMemory", kQuiet, 0}, Way{"Tcp", kQuiet, 1}, Way{"TwoHosts", kQuiet, 2}),
                     testing::ValuesIn(kDifferences)),
    [](const auto& each) { return std::string(std::get<0>(each.param).name) + std::get<1>(each.param).name; });

TEST_P(Mismatch, IsToldToAllRanksNamingBothCalls) {
  const Difference& difference = std::get<1>(GetParam());
  for (const std::size_t count : {10UL, 300007UL})
    for (const int odd_rank : {0, 3}) {
      SCOPED_TRACE(fmt::format("{} elements, rank {} differs", count, odd_rank));
      Call usual;
      usual.collective = difference.collective;
      usual.count = count;
      Call odd = usual;
      difference.change(odd);
      start(usual, odd_rank, odd);
      const auto called = Clock::now();
      for (int rank = 0; rank < kRanks; ++rank) expect_told(rank, usual, odd);
      EXPECT_LT(seconds_since(called), kMismatchKnown);
    }
}

/// Its next call is the others' first: they must not take it for theirs, though all else about it is the same.
TEST(RankThatIsACallAhead, IsToldToAllRanks) {
  for (const std::size_t count : {10UL, 300007UL}) {
    SCOPED_TRACE(fmt::format("{} elements", count));
    Call call;
    call.collective = "reduce_scatter";  // one phase: nothing after it would notice
    call.count = count;
    RankProcesses job(kRanks, kQuiet);
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<std::string> command = call.command();
      if (rank == kRanks - 1) command.emplace_back("--ahead");
      job.start(rank, command, {});
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      const auto line = job.hear(rank, "failed", in(kPatience));
      ASSERT_TRUE(line) << "rank " << rank << " said: " << job.said(rank);
      EXPECT_NE(line->find(call.name()), std::string::npos) << *line;
      EXPECT_NE(line->find("broadcast(1 x uint8, root 3)"), std::string::npos) << *line;
    }
  }
}

/// Sends and receives count for themselves: what is named must be what the two called, not a collective.
TEST(SendAndReceive, ThatDifferAreNamedBoth) {
  struct Case {
    const char* name;
    std::size_t sent;
    std::size_t expected;
    const char* type;
  };
  for (const int ranks_of_host : {0, 1})
    for (const Case& each : {Case{"count", 8, 4, "float32"}, Case{"type", 4, 4, "int32"},
                             Case{"large count", 300008, 300004, "float32"}}) {
      SCOPED_TRACE(fmt::format("{}, {}", ranks_of_host == 0 ? "shared memory" : "TCP", each.name));
      Call send;
      send.collective = "send";
      send.count = each.sent;
      send.type = each.type;
      send.root = 1;
      Call recv;
      recv.collective = "recv";
      recv.count = each.expected;
      RankProcesses job(2, kQuiet);
      for (int rank = 0; rank < 2; ++rank)
        job.start(rank, (rank == 0 ? send : recv).command(),
                  ranks_of_host > 0 ? Variables{{"TUTTI_HOST_ID", fmt::format("host{}", rank)}} : Variables{});
      for (int rank = 0; rank < 2; ++rank) {
        const auto line = job.hear(rank, "failed", in(kPatience));
        ASSERT_TRUE(line) << "rank " << rank << " said: " << job.said(rank);
        EXPECT_EQ(line->rfind("failed mismatch ", 0), 0U) << *line;
        EXPECT_NE(line->find(fmt::format("recv #2 from rank 0 expects {} x float32, rank 0 sent {} x {}", each.expected,
                                         each.sent, each.type)),
                  std::string::npos)
            << *line;
      }
    }
}

}  // namespace
}  // namespace tutti::integration
