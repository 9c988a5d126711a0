#include "control/agreement/leader_term.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using Tally = LeaderTerm::Tally;

constexpr int kTerm = 4;  // led by member 1 of 3
const Blob kBlob = {std::byte{5}};

JoinMessage join(std::optional<ShrinkProposal> accepted = {}) { return {kTerm, kBlob, std::move(accepted)}; }

// What the leader of term 0 proposed to all three.
ShrinkProposal earlier() { return {{0, 0}, {0, 0}, {true, true, true}, {kBlob, kBlob, kBlob}}; }

struct Leader {
  explicit Leader(std::optional<ShrinkProposal> accepted = {}) : term(3, 1, join(std::move(accepted))) {}

  LossSet losses{3, Quorum::majority};
  LeaderTerm term;
};

TEST(LeaderTerm, ProposesAllWhoJoinedAndCommitsOnceAllHaveAccepted) {
  Leader leader;
  leader.term.add_joins(joins_of(3, 0, join()));
  EXPECT_FALSE(leader.term.is_ready(leader.losses));
  EXPECT_EQ(leader.term.missing(leader.losses), (MemberSet{false, false, true}));
  leader.term.add_joins(joins_of(3, 2, join()));
  ASSERT_TRUE(leader.term.is_ready(leader.losses));
  const ShrinkProposal proposal = leader.term.propose(leader.losses);
  EXPECT_EQ(proposal.set, (MemberSet{true, true, true}));
  EXPECT_EQ(proposal.blobs.size(), 3u);
  EXPECT_TRUE(leader.term.accept(0, proposal.ballot));
  EXPECT_EQ(leader.term.tally(leader.losses), Tally::open);
  EXPECT_FALSE(leader.term.accept(2, {kTerm - 1, 0})) << "of another ballot";
  EXPECT_TRUE(leader.term.accept(2, proposal.ballot));
  EXPECT_EQ(leader.term.tally(leader.losses), Tally::accepted);
}

TEST(LeaderTerm, TriesAgainWithoutThoseWhoDoNotAccept) {
  Leader leader;
  leader.term.add_joins(joins_of(3, 0, join()));
  leader.term.stop_waiting_for_joins();
  leader.term.add_joins(joins_of(3, 2, join()));
  const Ballot first = leader.term.propose(leader.losses).ballot;
  leader.term.accept(0, first);
  leader.term.drop_silent();
  const ShrinkProposal second = leader.term.propose(leader.losses);
  EXPECT_GT(second.ballot, first);
  EXPECT_EQ(second.set, (MemberSet{true, true, false}));
}

TEST(LeaderTerm, AdoptsASetThatMayBeCommitted) {
  Leader leader(earlier());
  leader.losses.add({0, Certainty::known});
  leader.term.add_joins(joins_of(3, 2, join(earlier())));
  const ShrinkProposal proposal = leader.term.propose(leader.losses);
  EXPECT_TRUE(proposal.adopted());
  EXPECT_EQ(proposal.set, earlier().set);
  EXPECT_FALSE(leader.term.waits()) << "there is nothing to fall back to";
  leader.term.accept(2, proposal.ballot);
  EXPECT_EQ(leader.term.tally(leader.losses), Tally::accepted) << "a dead member of an adopted set does not count";
}

TEST(LeaderTerm, DropsASetThatOneOfItsMembersDidNotAccept) {
  Leader leader(earlier());
  leader.losses.add({0, Certainty::known});
  leader.term.add_joins(joins_of(3, 2, join()));
  const ShrinkProposal proposal = leader.term.propose(leader.losses);
  EXPECT_FALSE(proposal.adopted());
  EXPECT_EQ(proposal.set, (MemberSet{false, true, true}));
}

TEST(LeaderTerm, NoticesADeathWhileItWaitsForAccepts) {
  Leader leader;
  leader.term.add_joins(joins_of(3, 0, join()));
  leader.term.add_joins(joins_of(3, 2, join()));
  leader.term.propose(leader.losses);
  leader.losses.add({2, Certainty::known});
  EXPECT_EQ(leader.term.tally(leader.losses), Tally::member_died);
}

TEST(LeaderTerm, CommitsNoAdoptedSetWhoseMembersFellSilentUnheard) {
  Leader leader(earlier());
  leader.term.add_joins(joins_of(3, 2, join(earlier())));
  leader.losses.add({0, Certainty::presumed});
  const Ballot ballot = leader.term.propose(leader.losses).ballot;
  leader.term.accept(2, ballot);
  EXPECT_EQ(leader.term.tally(leader.losses), Tally::no_quorum);
}

}  // namespace
}  // namespace tutti
