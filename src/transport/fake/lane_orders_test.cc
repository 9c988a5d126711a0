// Small cases, every order: what can happen next, happens, in each of the ways there are. A run is a list of choices;
// the next run changes the last of them that has another way to go.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "transport/fake/conversation_test_kit.hpp"
#include "transport/fake/network.hpp"

namespace tutti {
namespace {

[[maybe_unused]] const int kQuiet = ::setenv("TUTTI_LOG", "off", 1);

class Choices {
 public:
  std::size_t next(std::size_t ways) {
    if (at_ == taken_.size()) taken_.push_back({0, ways});
    return taken_[at_++].way;
  }
  /// False: all ways were gone.
  bool advance() {
    while (!taken_.empty() && taken_.back().way + 1 == taken_.back().ways) taken_.pop_back();
    if (taken_.empty()) return false;
    ++taken_.back().way;
    at_ = 0;
    return true;
  }

 private:
  struct Choice {
    std::size_t way;
    std::size_t ways;
  };
  std::vector<Choice> taken_;
  std::size_t at_ = 0;
};

struct Case {
  std::uint32_t lanes;
  std::uint64_t chunks;
  int losses;        // of lanes, at any moment
  int incarnations;  // that lanes come back as, after
  bool one_end;      // only the sender's end is lost; the other hears of it
};

std::shared_ptr<Peer> make_peer() {
  PeerOptions options;
  options.limits = small_limits();
  options.limits.copy_limit = 0;
  return std::make_shared<Peer>("peer", std::move(options));
}

void run_once(const Case& what, Choices& choices) {
  FakeNetwork network(1, {0, 0, true});
  const auto one = make_peer();
  const auto other = make_peer();
  Conversation conversation([](std::uint64_t) { return 0; }, *one, *other, {77, 0, 1, 2}, what.chunks);
  for (std::uint32_t lane = 0; lane < what.lanes; ++lane) ASSERT_TRUE(network.connect(*one, *other, lane, 1));
  int losses = what.losses;
  int returns = what.incarnations;
  std::uint32_t epoch = 1;
  const auto choose = [&](std::size_t ways) { return choices.next(ways); };
  while (!testing::Test::HasFatalFailure()) {
    conversation.act_all();
    conversation.check();
    if (conversation.done()) return;
    const auto living = network.living();
    // Besides what is under way: a lane may be lost now, or come back now.
    const std::size_t loss = losses > 0 && !living.empty() ? 1 : 0;
    const bool gone = living.size() < what.lanes;
    const std::size_t back = returns > 0 && gone ? 1 : 0;
    const std::size_t extra = loss + back != 0 ? choices.next(1 + loss + back) : 0;
    if (extra != 0 && extra <= loss) {
      --losses;
      const std::uint32_t lane = living[choices.next(living.size())];
      if (what.one_end)
        network.drop_end(*one, lane, "lost");
      else
        network.cut(lane);
      continue;
    }
    if (extra != 0) {
      --returns;
      for (std::uint32_t lane = 0; lane < what.lanes; ++lane)
        if (std::find(living.begin(), living.end(), lane) == living.end()) {
          network.connect(*one, *other, lane, ++epoch);
          break;
        }
      continue;
    }
    if (network.step(choose)) continue;
    // All has happened: only a lane that comes back can help.
    ASSERT_TRUE(living.empty()) << "it stands still: " << conversation.progress();
    network.connect(*one, *other, 0, ++epoch);
  }
}

void explore(const Case& what) {
  Choices choices;
  std::uint64_t runs = 0;
  do {
    SCOPED_TRACE(testing::Message() << "run " << runs);
    run_once(what, choices);
    ++runs;
    ASSERT_LT(runs, 20'000'000u) << "too many ways for a test";
  } while (!testing::Test::HasFatalFailure() && choices.advance());
  fmt::print("{} lanes, {} chunks, {} losses, {} returns: {} orders\n", what.lanes, what.chunks, what.losses,
             what.incarnations, runs);
}

TEST(LaneOrders, OneLaneLost) { explore({1, 1, 1, 0, false}); }
TEST(LaneOrders, OneEndOfOneLaneLost) { explore({1, 1, 1, 0, true}); }
TEST(LaneOrders, OneOfTwoLanesLost) { explore({2, 1, 1, 0, false}); }
TEST(LaneOrders, OneEndOfOneOfTwoLanesLost) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "400,000 orders take too long with a sanitizer";
#endif
  explore({2, 1, 1, 0, true});
}
TEST(LaneOrders, OneLaneLostWithTwoChunks) { explore({1, 2, 1, 0, false}); }

}  // namespace
}  // namespace tutti
