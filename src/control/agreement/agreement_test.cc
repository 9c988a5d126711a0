#include "control/agreement/agreement.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>

#include "control/agreement/agreement_test_kit.hpp"

namespace tutti {
namespace {

// Every order in which messages and notices of death can arrive (in order within a pair, at time 0), with up to
// `deaths` deaths at any point, also half-way through sending. Orders that give every member the same history are the
// same state and are tried once.
class EveryOrder {
 public:
  EveryOrder(int members, int deaths) : members_(members) {
    State state;
    state.deaths_left = deaths;
    for (int member = 0; member < members; ++member) {
      state.agreements.emplace_back(members, member);
      state.histories.emplace_back();
    }
    state.alive.assign(members, true);
    state.started.assign(members, false);
    explore(state);
  }

  int states = 0;
  int ends = 0;

 private:
  struct State {
    std::vector<Agreement> agreements;
    std::vector<std::string> histories;
    std::vector<bool> alive;
    std::vector<bool> started;
    std::map<std::pair<int, int>, std::deque<Blob>> channels;
    std::vector<std::pair<int, int>> notices;  // (to, about)
    int deaths_left = 0;
  };

  // Sends what the member emitted; or dies after each number of messages that it could have sent.
  void settle(State state, int member) {
    const auto outgoing = state.agreements[member].take_outgoing();
    if (state.deaths_left > 0)
      for (std::size_t sent = 0; sent <= outgoing.size(); ++sent) {
        State dying = state;
        for (std::size_t at = 0; at < sent; ++at)
          dying.channels[{member, outgoing[at].member}].push_back(*outgoing[at].bytes);
        dying.alive[member] = false;
        --dying.deaths_left;
        dying.histories[member] += fmt::format("+{}", sent);
        for (int other = 0; other < members_; ++other)
          if (dying.alive[other]) dying.notices.push_back({other, member});
        explore(dying);
      }
    for (const auto& message : outgoing) state.channels[{member, message.member}].push_back(*message.bytes);
    explore(state);
  }

  void explore(const State& state) {
    std::string key;
    for (const auto& history : state.histories) key += history + "|";
    if (!seen_.insert(key).second) return;
    ++states;
    bool stuck = true;
    for (int member = 0; member < members_; ++member) {
      if (!state.alive[member]) continue;
      if (!state.started[member]) {
        stuck = false;
        State next = state;
        next.started[member] = true;
        next.histories[member] += "s";
        next.agreements[member].start(0, {}, blob_of(member));
        settle(std::move(next), member);
      }
      for (int from = 0; from < members_; ++from) {
        const auto channel = state.channels.find({from, member});
        if (channel == state.channels.end() || channel->second.empty()) continue;
        stuck = false;
        State next = state;
        auto& messages = next.channels[{from, member}];
        const Blob bytes = messages.front();
        messages.pop_front();
        next.histories[member] += fmt::format("{}", from);
        next.agreements[member].on_message(0, from, bytes);
        settle(std::move(next), member);
      }
    }
    for (std::size_t at = 0; at < state.notices.size(); ++at) {
      const auto [to, about] = state.notices[at];
      if (!state.alive[to]) continue;
      stuck = false;
      State next = state;
      next.notices.erase(next.notices.begin() + static_cast<std::ptrdiff_t>(at));
      next.histories[to] += fmt::format("d{}", about);
      next.agreements[to].on_death(0, {about, Certainty::known});
      settle(std::move(next), to);
    }
    check(state, stuck);
  }

  void check(const State& state, bool stuck) {
    const Survivors* first = nullptr;
    for (int member = 0; member < members_; ++member) {
      const auto& result = state.agreements[member].result();
      if (!result) {
        ASSERT_FALSE(stuck && state.alive[member]) << "member " << member << " never returns";
        continue;
      }
      ASSERT_TRUE(*result) << result->error().message;
      expect_own_blobs(**result);
      ASSERT_TRUE(first == nullptr || *first == **result) << "two members returned different sets";
      first = &**result;
    }
    if (!stuck || first == nullptr) return;
    ++ends;
    for (int member = 0; member < members_; ++member)
      ASSERT_TRUE(!state.alive[member] || contains(first->members, member));
  }

