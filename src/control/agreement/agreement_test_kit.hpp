// Agreements on simulated time, from a seed: random delays and starts, deaths, members that stand still.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <queue>
#include <random>
#include <unordered_set>
#include <utility>
#include <vector>

#include "control/agreement/agreement.hpp"

namespace tutti {

inline Blob blob_of(int member) {
  return Blob(static_cast<std::size_t>(member % 3 + 1), static_cast<std::byte>(member));
}

inline bool contains(const std::vector<int>& members, int member) {
  return std::find(members.begin(), members.end(), member) != members.end();
}

inline void expect_own_blobs(const Survivors& survivors) {
  ASSERT_EQ(survivors.members.size(), survivors.blobs.size());
  for (std::size_t at = 0; at < survivors.members.size(); ++at)
    EXPECT_EQ(survivors.blobs[at], blob_of(survivors.members[at]));
}

// What may happen in a simulated run.
struct Conditions {
  double longest_delay = 0.05;  // seconds, of a message
  double last_start = 2.0;      // seconds, of a member that comes in time
  bool latecomers = false;      // some start far too late or never
  int least = 2;                // members
  int most = 8;
  int fan_out = 0;  // of trees; 0: all of these members right below the leader
  // Members but the first that stand still for a while: messages for them wait, and nobody calls them dead.
  int pauses = 0;
  double longest_pause = 1.5;
};

// A run on simulated time: members 0..n-1, random delays, in order per pair, random deaths.
class SimulatedAgreement {
 public:
  SimulatedAgreement(std::uint64_t seed, Conditions conditions) : random_(seed), conditions_(conditions) {
    const int sizes = conditions.most - conditions.least + 1;
    members_ = conditions.least + static_cast<int>(random_() % static_cast<std::uint64_t>(sizes));
    const int fan_out = conditions.fan_out == 0 ? members_ : conditions.fan_out;
    for (int member = 0; member < members_; ++member)
      agreements_.emplace_back(members_, member, AgreementTiming{}, Quorum::majority, fan_out);
    start_.resize(members_);
    finish_.assign(members_, kNever);
    dies_after_sends_.assign(members_, -1);
    for (int member = 0; member < members_; ++member) {
      start_[member] = uniform(conditions.last_start);
      if (conditions.latecomers && random_() % 4 == 0) start_[member] = random_() % 2 == 0 ? uniform(40) : kNever;
      if (start_[member] < kNever) at(start_[member], {Event::start, member, -1, {}});
    }
    const int deaths = static_cast<int>(random_() % static_cast<std::uint64_t>(std::min(members_, 4)));
    for (int death = 0; death < deaths; ++death) plan_death();
    stands_.assign(members_, {kNever, kNever});
    for (int pause = 0; pause < conditions.pauses; ++pause) {
      const double from = uniform(conditions.last_start + 0.5);
      stands_[1 + random_() % static_cast<std::uint64_t>(members_ - 1)] = {from,
                                                                           from + uniform(conditions.longest_pause)};
    }
  }

  void run() {
    while (!events_.empty() && now_ < 200) {
      now_ = events_.top().order.first;
      Event event = events_.top().event;
      events_.pop();
      apply(event);
    }
  }

