// What is worked out of a call alone: its signature and key, and where its chunks lie.
#include "engine/call.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "engine/extents.hpp"

namespace tutti {

inline bool operator==(const Extent& a, const Extent& b) { return a.offset == b.offset && a.bytes == b.bytes; }
inline std::ostream& operator<<(std::ostream& out, const Extent& extent) {
  return out << extent.bytes << " bytes at " << extent.offset;
}

namespace {

TEST(Extents, SplitABlockIntoChunksThatBeginOnCacheLines) {
  Extents extents;
  extents.element = 4;
  extents.chunks = 3;
  extents.count = 100;
  EXPECT_EQ(extents.of(0), (Extent{0, 192}));
  EXPECT_EQ(extents.of(1), (Extent{192, 192}));
  EXPECT_EQ(extents.of(2), (Extent{384, 16}));
  EXPECT_EQ(extents.of(4), (Extent{400 + 192, 192})) << "of the next block";
  EXPECT_FALSE(extents.alike());
  EXPECT_EQ(extents.largest(2), 192u);
  extents.count = 20;
  EXPECT_EQ(extents.of(1), (Extent{64, 16}));
  EXPECT_EQ(extents.of(2), (Extent{80, 0})) << "nothing is left for the last";
  extents.count = 96;
  EXPECT_TRUE(extents.alike());
  EXPECT_EQ(extents.whole(2), 2u * 96 * 4);
}

TEST(Extents, OfOneChunkPerBlockAreTheBlock) {
  Extents extents;
  extents.element = 8;
  extents.count = 5;
  EXPECT_EQ(extents.of(0), (Extent{0, 40}));
  EXPECT_EQ(extents.of(2), (Extent{80, 40}));
  EXPECT_TRUE(extents.alike());
  EXPECT_EQ(extents.largest(3), 40u);
}

TEST(Extents, OfUnevenBlocksFollowTheirCountsAndOffsets) {
  const std::vector<std::size_t> counts{10, 0, 30};
  const std::vector<std::size_t> offsets{40, 90, 0};
  Extents extents;
  extents.element = 4;
  extents.counts = counts;
  EXPECT_EQ(extents.of(2), (Extent{40, 120})) << "one after another";
  EXPECT_EQ(extents.largest(3), 120u);
  EXPECT_EQ(extents.whole(3), 160u);
  extents.offsets = offsets;
  EXPECT_EQ(extents.of(0), (Extent{160, 40}));
  EXPECT_EQ(extents.of(2), (Extent{0, 120}));
  EXPECT_EQ(extents.whole(3), 200u) << "an empty block far behind counts for nothing";
}

TEST(Extents, OfTheOnlyBlockThatABufferHoldsBeginAtItsBeginning) {
  const std::vector<std::size_t> counts{10, 40, 30};
  Extents extents;
  extents.element = 4;
  extents.chunks = 2;
  extents.counts = counts;
  extents.only_block = 1;
  EXPECT_EQ(extents.of(0), (Extent{0, 128}));
  EXPECT_EQ(extents.of(1), (Extent{128, 32}));
  EXPECT_EQ(extents.largest(3), 128u);
  EXPECT_EQ(extents.whole(1), 160u);
  extents.counts = {};
  extents.count = 16;
  EXPECT_EQ(extents.largest(3), 64u);
  EXPECT_EQ(extents.whole(1), 64u);
}

Call call_of(Collective collective, std::size_t count = 8) {
  Call call;
  call.collective = collective;
  call.count = count;
  call.type = DataType::int32;
  return call;
}

TEST(Call, HasASignatureOfWhatAllRanksMustAgreeOn) {
  const Call first = call_of(Collective::reduce);
  const auto changed = [&](auto change) {
    Call call = first;
    change(call);
    return signature_of(call) != signature_of(first);
  };
  EXPECT_TRUE(changed([](Call& call) { call.collective = Collective::all_reduce; }));
  EXPECT_TRUE(changed([](Call& call) { call.count = 9; }));
  EXPECT_TRUE(changed([](Call& call) { call.type = DataType::uint32; }));
  EXPECT_TRUE(changed([](Call& call) { call.reduction = Operator::max; }));
  EXPECT_TRUE(changed([](Call& call) { call.root = 1; }));
  EXPECT_TRUE(changed([](Call& call) { call.uneven = true; }));
  EXPECT_FALSE(changed([](Call& call) { call.in_place = true; }));
  EXPECT_FALSE(changed([](Call& call) { call.send = &call; }));
}

TEST(Call, HasASignatureWithoutWhatMeansNothingToItsCollective) {
  Call gathers = call_of(Collective::all_gather);
  const std::uint32_t before = signature_of(gathers);
  gathers.root = 1;
  gathers.reduction = Operator::max;
  EXPECT_EQ(signature_of(gathers), before);
}

TEST(Call, HasCountsOfUnevenBlocksInItsSignatureIfAllRanksKnowThem) {
  const std::vector<std::size_t> some{1, 2};
  const std::vector<std::size_t> others{2, 1};
  const auto signature = [&](Collective collective, const auto& send, const auto& recv) {
    Call call = call_of(collective);
    call.uneven = true;
    call.send_counts = send;
    call.recv_counts = recv;
    return signature_of(call);
  };
  EXPECT_NE(signature(Collective::all_gather, some, some), signature(Collective::all_gather, some, others));
  EXPECT_NE(signature(Collective::reduce_scatter, some, some), signature(Collective::reduce_scatter, others, some));
  EXPECT_EQ(signature(Collective::all_to_all, some, some), signature(Collective::all_to_all, others, others));
}

TEST(Call, HasTheBytesOfTheWholeVectorOrOfAllBlocks) {
  for (const Collective collective : {Collective::all_reduce, Collective::reduce, Collective::broadcast})
    EXPECT_EQ(bytes_of(call_of(collective), 3), 32u) << name_of(collective);
  for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all,
                                      Collective::gather, Collective::scatter})
    EXPECT_EQ(bytes_of(call_of(collective), 3), 96u) << name_of(collective);
  const std::vector<std::size_t> counts{1, 2, 4};
  Call uneven = call_of(Collective::all_gather);
  uneven.uneven = true;
  uneven.send_counts = counts;
  EXPECT_EQ(bytes_of(uneven, 3), 28u);
  uneven.recv_counts = std::span(counts).first(2);
  EXPECT_EQ(bytes_of(uneven, 3), 12u);
}

TEST(CallKey, TellsCallsApartThatNeedPlansOfTheirOwn) {
  const Call first = call_of(Collective::reduce);
  const CallKey key = CallKey::of(first);
  EXPECT_EQ(CallKey::of(call_of(Collective::reduce)), key);
  const auto changed = [&](auto change) {
    Call call = first;
    change(call);
    return !(CallKey::of(call) == key) && CallKey::of(call).hash() != key.hash();
  };
  EXPECT_TRUE(changed([](Call& call) { call.collective = Collective::all_reduce; }));
  EXPECT_TRUE(changed([](Call& call) { call.type = DataType::uint32; }));
  EXPECT_TRUE(changed([](Call& call) { call.reduction = Operator::max; }));
  EXPECT_TRUE(changed([](Call& call) { call.in_place = true; }));
  EXPECT_TRUE(changed([](Call& call) { call.sends = false; }));
  EXPECT_TRUE(changed([](Call& call) { call.root = 1; }));
  EXPECT_TRUE(changed([](Call& call) { call.count = 9; }));
}

}  // namespace
}  // namespace tutti
