#include "control/agreement/follower_term.hpp"

#include <gtest/gtest.h>

#include <variant>

namespace tutti {
namespace {

constexpr int kMembers = 15;
constexpr double kGrace = 1.0;
const Blob kBlob = {std::byte{5}};

MemberSet set_of(std::initializer_list<int> members) {
  MemberSet set(kMembers);
  for (const int member : members) set.add(member);
  return set;
}

MemberSet all() { return MemberSet(kMembers, true); }

// Led by member 0, with two members below each: 3 is below 1, with 7 and 8 below itself.
MemberTree tree(const MemberSet& asked = MemberSet(kMembers)) { return MemberTree(0, all() - asked, asked, 2); }

FollowerTerm follower() { return {0, 3, tree(), JoinMessage{0, kBlob, {}}, kGrace, 10}; }

JoinsMessage joins(int member) { return joins_of(kMembers, member, {0, kBlob, {}}); }

TEST(FollowerTerm, SendsJoinsUpOnceAllBelowHaveJoined) {
  FollowerTerm term = follower();
  EXPECT_FALSE(term.take_joins(0));
  term.add_joins(0, 7, joins(7));
  EXPECT_FALSE(term.take_joins(0));
  term.add_joins(0, 8, joins(8));
  const auto due = term.take_joins(0);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->to, 1);
  EXPECT_EQ(std::get<JoinsMessage>(due->message).members, set_of({3, 7, 8}));
  EXPECT_EQ(term.children(), (std::set<int>{7, 8}));
  EXPECT_FALSE(term.take_joins(100)) << "nothing is sent twice";
}

TEST(FollowerTerm, SendsItsOwnJoinAfterAPauseIfThoseBelowAreLate) {
  FollowerTerm term = follower();
  const auto due = term.take_joins(term.next_tick());
  ASSERT_TRUE(due);
  EXPECT_EQ(std::get<JoinMessage>(due->message).blob, kBlob);
}

TEST(FollowerTerm, TurnsToTheNextLivingMemberAboveWithAllThatItGathered) {
  FollowerTerm term = follower();
  (void)term.take_joins(1);
  term.lost(1, all() - set_of({1}));
  EXPECT_EQ(term.above(), 0);
  term.lost(7, all() - set_of({1, 7}));
  term.lost(8, all() - set_of({1, 7, 8}));
  const auto due = term.take_joins(1);
  ASSERT_TRUE(due) << "nobody is left to be waited for";
  EXPECT_EQ(due->to, 0);
}

TEST(FollowerTerm, AnswersAVisitByTheWayItCame) {
  FollowerTerm term = follower();
  (void)term.take_joins(1);
  const MemberSet asked = set_of({3});
  term.visited(12, tree(asked), all());
  const auto due = term.take_joins(1);
  ASSERT_TRUE(due) << "the join that went another way may be lost";
  EXPECT_EQ(due->to, 12);
}

TEST(FollowerTerm, SendsAcceptsUpTheTreeOfTheProposal) {
  FollowerTerm term = follower();
  const Ballot ballot{0, 0};
  const MemberTree by = tree();
  term.accept(1, 2, &by, ballot, all());
  EXPECT_TRUE(term.expects_accept_of(7));
  EXPECT_FALSE(term.expects_accept_of(9));
  EXPECT_FALSE(term.add_accepts(1, {{0, 1}, set_of({7})})) << "of another ballot";
  EXPECT_TRUE(term.add_accepts(1, {ballot, set_of({7})}));
  EXPECT_FALSE(term.take_accepts(1));
  EXPECT_TRUE(term.add_accepts(1, {ballot, set_of({8})}));
  const auto due = term.take_accepts(1);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->to, 2);
  EXPECT_EQ(std::get<AcceptsMessage>(due->message).members, set_of({3, 7, 8}));
}

TEST(FollowerTerm, AcceptsAProposalOfTheLeaderItselfAtOnce) {
  FollowerTerm term = follower();
  term.accept(1, 0, nullptr, {0, 0}, all());
  const auto due = term.take_accepts(1);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->to, 0);
  EXPECT_TRUE(std::holds_alternative<AcceptMessage>(due->message));
}

TEST(FollowerTerm, ReportsEachDeadMemberOfAProposalOnce) {
  FollowerTerm term = follower();
  const MemberSet set = set_of({0, 3, 7, 8});
  EXPECT_FALSE(term.object({set_of({7}), MemberSet(kMembers)}, set)) << "there is no proposal";
  const MemberTree by = tree();
  term.accept(1, 1, &by, {0, 0}, set);
  const auto due = term.object({set_of({7, 9}), MemberSet(kMembers)}, set);
  ASSERT_TRUE(due);
  EXPECT_EQ(std::get<LossMessage>(due->message).known, set_of({7})) << "9 is not in the set";
  EXPECT_FALSE(term.object({set_of({7}), MemberSet(kMembers)}, set));
}

TEST(FollowerTerm, TellsThoseBelowOfAWaitThatGrewMuch) {
  FollowerTerm term = follower();
  EXPECT_FALSE(term.extend_wait(10.4));
  EXPECT_TRUE(term.extend_wait(10.6));
  EXPECT_FALSE(term.extend_wait(10.7));
}

}  // namespace
}  // namespace tutti
