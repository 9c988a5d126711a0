#include "transport/lane_pool.hpp"

#include <gtest/gtest.h>

namespace tutti {
namespace {

constexpr std::size_t kChunk = 100'000;

class QuietLane final : public Lane {
 public:
  using Lane::Lane;

  void post(const FrameHeader& header, const std::byte*, bool) override { posted.push_back(header.type); }
  void forget_outgoing(const LinkId&) override {}
  void forget_incoming(const LinkId&) override {}
  void close() override {}
  Silence silence(double) override { return {silent, Silence::Way::unknown}; }
  std::string name() const override { return "lane"; }

  std::vector<FrameType> posted;
  double silent = 0;
};

class LanePoolOfTwo : public testing::Test {
 protected:
  LanePoolOfTwo() {
    first = up(0, 1);
    second = up(1, 1);
  }

  std::shared_ptr<QuietLane> up(std::uint32_t index, std::uint32_t epoch) {
    auto lane = std::make_shared<QuietLane>(index, epoch);
    pool.add(pool.entry(index), lane, false);
    return lane;
  }
  std::vector<std::uint32_t> judge() {
    std::vector<std::uint32_t> dead;
    pool.judge(1, [&](Lane& lane, double) { dead.push_back(lane.index()); });
    return dead;
  }

  std::mutex mutex;
  PeerContext context{"peer", {}, mutex};
  LanePool pool{context};
  std::shared_ptr<QuietLane> first;
  std::shared_ptr<QuietLane> second;
};

TEST_F(LanePoolOfTwo, FindsOnlyTheIncarnationInUse) {
  EXPECT_EQ(pool.find(key_of(1, 1)), &pool.entry(1));
  EXPECT_EQ(pool.find(key_of(1, 2)), nullptr);
  EXPECT_EQ(pool.find(key_of(7, 1)), nullptr);
  EXPECT_EQ(pool.remove(pool.entry(1), "lost"), second);
  EXPECT_EQ(pool.find(key_of(1, 1)), nullptr);
  EXPECT_EQ(pool.size(), 1u);
}

TEST_F(LanePoolOfTwo, ChunksOfAnIncarnationThatIsOverCountNothing) {
  pool.post(pool.entry(1), kChunk, false, 0);
  pool.remove(pool.entry(1), "lost");
  up(1, 2);
  pool.post(pool.entry(1), kChunk, false, 0);
  pool.complete({key_of(1, 1), chunk_cost(kChunk)}, 0, 0);
  EXPECT_FALSE(pool.entry(1).load.is_idle());
  pool.complete({key_of(1, 2), chunk_cost(kChunk)}, 0, 0);
  EXPECT_TRUE(pool.entry(1).load.is_idle());
}

TEST_F(LanePoolOfTwo, ChoosesTheLaneWithLessToDo) {
  EXPECT_EQ(pool.choose(kChunk, false), &pool.entry(0));
  pool.post(pool.entry(0), kChunk, false, 0);
  EXPECT_EQ(pool.choose(kChunk, false), &pool.entry(1));
}

TEST_F(LanePoolOfTwo, WaitsForRoomUnlessTheChunkIsCopied) {
  for (int i = 0; i < 100; ++i) {
    pool.post(pool.entry(0), kChunk, false, 0);
    pool.post(pool.entry(1), kChunk, false, 0);
  }
  EXPECT_EQ(pool.choose(kChunk, false), nullptr);
  EXPECT_NE(pool.choose(kChunk, true), nullptr);
}

TEST_F(LanePoolOfTwo, SendsNothingNewOnASuspectLaneWhileThereIsAnother) {
  first->silent = 0.1;
  EXPECT_TRUE(judge().empty());
  EXPECT_EQ(&pool.best(), second.get());
  EXPECT_EQ(pool.choose(kChunk, false), &pool.entry(1));
  EXPECT_EQ(&pool.answer(first.get()), second.get());
  second->silent = 0.1;
  EXPECT_TRUE(judge().empty());
  EXPECT_TRUE(pool.all_suspect());
  EXPECT_EQ(&pool.best(), first.get());
}

TEST_F(LanePoolOfTwo, ReportsLanesThatAreSilentForTooLong) {
  first->silent = 10;
  EXPECT_EQ(judge(), std::vector<std::uint32_t>{0});
}

TEST_F(LanePoolOfTwo, ProbesALaneThatIsQuiet) {
  pool.probe(0.1);
  EXPECT_TRUE(first->posted.empty());
  ++pool.entry(1).reads;
  pool.probe(0.6);
  EXPECT_EQ(first->posted, std::vector<FrameType>{FrameType::probe});
  EXPECT_TRUE(second->posted.empty());
}

}  // namespace
}  // namespace tutti
