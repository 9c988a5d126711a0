// Agreements on a network that falls apart and heals: at most one part goes on, and nobody waits for ever.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <set>
#include <utility>

#include "control/agreement/agreement.hpp"

namespace tutti {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
constexpr double kSilence = 5.0;  // seconds after which a member that is not heard is presumed dead

using Parts = std::vector<int>;  // of each member

struct Plan {
  Parts parts;
  Quorum quorum = Quorum::majority;
  double heals = kNever;        // seconds after the network fell apart
  int killed = -1;              // a member that dies a second after that, which only its part comes to know
  double last_start = 2.0;      // seconds
  double longest_delay = 0.05;  // of a message
  int fan_out = 0;              // of trees; 0: all members right below the leader
};

// Members 0..n-1 on simulated time, which begins when the network falls apart. As in the control plane, what was said
// between two members that still count as alive arrives once the network is whole again; a member that was presumed
// dead hears nothing more of those who did so but that, once it can be told.
class FallenApart {
 public:
  FallenApart(std::uint64_t seed, Plan plan) : random_(seed), plan_(std::move(plan)) {
    members_ = static_cast<int>(plan_.parts.size());
    finish_.assign(members_, kNever);
    for (int member = 0; member < members_; ++member) {
      agreements_.emplace_back(members_, member, AgreementTiming{}, plan_.quorum,
                               plan_.fan_out == 0 ? members_ : plan_.fan_out);
      start_.push_back(uniform(plan_.last_start));
      at(start_.back(), {Event::start, member, -1, {}});
      for (int other = 0; other < members_; ++other)
        if (plan_.parts[member] != plan_.parts[other]) at(kSilence + uniform(1.0), {Event::silence, member, other, {}});
    }
    if (plan_.heals < kNever) at(plan_.heals, {Event::heal, 0, -1, {}});
    if (plan_.killed >= 0) at(1.0, {Event::death, plan_.killed, -1, {}});
  }

  void run() {
    while (!events_.empty() && now_ < 200) {
      now_ = events_.top().order.first;
      Event event = events_.top().event;
      events_.pop();
      apply(event);
    }
  }

  int members() const { return members_; }
  bool alive(int member) const { return member != plan_.killed; }
  const auto& result(int member) const { return agreements_[member].result(); }
  double seconds_of(int member) const { return finish_[member] - start_[member]; }

 private:
  struct Event {
    enum Kind { start, message, notice, silence, tick, death, heal } kind;
    int member;
    int other;
    Blob bytes;
    Certainty certainty = Certainty::presumed;
  };
  struct Entry {
    std::pair<double, std::uint64_t> order;
    Event event;
    bool operator<(const Entry& right) const { return order > right.order; }
  };

  double uniform(double below) { return std::uniform_real_distribution<double>(0, below)(random_); }
  void at(double time, Event event) { events_.push({{time, sequence_++}, std::move(event)}); }
  bool apart(int one, int other) const { return !healed_ && plan_.parts[one] != plan_.parts[other]; }
  bool parted(int one, int other) const { return lost_.contains({one, other}) || lost_.contains({other, one}); }

  void apply(Event& event) {
    const int member = event.member;
    if (event.kind == Event::heal) return heal();
    if (gone_.contains(member)) return;
    Agreement& agreement = agreements_[member];
    switch (event.kind) {
      case Event::start:
        agreement.start(now_, losses_[member], {static_cast<std::byte>(member)});
        break;
      case Event::message:
        if (parted(member, event.other)) return;
        if (apart(member, event.other)) return wait_for_healing(event);
        agreement.on_message(now_, event.other, event.bytes);
        break;
      case Event::silence:
        if (healed_ || !apart(member, event.other)) return;
        [[fallthrough]];
      case Event::notice:
        lose(member, {event.other, event.certainty});
        break;
      case Event::tick:
        agreement.tick(now_);
        break;
      case Event::death:
        return die(member);
      case Event::heal:
        break;
    }
    if (agreement.result() && finish_[member] == kNever) finish_[member] = now_;
    if (const double next = agreement.next_tick(); next < kNever)
      at(std::max(next, now_), {Event::tick, member, -1, {}});
    for (auto& message : agreement.take_outgoing()) {
      double& last = last_arrival_[{member, message.member}];
      last = std::max(last, now_ + uniform(plan_.longest_delay));
      at(last, {Event::message, message.member, member, *message.bytes});
    }
  }

  // In order: what waits is put back with its old place among equals.
  void wait_for_healing(const Event& event) { waiting_.push_back(event); }

  void lose(int member, Loss loss) {
    lost_.insert({member, loss.member});
    losses_[member].push_back(loss);
    agreements_[member].on_death(now_, loss);
  }

  void die(int member) {
    gone_.insert(member);
    for (int other = 0; other < members_; ++other)
      if (other != member && !apart(member, other))
        at(now_ + uniform(0.1), {Event::notice, other, member, {}, Certainty::known});
  }

  // What is presumed in one part is told in the others, and to those it is about.
  void heal() {
    healed_ = true;
    for (Event& event : std::exchange(waiting_, {})) at(now_ + 0.001, std::move(event));
    for (const auto& entry : std::set(lost_))
      for (int member = 0; member < members_; ++member)
        at(now_ + uniform(1.0), {Event::notice, member, entry.second, {}});
  }