  bool alive(int member) const { return !dead_.contains(member); }
  bool started(int member) const { return start_[member] < kNever; }
  const auto& result(int member) const { return agreements_[member].result(); }
  bool stood(int member) const { return stands_[member].first < kNever; }
  int members() const { return members_; }
  double start_of(int member) const { return start_[member]; }
  double finish_of(int member) const { return finish_[member]; }
  bool majority_in_time() const {
    int in_time = 0;
    for (int member = 0; member < members_; ++member)
      in_time += alive(member) && start_[member] <= conditions_.last_start;
    return 2 * in_time > members_;
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Event {
    enum Kind { start, message, notice, tick, death } kind;
    int member;
    int other;
    Blob bytes;
  };
  struct Entry {
    std::pair<double, std::uint64_t> order;
    Event event;
    bool operator<(const Entry& right) const { return order > right.order; }
  };

  double uniform(double below) { return std::uniform_real_distribution<double>(0, below)(random_); }
  void at(double time, Event event) { events_.push({{time, sequence_++}, std::move(event)}); }

  void plan_death() {
    const int victim = static_cast<int>(random_() % (random_() % 2 == 0 ? 2 : members_));  // leaders die more often
    if (random_() % 2 == 0) {
      at(uniform(conditions_.last_start + 0.5), {Event::death, victim, -1, {}});
    } else {
      dies_after_sends_[victim] = static_cast<int>(random_() % static_cast<std::uint64_t>(3 * members_));
    }
  }

  void apply(Event& event) {
    const int member = event.member;
    if (!alive(member)) return;
    if (stands_[member].first <= now_ && now_ < stands_[member].second && event.kind != Event::death)
      return at(stands_[member].second, std::move(event));
    Agreement& agreement = agreements_[member];
    switch (event.kind) {
      case Event::start:
        agreement.start(now_, {}, blob_of(member));
        break;
      case Event::message:
        agreement.on_message(now_, event.other, event.bytes);
        break;
      case Event::notice:
        agreement.on_death(now_, {event.other, Certainty::known});
        break;
      case Event::tick:
        agreement.tick(now_);
        break;
      case Event::death:
        return die(member);
    }
    if (agreement.result() && finish_[member] == kNever) finish_[member] = now_;
    const double next = agreement.next_tick();
    if (next < kNever) at(std::max(next, now_), {Event::tick, member, -1, {}});
    for (auto& message : agreement.take_outgoing()) {
      if (dies_after_sends_[member] == 0) return die(member);
      if (dies_after_sends_[member] > 0) --dies_after_sends_[member];
      double& last = last_arrival_[{member, message.member}];
      last = std::max(last, now_ + uniform(conditions_.longest_delay));
      at(last, {Event::message, message.member, member, *message.bytes});
    }
  }

  void die(int member) {
    dead_.insert(member);
    for (int other = 0; other < members_; ++other)
      if (other != member) at(now_ + uniform(1.0), {Event::notice, other, member, {}});
  }

  std::mt19937_64 random_;
  Conditions conditions_;
  int members_ = 0;
  double now_ = 0;
  std::uint64_t sequence_ = 0;
  std::priority_queue<Entry> events_;
  std::vector<Agreement> agreements_;
  std::vector<double> start_, finish_;
  std::vector<int> dies_after_sends_;
  std::vector<std::pair<double, double>> stands_;  // from when to when a member stands still
  std::unordered_set<int> dead_;
  std::map<std::pair<int, int>, double> last_arrival_;
};

inline void expect_termination(const SimulatedAgreement& run) {
  const AgreementTiming timing;
  for (int member = 0; member < run.members(); ++member) {
    if (!run.alive(member) || !run.started(member)) continue;
    ASSERT_TRUE(run.result(member)) << "member " << member << " never returned";
    EXPECT_LE(run.finish_of(member) - run.start_of(member), 2 * timing.join_wait + 12 * timing.grace + 0.001);
  }
}

// The set that was returned, or nothing; `of_the_dead` also looks at what the dead returned before they died.
inline const Survivors* expect_one_set(const SimulatedAgreement& run, bool of_the_dead) {
  const Survivors* first = nullptr;
  for (int member = 0; member < run.members(); ++member) {
    const auto& result = run.result(member);
    if (!result || !*result || (!of_the_dead && !run.alive(member))) continue;
    expect_own_blobs(**result);
    EXPECT_TRUE(contains((*result)->members, member));
    EXPECT_TRUE(first == nullptr || *first == **result) << "two members returned different sets";
    first = &**result;
  }
  return first;
}

}  // namespace tutti