  int members_;
  std::unordered_set<std::string> seen_;
};

TEST(Agreement, HoldsInEveryOrderOfEventsForTwoMembersAndTwoDeaths) {
  const EveryOrder all(2, 2);
  EXPECT_GT(all.ends, 10);
}

TEST(Agreement, HoldsInEveryOrderOfEventsForThreeMembersAndOneDeath) {
  const EveryOrder all(3, 1);
  EXPECT_GT(all.ends, 100);
  RecordProperty("states", all.states);
}

TEST(Agreement, OfMembersThatComeInTimeHoldsAllWhoLiveWhateverTheDeaths) {
  for (std::uint64_t seed = 1; seed <= 6000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedAgreement run(seed, Conditions{});
    run.run();
    expect_termination(run);
    const Survivors* set = expect_one_set(run, true);
    for (int member = 0; member < run.members(); ++member) {
      if (!run.alive(member)) continue;
      ASSERT_TRUE(*run.result(member)) << run.result(member)->error().message;
      EXPECT_TRUE(contains(set->members, member));
    }
  }
}

TEST(Agreement, LeavesOutLatecomersAndNeverSplits) {
  int left_out = 0;
  int too_few = 0;
  for (std::uint64_t seed = 1; seed <= 4000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedAgreement run(seed, Conditions{0.05, 2.0, true});
    run.run();
    expect_termination(run);
    const Survivors* set = expect_one_set(run, false);
    for (int member = 0; member < run.members(); ++member) {
      const auto& result = run.result(member);
      if (!result || *result || !run.alive(member)) continue;
      // Too few are left, either of those who came in time or of those who have not given up since.
      const ErrorCode code = result->error().code;
      EXPECT_TRUE(code == ErrorCode::timed_out || code == ErrorCode::no_quorum) << result->error().message;
      ++(set != nullptr ? left_out : too_few);
      const bool returned_by_others = set != nullptr && contains(set->members, member);
      EXPECT_FALSE(returned_by_others && run.majority_in_time()) << "one of the set got an error";
    }
  }
  EXPECT_GT(left_out, 50);
  EXPECT_GT(too_few, 50);
}

TEST(Agreement, NeverSplitsEvenWhenMessagesTakeLongerThanAnyoneWaits) {
  int agreed = 0;
  for (std::uint64_t seed = 1; seed <= 6000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedAgreement run(seed, Conditions{12.0, 12.0, true});
    run.run();
    expect_termination(run);
    if (expect_one_set(run, false) != nullptr) ++agreed;
  }
  EXPECT_GT(agreed, 200);
}

// Members whose messages are delivered by hand.
class Stage {
 public:
  explicit Stage(int members) {
    for (int member = 0; member < members; ++member) {
      agreements.emplace_back(members, member);
      agreements.back().start(0, {}, blob_of(member));
      collect(member);
    }
  }
  /// All that waits on the way from one to another; what follows from it waits in turn.
  void deliver(int from, int to) {
    for (const Blob& bytes : std::exchange(wires_[{from, to}], {})) agreements[to].on_message(0, from, bytes);
    collect(to);
  }
  void deliver_all() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int from = 0; from < size(); ++from)
        for (int to = 0; to < size(); ++to) {
          if (dead_.contains(to) || wires_[{from, to}].empty()) continue;
          deliver(from, to);
          moved = true;
        }
    }
  }
  /// It dies, and what it sent last is lost.
  void kill(int member) {
    dead_.insert(member);
    for (int to = 0; to < size(); ++to) wires_[{member, to}].clear();
    for (int to = 0; to < size(); ++to) {
      agreements[to].on_death(0, {member, Certainty::known});
      collect(to);
    }
  }

  std::vector<Agreement> agreements;

 private:
  int size() const { return static_cast<int>(agreements.size()); }
  void collect(int member) {
    for (auto& message : agreements[member].take_outgoing())
      if (!dead_.contains(member)) wires_[{member, message.member}].push_back(*message.bytes);
  }

  std::map<std::pair<int, int>, std::deque<Blob>> wires_;
  std::unordered_set<int> dead_;
};