  std::mt19937_64 random_;
  Plan plan_;
  int members_ = 0;
  double now_ = 0;
  bool healed_ = false;
  std::uint64_t sequence_ = 0;
  std::priority_queue<Entry> events_;
  std::vector<Agreement> agreements_;
  std::vector<double> start_, finish_;
  std::set<int> gone_;
  std::set<std::pair<int, int>> lost_;  // who counts whom as dead
  std::map<int, std::vector<Loss>> losses_;
  std::vector<Event> waiting_;
  std::map<std::pair<int, int>, double> last_arrival_;
};

// The set that was returned, if any. Never two, and everyone returns.
std::optional<std::vector<int>> expect_one_set(const FallenApart& run) {
  const AgreementTiming timing;
  std::optional<std::vector<int>> set;
  for (int member = 0; member < run.members(); ++member) {
    const auto& result = run.result(member);
    if (run.alive(member)) {
      EXPECT_TRUE(result) << "member " << member << " never returned";
      EXPECT_LE(run.seconds_of(member), 2 * timing.join_wait + 12 * timing.grace + 0.001);
    }
    if (!result || !*result) continue;
    EXPECT_TRUE(!set || *set == (*result)->members)
        << fmt::format("{} and {}", fmt::join(*set, ", "), fmt::join((*result)->members, ", "));
    set = (*result)->members;
  }
  return set;
}

std::optional<std::vector<int>> run(std::uint64_t seed, const Plan& plan) {
  FallenApart network(seed, plan);
  network.run();
  return expect_one_set(network);
}

TEST(Partition, OnlyAMajorityGoesOn) {
  for (std::uint64_t seed = 1; seed <= 200 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    EXPECT_EQ(run(seed, {.parts = {0, 0, 1, 1}}), std::nullopt);
    EXPECT_EQ(run(seed, {.parts = {0, 0, 0, 1}}), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(run(seed, {.parts = {0, 1, 1, 1}}), (std::vector<int>{1, 2, 3}));
    EXPECT_EQ(run(seed, {.parts = {0, 1, 2, 2}}), std::nullopt);
    EXPECT_EQ(run(seed, {.parts = {0, 1}}), std::nullopt);
  }
}

TEST(Partition, OfEqualHalvesTheOneWithRankZeroGoesOnIfItMay) {
  for (std::uint64_t seed = 1; seed <= 200 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    EXPECT_EQ(run(seed, {.parts = {0, 0, 1, 1}, .quorum = Quorum::with_rank_0}), (std::vector<int>{0, 1}));
    EXPECT_EQ(run(seed, {.parts = {1, 0, 1, 0}, .quorum = Quorum::with_rank_0}), (std::vector<int>{0, 2}));
    EXPECT_EQ(run(seed, {.parts = {0, 1}, .quorum = Quorum::with_rank_0}), std::vector<int>{0});
    EXPECT_EQ(run(seed, {.parts = {0, 1, 2, 2}, .quorum = Quorum::with_rank_0}), std::nullopt);
  }
}

// Random networks that fall apart, of up to `most` members. Returns how many agreed on a set.
int agreed_of(int runs, std::size_t most, int fan_out) {
  int agreed = 0;
  std::mt19937_64 random(1);
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(runs) && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Plan plan;
    plan.fan_out = fan_out;
    for (std::size_t member = 2 + random() % (most - 1); member > 0; --member)
      plan.parts.push_back(static_cast<int>(random() % 3));
    if (random() % 2 == 0) plan.quorum = Quorum::with_rank_0;
    if (random() % 4 != 0) plan.heals = static_cast<double>(random() % 30000) / 1000;
    if (random() % 3 == 0) plan.killed = static_cast<int>(random() % plan.parts.size());
    if (random() % 3 == 0) plan.longest_delay = 3.0;
    plan.last_start = static_cast<double>(random() % 9);
    if (run(seed, plan)) ++agreed;
  }
  return agreed;
}

TEST(Partition, NeverSplitsWheneverItHealsAndWhoeverDies) {
  const int agreed = agreed_of(8000, 7, 0);
  EXPECT_GT(agreed, 1000);
  EXPECT_LT(agreed, 7000);
}

TEST(Partition, NeverSplitsAmongMembersThatSpeakByTrees) {
  const int agreed = agreed_of(1500, 16, 2);
  EXPECT_GT(agreed, 150);
  EXPECT_LT(agreed, 1350);
}

TEST(Partition, TheSideThatLosesIsToldWhy) {
  Agreement one(4, 1);
  const std::vector<Loss> silent = {{2, Certainty::presumed}, {3, Certainty::presumed}};
  one.start(0, silent, {});
  one.on_death(0, {0, Certainty::known});
  for (double now = 0; !one.result() && now < 100; now = one.next_tick()) one.tick(now);
  ASSERT_TRUE(one.result());
  ASSERT_FALSE(*one.result());
  EXPECT_EQ(one.result()->error().code, ErrorCode::no_quorum);
  EXPECT_NE(one.result()->error().message.find("4 ranks, 2 of them silent (2, 3): no majority"), std::string::npos)
      << one.result()->error().message;
}

TEST(Partition, APresumedDeathThatBecomesKnownNeedsNoQuorum) {
  Agreement left(2, 0);
  const std::vector<Loss> silent = {{1, Certainty::presumed}};
  left.start(0, silent, {});
  left.tick(1);
  ASSERT_FALSE(left.result());
  left.on_death(1, {1, Certainty::known});
  ASSERT_TRUE(left.result());
  EXPECT_EQ((*left.result())->members, std::vector<int>{0});
}

TEST(Partition, WithoutAQuorumWhoeverIsLeftGoesOn) {
  Agreement left(2, 1, {}, Quorum::none);
  const std::vector<Loss> silent = {{0, Certainty::presumed}};
  left.start(0, silent, {});
  ASSERT_TRUE(left.result());
  EXPECT_EQ((*left.result())->members, std::vector<int>{1});
}

}  // namespace
}  // namespace tutti
