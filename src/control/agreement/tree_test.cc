// Agreements whose messages travel by trees: deaths and pauses of members between others and the leader, messages that
// overtake each other, leaders one after another.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <variant>
#include <vector>

#include "control/agreement/agreement_test_kit.hpp"

namespace tutti {
namespace {

MemberSet all_of(int members) { return MemberSet(static_cast<std::size_t>(members), true); }

TEST(MemberTree, HasEveryMemberOnceBelowOneThatComesEarlier) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const int members = static_cast<int>(1 + random() % 90);
    const int root = static_cast<int>(random() % static_cast<std::uint64_t>(members));
    MemberSet present(static_cast<std::size_t>(members));
    MemberSet asked(static_cast<std::size_t>(members));
    for (int member = 0; member < members; ++member) {
      if (random() % 3 != 0) present.add(member);
      if (random() % 5 == 0) asked.add(member);
    }
    const MemberTree tree(root, present, asked, static_cast<int>(1 + random() % 9));
    present.add(root);
    const MemberSet everyone = present | asked;
    EXPECT_EQ(tree.branch(root), everyone);
    MemberSet seen(static_cast<std::size_t>(members));
    seen.add(root);
    for (const int member : listed(everyone)) {
      MemberSet branch(static_cast<std::size_t>(members));
      branch.add(member);
      for (const int child : tree.children(member)) {
        EXPECT_EQ(tree.parent(child), member);
        EXPECT_FALSE(seen[static_cast<std::size_t>(child)]);
        seen.add(child);
        branch |= tree.branch(child);
      }
      EXPECT_EQ(tree.branch(member), branch);
    }
    EXPECT_EQ(seen, everyone);
  }
}

TEST(MemberTree, PutsThoseWhoHaveNotAnsweredBelowAllOthers) {
  MemberSet present = all_of(20);
  const MemberSet asked = [] {
    MemberSet set(20);
    for (const int member : {1, 2, 9}) set.add(member);
    return set;
  }();
  present -= asked;
  const MemberTree tree(0, present, asked, 2);
  for (const int member : listed(asked)) EXPECT_TRUE(tree.children(member).empty());
  EXPECT_EQ(tree.depth(), 4);
}