TEST(Agreement, DoesNotKeepADeadLeaderWhoseProposalDidNotReachAll) {
  Stage stage(3);
  stage.deliver(1, 0);
  stage.deliver(2, 0);
  stage.deliver(0, 1);  // the proposal, which 2 never sees
  stage.kill(0);
  stage.deliver_all();
  for (const int member : {1, 2}) {
    ASSERT_TRUE(stage.agreements[member].result());
    EXPECT_EQ((*stage.agreements[member].result())->members, (std::vector<int>{1, 2}));
  }
}

TEST(Agreement, KeepsWhatWasCommittedThroughAnAdoptionThatWasCutShort) {
  Stage stage(4);
  for (const int member : {1, 2, 3}) stage.deliver(member, 0);
  for (const int member : {1, 2, 3}) stage.deliver(0, member);  // the proposal
  for (const int member : {1, 2, 3}) stage.deliver(member, 0);  // all accept it
  ASSERT_TRUE(stage.agreements[0].result());
  stage.kill(0);  // before it told anyone
  stage.deliver(2, 1);
  stage.deliver(3, 1);
  stage.deliver(1, 3);  // adopted and proposed again, which 2 never sees
  ASSERT_FALSE(stage.agreements[1].result());
  stage.kill(1);
  stage.deliver_all();
  for (const int member : {2, 3}) {
    ASSERT_TRUE(stage.agreements[member].result());
    EXPECT_EQ(**stage.agreements[member].result(), **stage.agreements[0].result());
  }
}

TEST(Agreement, OfAMemberWhoseLeaderDiedBetweenTwoCommitsIsLearntFromOneThatHasReturned) {
  Stage stage(3);
  for (const int member : {1, 2}) stage.deliver(member, 0);
  for (const int member : {1, 2}) stage.deliver(0, member);  // the proposal
  for (const int member : {1, 2}) stage.deliver(member, 0);  // both accept it
  stage.deliver(0, 1);                                       // the commit, which 2 never sees
  ASSERT_TRUE(stage.agreements[1].decided());
  stage.kill(0);
  ASSERT_FALSE(stage.agreements[2].result());
  stage.deliver_all();
  ASSERT_TRUE(stage.agreements[2].result());
  EXPECT_EQ(**stage.agreements[2].result(), **stage.agreements[1].result());
}

TEST(Agreement, OfOneIsImmediate) {
  Agreement alone(1, 0);
  alone.start(0, {}, blob_of(0));
  ASSERT_TRUE(alone.result());
  EXPECT_EQ((*alone.result())->members, std::vector<int>{0});
}

TEST(Agreement, OfTheLastOneLeftIsImmediate) {
  Agreement last(3, 2);
  const std::vector<Loss> dead = {{0, Certainty::known}, {1, Certainty::known}};
  last.start(0, dead, blob_of(2));
  ASSERT_TRUE(last.result());
  EXPECT_EQ((*last.result())->members, std::vector<int>{2});
}

TEST(Agreement, TellsAMemberThatWasDeclaredDead) {
  Agreement declared(3, 1);
  declared.start(0, {}, {});
  declared.on_death(1, {1, Certainty::known});
  ASSERT_TRUE(declared.result());
  EXPECT_EQ(declared.result()->error().code, ErrorCode::rank_died);
}

TEST(Agreement, NamesThoseItWaitedFor) {
  Agreement alone(4, 1, {.join_wait = 2, .grace = 1});
  alone.start(0, {}, {});
  for (double now = alone.next_tick(); !alone.result(); now = alone.next_tick()) alone.tick(now);
  EXPECT_EQ(alone.result()->error().code, ErrorCode::timed_out);
  EXPECT_NE(alone.result()->error().message.find("member"), std::string::npos);
}

TEST(Agreement, IgnoresMalformedMessages) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 20000; ++round) {
    Agreement member(5, 2);
    member.start(0, {}, {});
    Blob bytes(random() % 40);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random() % 5 == 0 ? random() : random() % 8);
    if (bytes.size() == 3 && bytes[0] == std::byte{6}) continue;  // "so many are dead" may well be true
    member.on_message(0, static_cast<int>(random() % 5), bytes);
    EXPECT_FALSE(member.result() && *member.result());
  }
}

}  // namespace
}  // namespace tutti
