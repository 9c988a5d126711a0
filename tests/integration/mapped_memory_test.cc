// Memory of tutti::allocate that ranks of other processes have mapped: it stays mapped while they use it, and is its
// owner's again once a call has failed.
#include <gtest/gtest.h>
#include <signal.h>

#include <string>

#include "rank_processes.hpp"

namespace tutti::integration {
namespace {

// Slow under sanitizers and beside other work; this only bounds the test.
constexpr double kPatience = 30;

class MappedMemory : public testing::Test {
 protected:
  void start(const std::string& act, const std::string& timeout_of_rank_0) {
    job_.start(0, {MEMORY_RANK, "--act", act, "--timeout", timeout_of_rank_0});
    job_.start(1, {MEMORY_RANK, "--act", act});
  }
  void expect_heard(int rank, const std::string& word) {
    ASSERT_TRUE(job_.hear(rank, word, in(kPatience)))
        << "rank " << rank << " did not say '" << word << "' but: " << job_.said(rank);
  }
  void expect_all_right() {
    for (const int rank : {0, 1}) {
      EXPECT_EQ(job_.wait(rank, in(kPatience)), 0) << "rank " << rank << " said: " << job_.said(rank);
      EXPECT_NE(job_.said(rank).find("right\n"), std::string::npos) << "rank " << rank;
    }
  }
  /// Rank 0's call has failed and it has refilled its buffers; `go_on` lets rank 1 end the step it is in.
  template <typename GoOn>
  void outlive(GoOn go_on) {
    expect_heard(1, "inside");
    expect_heard(0, "failed timed out");
    expect_heard(0, "refilled");
    go_on();
    expect_heard(1, "failed");
    expect_heard(1, "refilled");
    for (const int rank : {0, 1}) job_.tell(rank, "look");
    expect_heard(0, "kept");
    expect_all_right();
  }

  RankProcesses job_{2, {{"TUTTI_LOG", "error"}}};
};

TEST_F(MappedMemory, StaysMappedWhileACollectiveUsesItWhateverElseThePeerFrees) {
  start("free", "0");
  expect_all_right();
}

TEST_F(MappedMemory, OfAFailedCallIsNotWrittenByAPeerThatWasStopped) {
  start("stopped", "1");
  outlive([&] { job_.kill(1, SIGCONT); });
}

TEST_F(MappedMemory, OfAFailedCallIsNotWrittenByAPeerThatIsSlow) {
  start("slow", "1");
  outlive([&] { job_.tell(1, "go on"); });
}

}  // namespace
}  // namespace tutti::integration