TEST(Agreement, ByTreesHoldsAllWhoLiveWhateverTheDeaths) {
  for (std::uint64_t seed = 1; seed <= 2000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedAgreement run(seed, Conditions{.least = 4, .most = 24, .fan_out = static_cast<int>(2 + seed % 3)});
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

// One that stands still for longer than a leader waits may be left out, but not those below it.
TEST(Agreement, ByTreesLeavesNobodyOutForAMemberThatStandsStill) {
  for (std::uint64_t seed = 1; seed <= 1000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Conditions conditions{.least = 8, .most = 40, .fan_out = 2, .pauses = 1, .longest_pause = 8};
    SimulatedAgreement run(seed, conditions);
    run.run();
    expect_termination(run);
    const Survivors* set = expect_one_set(run, true);
    for (int member = 0; member < run.members(); ++member) {
      if (!run.alive(member) || run.stood(member)) continue;
      ASSERT_TRUE(*run.result(member)) << run.result(member)->error().message;
      EXPECT_TRUE(contains(set->members, member));
    }
  }
}

// Returns how many who came in time, with a majority, got an error though others went on.
int left_out_in_time(int fan_out) {
  int left_out = 0;
  for (std::uint64_t seed = 1; seed <= 1000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedAgreement run(seed, Conditions{.latecomers = true, .least = 6, .most = 24, .fan_out = fan_out});
    run.run();
    expect_termination(run);
    const Survivors* set = expect_one_set(run, false);
    for (int member = 0; member < run.members(); ++member) {
      const auto& result = run.result(member);
      if (!result || *result || !run.alive(member)) continue;
      const ErrorCode code = result->error().code;
      EXPECT_TRUE(code == ErrorCode::timed_out || code == ErrorCode::no_quorum) << result->error().message;
      if (set != nullptr && run.start_of(member) <= 2.0 && run.majority_in_time()) ++left_out;
    }
  }
  return left_out;
}

// A quarter of the members comes far too late or never, leaders too. Without trees a few get an error that came in
// time, since leader after leader is silent; with trees as narrow as these it is some more.
TEST(Agreement, ByTreesLeavesOutHardlyAnyoneWhoCameInTime) {
  EXPECT_LE(left_out_in_time(0), 5);
  EXPECT_LE(left_out_in_time(2), 40) << "of 1,000 runs";
}

TEST(Agreement, ByTreesNeverSplitsEvenWhenMessagesTakeLongerThanAnyoneWaits) {
  int agreed = 0;
  for (std::uint64_t seed = 1; seed <= 2000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    SimulatedAgreement run(
        seed, Conditions{.longest_delay = 6.0, .last_start = 6.0, .latecomers = true, .most = 14, .fan_out = 2});
    run.run();
    expect_termination(run);
    if (expect_one_set(run, false) != nullptr) ++agreed;
  }
  EXPECT_GT(agreed, 50);
}

Blob proposal_of(Ballot ballot, const MemberSet& set) {
  ShrinkProposal proposal{ballot, ballot, set, {}};
  std::vector<Blob> blobs;
  for (const int member : listed(set)) blobs.push_back(blob_of(member));
  proposal.blobs = BlobTable(blobs);
  return encode(ProposeMessage{proposal});
}

// Two casts may go by different trees.
TEST(Agreement, KeepsTheLaterOfTwoProposalsThatOvertookEachOther) {
  Agreement member(4, 1);
  member.start(0, {}, blob_of(1));
  const MemberSet later{true, true, true, false};
  member.on_message(0, 0, proposal_of({0, 1}, later));
  member.on_message(0, 0, proposal_of({0, 0}, all_of(4)));
  member.on_message(0, 0, encode(CommitMessage{{0, 0}, all_of(4)}));
  EXPECT_FALSE(member.has_returned());
  member.on_message(0, 0, encode(CommitMessage{{0, 1}, later}));
  ASSERT_TRUE(member.result());
  EXPECT_EQ((*member.result())->members, (std::vector<int>{0, 1, 2}));
}

TEST(Agreement, TellsThoseBelowItOfATermThatTheyDoNotKnow) {
  Agreement member(8, 1, {}, Quorum::majority, 2);
  member.start(0, {}, blob_of(1));
  member.take_outgoing();
  member.on_message(0, 3, encode(JoinMessage{0, blob_of(3), {}}));
  member.take_outgoing();
  member.on_death(0, {0, Certainty::known});  // so that it leads term 1
  bool told = false;
  for (const AgreementPacket& packet : member.take_outgoing()) {
    const auto message = decode_agreement_message(*packet.bytes, 8);
    const auto* follow = message ? std::get_if<FollowMessage>(&*message) : nullptr;
    told = told || (packet.member == 3 && follow != nullptr && follow->term == 1);
  }
  EXPECT_TRUE(told);
  // A join of the term that is over is answered with the present one.
  member.on_message(0, 4, encode(JoinMessage{0, blob_of(4), {}}));
  const auto outgoing = member.take_outgoing();
  ASSERT_EQ(outgoing.size(), 1u);
  const auto answer = decode_agreement_message(*outgoing[0].bytes, 8);
  ASSERT_TRUE(answer);
  ASSERT_TRUE(std::holds_alternative<FollowMessage>(*answer));
  EXPECT_EQ(std::get<FollowMessage>(*answer).term, 1);
}

TEST(Agreement, TurnsToTheNextAboveWhenTheOneAboveItDies) {
  Agreement member(16, 7, {}, Quorum::majority, 2);
  member.start(0, {}, blob_of(7));
  auto outgoing = member.take_outgoing();
  EXPECT_TRUE(outgoing.empty()) << "it waits for member 15, below it";
  member.on_message(0, 15, encode(JoinMessage{0, blob_of(15), {}}));
  outgoing = member.take_outgoing();
  ASSERT_EQ(outgoing.size(), 2u);  // a wait, and both joins
  EXPECT_EQ(outgoing[1].member, 3);
  member.on_death(0, {3, Certainty::known});
  outgoing = member.take_outgoing();
  ASSERT_EQ(outgoing.size(), 1u);
  EXPECT_EQ(outgoing[0].member, 1);
  const auto joins = decode_agreement_message(*outgoing[0].bytes, 16);
  ASSERT_TRUE(joins && std::holds_alternative<JoinsMessage>(*joins));
  EXPECT_EQ(listed(std::get<JoinsMessage>(*joins).members), (std::vector<int>{7, 15}));
}

TEST(Agreement, KnowsAWithdrawalThatIsPassedOn) {
  const Blob refusal = encode(RefuseMessage{0, MemberSet(8)});
  const MemberSet nobody(8);
  const Blob passed_on = encode(CastMessage{2, nobody, nobody, nullptr, refusal});
  EXPECT_TRUE(is_withdrawal(8, 2, refusal));
  EXPECT_TRUE(is_withdrawal(8, 5, passed_on));
  EXPECT_EQ(speaker_of(8, 5, passed_on), 2) << "not of the member that passed it on";
  EXPECT_FALSE(is_withdrawal(8, 5, encode(JoinMessage{0, blob_of(5), {}})));
}

TEST(Agreement, TellsTheDecisionToThoseWhoseAcceptsComeAfterIt) {
  Agreement member(3, 0);
  member.start(0, {}, blob_of(0));
  member.on_message(0, 1, encode(JoinMessage{0, blob_of(1), {}}));
  member.on_message(0, 2, encode(JoinMessage{0, blob_of(2), {}}));
  Ballot ballot;
  for (const AgreementPacket& packet : member.take_outgoing()) {
    auto message = decode_agreement_message(*packet.bytes, 3);
    if (const auto* cast = message ? std::get_if<CastMessage>(&*message) : nullptr)
      message = decode_agreement_message(cast->message, 3);
    if (const auto* propose = message ? std::get_if<ProposeMessage>(&*message) : nullptr)
      ballot = propose->proposal.ballot;
  }
  for (const int from : {1, 2}) member.on_message(0, from, encode(AcceptMessage{ballot}));
  ASSERT_TRUE(member.result());
  member.take_outgoing();
  member.on_message(0, 2, encode(AcceptMessage{ballot}));  // again: who was to pass the decision on may have died
  const auto outgoing = member.take_outgoing();
  ASSERT_EQ(outgoing.size(), 1u);
  EXPECT_EQ(outgoing[0].member, 2);
  const auto answer = decode_agreement_message(*outgoing[0].bytes, 3);
  EXPECT_TRUE(answer && std::holds_alternative<CommitMessage>(*answer));
}

TEST(MemberSet, IsTheSameAfterAnyOperationsAsASetOfBits) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 500; ++round) {
    const std::size_t members = 1 + random() % 200;
    MemberSet sets[2] = {MemberSet(members), MemberSet(members)};
    std::vector<bool> bits[2] = {std::vector<bool>(members), std::vector<bool>(members)};
    for (int which = 0; which < 2; ++which)
      for (std::size_t step = random() % 80; step > 0; --step) {
        const std::size_t member = random() % members;
        const bool adds = random() % 4 != 0;
        bits[which][member] = adds;
        adds ? sets[which].add(static_cast<int>(member)) : sets[which].remove(static_cast<int>(member));
      }
    const MemberSet results[3] = {sets[0] | sets[1], sets[0] & sets[1], sets[0] - sets[1]};
    std::size_t below = 0;
    for (std::size_t member = 0; member < members; ++member) {
      EXPECT_EQ(results[0][member], bits[0][member] || bits[1][member]);
      EXPECT_EQ(results[1][member], bits[0][member] && bits[1][member]);
      EXPECT_EQ(results[2][member], bits[0][member] && !bits[1][member]);
      EXPECT_EQ(sets[0].count_below(static_cast<int>(member)), static_cast<int>(below));
      if (!bits[0][member]) continue;
      EXPECT_EQ(sets[0].at(static_cast<int>(below)), static_cast<int>(member));
      ++below;
    }
    EXPECT_EQ(sets[0].count(), below);
    WireWriter out;
    sets[0].encode(out);
    const Blob bytes = out.take();
    EXPECT_LE(bytes.size(), (members + 7) / 8 + 1);
    WireReader in(bytes);
    MemberSet read;
    EXPECT_TRUE(read.decode(in, members));
    EXPECT_TRUE(in.complete());
    EXPECT_EQ(read, sets[0]);
  }
}

}  // namespace
}  // namespace tutti
