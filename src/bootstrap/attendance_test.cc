#include "bootstrap/attendance.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

JoinRequest request_of(int rank, int size) {
  JoinRequest request;
  request.rank = rank;
  request.size = size;
  request.blob = {static_cast<std::byte>(rank)};
  return request;
}

TEST(Attendance, NamesRanksInRanges) {
  EXPECT_EQ(name_ranks({3}, 8), "rank 3 of 8");
  EXPECT_EQ(name_ranks({3, 7}, 8), "ranks 3, 7 of 8");
  EXPECT_EQ(name_ranks({0, 1, 2, 5, 6}, 8), "ranks 0-2, 5, 6 of 8");
}

TEST(Attendance, NamesSecondsAsAPersonWould) {
  EXPECT_EQ(name_seconds(59.998), "60 s");
  EXPECT_EQ(name_seconds(0.2999), "0.3 s");
  EXPECT_EQ(name_seconds(125), "125 s");
}

TEST(Attendance, IsCompleteWhenEveryRankHasComeInAnyOrder) {
  Attendance attendance;
  EXPECT_FALSE(attendance.complete());
  for (const int rank : {2, 0, 1}) {
    EXPECT_FALSE(attendance.complete());
    EXPECT_EQ(attendance.add(request_of(rank, 3), "here").admission, Attendance::Admission::joined);
  }
  EXPECT_TRUE(attendance.complete());
  EXPECT_EQ(attendance.blobs()[2], Blob{std::byte{2}});
}

TEST(Attendance, KnowsWhoIsMissing) {
  Attendance attendance;
  attendance.add(request_of(1, 4), "here");
  EXPECT_EQ(attendance.missing(), (std::vector<int>{0, 2, 3}));
}

TEST(Attendance, NamesBothWhoClaimARank) {
  Attendance attendance;
  attendance.add(request_of(1, 4), "10.0.0.1:1");
  const auto answer = attendance.add(request_of(1, 4), "10.0.0.2:2");
  EXPECT_EQ(answer.admission, Attendance::Admission::duplicate);
  EXPECT_EQ(answer.why, "rank 1 is taken: one joined from 10.0.0.1:1, another from 10.0.0.2:2");
  EXPECT_EQ(attendance.joined(), 1);
}

TEST(Attendance, RefusesRanksAndSizesThatCannotBe) {
  for (const auto& [rank, size] : {std::pair{-1, 4}, {4, 4}, {0, 0}, {0, -3}, {0, kMaxRanks + 1}}) {
    Attendance attendance;
    EXPECT_EQ(attendance.add(request_of(rank, size), "here").admission, Attendance::Admission::mismatch);
    EXPECT_EQ(attendance.ranks(), 0);
  }
}

JoinRequest growing(int rank, int ranks, int newcomers, int at_least) {
  JoinRequest request = request_of(rank, ranks + newcomers);
  request.newcomers = newcomers;
  request.at_least = at_least;
  return request;
}

TEST(Attendance, NumbersNewcomersAfterTheRanksAsTheyAreIntroduced) {
  Attendance attendance;
  attendance.add_newcomer(7);
  attendance.add_newcomer(5);
  attendance.add_newcomer(6);
  EXPECT_EQ(attendance.newcomers(), 3);
  for (const int rank : {1, 0}) attendance.add(growing(rank, 2, 2, 2), "here");
  EXPECT_EQ(attendance.size(), 4);
  EXPECT_FALSE(attendance.complete());
  for (const std::uint64_t key : {6, 7, 5}) attendance.introduce(key, {static_cast<std::byte>(key)});
  EXPECT_TRUE(attendance.complete());
  EXPECT_EQ(attendance.admitted(), (std::vector<std::uint64_t>{6, 7}));
  EXPECT_EQ(attendance.blobs(), (std::vector<Blob>{{std::byte{0}}, {std::byte{1}}, {std::byte{6}}, {std::byte{7}}}));
  attendance.remove_newcomer(6);
  EXPECT_EQ(attendance.admitted(), (std::vector<std::uint64_t>{7, 5}));
}

TEST(Attendance, SaysWhoIsAbsentAndWhenTheNewcomersSuffice) {
  Attendance attendance;
  attendance.add(growing(0, 3, 2, 1), "here");
  EXPECT_EQ(attendance.absent(), "ranks 1, 2 of 3 and 2 of 2 newcomers have");
  attendance.add(growing(1, 3, 2, 1), "here");
  attendance.add(growing(2, 3, 2, 1), "here");
  EXPECT_FALSE(attendance.suffices());
  attendance.add_newcomer(1);
  attendance.introduce(1, {});
  EXPECT_EQ(attendance.absent(), "1 of 2 newcomers has");
  EXPECT_TRUE(attendance.suffices());
  EXPECT_FALSE(attendance.complete());
}

TEST(Attendance, RefusesRanksThatDisagreeOnTheNewcomers) {
  Attendance attendance;
  attendance.add(growing(0, 2, 2, 2), "here");
  EXPECT_EQ(attendance.add(growing(1, 3, 1, 1), "there").admission, Attendance::Admission::mismatch);
}

TEST(Attendance, NamesASettingThatOneRankLacks) {
  Attendance attendance;
  attendance.add(request_of(0, 2), "here");
  JoinRequest other = request_of(1, 2);
  other.settings = {{"TUTTI_SHM", "0"}};
  const auto answer = attendance.add(other, "there");
  EXPECT_EQ(answer.admission, Attendance::Admission::mismatch);
  EXPECT_EQ(answer.why, "rank 1 has TUTTI_SHM=0, rank 0 has no TUTTI_SHM; it must be the same on all ranks");
}

}  // namespace
}  // namespace tutti
