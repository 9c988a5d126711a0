#include "communicator/job/common_job.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

using Offers = std::vector<std::vector<JobOffer>>;

JobOffer offer(std::uint64_t job, int process, int processes, std::vector<std::int32_t> absent = {}) {
  return {job, process, processes, std::move(absent)};
}

TEST(CommonJob, IsTheOneThatAllRanksAreIn) {
  const Offers offers = {{offer(7, 0, 2), offer(9, 3, 4)}, {offer(9, 1, 4)}};
  EXPECT_EQ(find_common_job(offers), (CommonJob{9, {3, 1}}));
}

TEST(CommonJob, IsTheLargestOfSeveral) {
  const Offers offers = {{offer(7, 0, 2), offer(9, 0, 4)}, {offer(9, 1, 4), offer(7, 1, 2)}};
  EXPECT_EQ(find_common_job(offers), (CommonJob{9, {0, 1}}));
}

TEST(CommonJob, NeedsAnOfferOfEveryRank) {
  EXPECT_EQ(find_common_job(Offers{}), std::nullopt);
  EXPECT_EQ(find_common_job(Offers{{}, {}}), std::nullopt);
  EXPECT_EQ(find_common_job(Offers{{offer(7, 0, 2)}, {}}), std::nullopt);
  EXPECT_EQ(find_common_job(Offers{{offer(7, 0, 2)}, {offer(8, 1, 2)}}), std::nullopt);
  EXPECT_EQ(find_common_job(Offers{{offer(7, 0, 2)}, {offer(7, 1, 3)}}), std::nullopt);
}

TEST(CommonJob, HasNobodyWhomAnyOfThemMisses) {
  EXPECT_EQ(find_common_job(Offers{{offer(7, 0, 3, {1})}, {offer(7, 1, 3)}}), std::nullopt);
  EXPECT_EQ(find_common_job(Offers{{offer(7, 0, 3)}, {offer(7, 1, 3, {0})}}), std::nullopt);
  EXPECT_EQ(find_common_job(Offers{{offer(7, 0, 3, {2})}, {offer(7, 1, 3, {2})}}), (CommonJob{7, {0, 1}}));
  const Offers another = {{offer(7, 0, 3, {1}), offer(8, 0, 2)}, {offer(7, 1, 3), offer(8, 1, 2)}};
  EXPECT_EQ(find_common_job(another), (CommonJob{8, {0, 1}}));
}

TEST(CommonJob, GivesRanksOfOneProcessAPlaceEach) {
  const std::vector<JobOffer> both = {offer(7, 0, 3), offer(7, 2, 3)};
  EXPECT_EQ(find_common_job(Offers{both, {offer(7, 1, 3)}, both}), (CommonJob{7, {0, 1, 2}}));
  EXPECT_EQ(find_common_job(Offers{both, both, both}), std::nullopt);
  EXPECT_EQ(find_common_job(Offers{{offer(7, 0, 2)}, {offer(7, 0, 2)}}), std::nullopt);
}

TEST(CommonJob, OffersTravel) {
  WireWriter out;
  const JobOffer sent = offer(0x1234567890abcdef, 5, 9, {1, 8});
  sent.encode(out);
  const Blob bytes = out.take();
  WireReader in(bytes);
  EXPECT_EQ(JobOffer::decode(in), sent);
  EXPECT_TRUE(in.complete());
}

}  // namespace
}  // namespace tutti
