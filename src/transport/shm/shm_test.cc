#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "transport/shm/host.hpp"
#include "transport/shm/peer_fence.hpp"
#include "transport/shm/staging.hpp"

namespace tutti {
namespace {

/// Two ranks of a host, both in this process, and a link from the first to the second.
class ShmLink : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<Segment> segments;
    std::vector<SegmentName> names;
    for (int rank = 0; rank < 2; ++rank) {
      segments.push_back(Segment::create(2).value());
      names.push_back(segments.back().name());
    }
    for (int rank = 0; rank < 2; ++rank) {
      hosts_.emplace_back(std::move(segments[static_cast<std::size_t>(rank)]), names, rank);
      ASSERT_TRUE(hosts_.back().attach(1 - rank));
    }
  }

  void open(DirectFrom direct_from) {
    send_ = hosts_[0].open_send(1, 0, direct_from);
    recv_ = hosts_[1].open_recv(0, 0);
  }

  static std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
    std::vector<std::byte> data(bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>(i * 31 + seed);
    return data;
  }

  /// What poll() shows of the next chunk, which is then released.
  std::vector<std::byte> take() {
    const auto arrival = recv_->poll();
    if (!arrival || (arrival->data == nullptr && arrival->bytes > 0)) return {};
    std::vector<std::byte> data(arrival->data, arrival->data + arrival->bytes);
    recv_->release();
    return data;
  }

  std::vector<Host> hosts_;
  std::unique_ptr<SendLink> send_;
  std::unique_ptr<RecvLink> recv_;
};

TEST_F(ShmLink, BringsChunksOfEverySizeInOrder) {
  open({});
  std::mt19937 random(7);
  for (unsigned turn = 0; turn < 500; ++turn) {
    const std::size_t bytes = turn % 3 == 0 ? random() % 49 : random() % (send_->chunk_limit() + 1);
    const auto data = pattern(bytes, turn);
    ASSERT_TRUE(send_->send(data.data(), bytes, {turn, 5}));
    EXPECT_EQ(send_->released(), send_->sent()) << "a copy needs no memory of the sender's";
    recv_->expect(nullptr, bytes, {turn, 5});
    ASSERT_EQ(take(), data) << "chunk " << turn << " of " << bytes << " bytes";
  }
}

long page_faults() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

/// Otherwise as many chunks would be slow as there are slots, each time they get larger.
TEST_F(ShmLink, TouchesItsMemoryForTheFirstTimeInTheFirstChunkOfASizeOnly) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer touches memory of its own";
#endif
  alignas(4096) static std::byte page[4096];
  if (::madvise(page, sizeof page, 23 /* MADV_POPULATE_WRITE */) != 0) GTEST_SKIP() << "needs Linux 5.14 or later";
  open({});
  for (const std::size_t bytes : {64UL, 20000UL}) {
    const auto data = pattern(bytes, 1);
    const auto pass = [&] {
      ASSERT_TRUE(send_->send(data.data(), bytes, {1, 5}));
      recv_->expect(nullptr, bytes, {1, 5});
      // Compared in place: memory of the test's own must not be touched for the first time, either.
      const auto arrival = recv_->poll();
      ASSERT_TRUE(arrival && arrival->bytes == bytes && std::memcmp(arrival->data, data.data(), bytes) == 0);
      recv_->release();
    };
    pass();
    const long before = page_faults();
    for (int chunk = 1; chunk < slots_for(2); ++chunk) pass();
    EXPECT_LT(page_faults() - before, slots_for(2) / 2) << bytes << " bytes";
  }
}

TEST_F(ShmLink, RefusesMoreThanItHolds) {
  open({});
  const auto data = pattern(1000, 1);
  const int slots = slots_for(2);
  for (int i = 0; i < slots; ++i) ASSERT_TRUE(send_->send(data.data(), data.size(), {}));
  EXPECT_FALSE(send_->send(data.data(), data.size(), {})) << "all slots are taken";
  ASSERT_TRUE(send_->send(data.data(), 8, {})) << "a line is left";
  recv_->expect(nullptr, data.size(), {});
  EXPECT_EQ(take(), data);
  EXPECT_TRUE(send_->send(data.data(), data.size(), {})) << "a slot is free again";
}

TEST_F(ShmLink, LeavesLargeChunksWhereTheyAreAndSaysWhenTheyAreFree) {
  open({.mapped = 4096, .ordinary = 4096});
  const auto data = pattern(5000, 2);
  ASSERT_TRUE(send_->send(data.data(), data.size(), {}));
  EXPECT_LT(send_->released(), send_->sent());
  recv_->expect(nullptr, data.size(), {});
  const auto arrival = recv_->poll();
  ASSERT_TRUE(arrival);
  EXPECT_EQ(arrival->data, data.data()) << "nothing was copied";
  recv_->release();
  EXPECT_EQ(send_->released(), send_->sent());
  ASSERT_TRUE(send_->send_copy(data.data(), data.size(), {}));
  EXPECT_EQ(send_->released(), send_->sent()) << "a copy was asked for";
}

TEST_F(ShmLink, ShowsNothingOfAChunkThatWasNotExpected) {
  open({});
  const auto data = pattern(100, 3);
  ASSERT_TRUE(send_->send(data.data(), data.size(), {4, 77}));
  recv_->expect(nullptr, data.size(), {4, 78});
  const auto arrival = recv_->poll();
  ASSERT_TRUE(arrival);
  EXPECT_EQ(arrival->data, nullptr);
  EXPECT_EQ(arrival->tag, (OperationTag{4, 77}));
}

TEST(Segment, OfAnotherProcessIsMappedOnlyIfItsSizeIsFixed) {
  const Segment segment = Segment::create(2).value();
  SegmentName name = segment.name();
  name.process ^= 1;  // as another process sees it
  EXPECT_TRUE(Segment::attach(name));
  const Fd loose(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(loose.get(), static_cast<off_t>(name.bytes)), 0);
  struct stat info {};
  ASSERT_EQ(::fstat(loose.get(), &info), 0);
  name.descriptor = loose.get();
  name.inode = info.st_ino;
  EXPECT_EQ(Segment::attach(name).error().code, ErrorCode::refused);
}

/// Pages that the file of a segment has.
long blocks_of(const SegmentName& name) {
  struct stat info {};
  EXPECT_EQ(::fstat(name.descriptor, &info), 0);
  return info.st_blocks;
}

void touch_slot(const Segment& segment) { std::memset(segment.pipe_from(1, 0).slot(0), 1, kSlotBytes); }

/// A descriptor each would be one too many for those who have hundreds of communicators.
TEST(Segment, SharesItsDescriptorWithTheOthersOfItsProcess) {
  const Segment one = Segment::create(2).value();
  const Segment other = Segment::create(2).value();
  EXPECT_EQ(one.name().descriptor, other.name().descriptor);
  EXPECT_GE(other.name().offset, one.name().offset + one.name().bytes);
}

TEST(Segment, StaysAsItIsUntilItsLastUserIsGone) {
  const Segment keeps_file = Segment::create(2).value();
  const long before = blocks_of(keeps_file.name());
  std::optional<Segment> owned = Segment::create(2).value();
  touch_slot(*owned);
  SegmentName name = owned->name();
  name.process ^= 1;  // as another process sees it
  std::optional<Segment> attached = Segment::attach(name).value();
  owned.reset();
  EXPECT_EQ(*attached->pipe_from(1, 0).slot(0), std::byte{1});
  EXPECT_EQ(Segment::attach(name).error().code, ErrorCode::rank_died) << "its owner has given it up";
  EXPECT_GT(blocks_of(keeps_file.name()), before);
  attached.reset();
  EXPECT_EQ(blocks_of(keeps_file.name()), before) << "the last one removes the pages";
  EXPECT_EQ(Segment::attach(name).error().code, ErrorCode::rank_died);
}

int mapped_segments() {
  int count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("tutti-segments") != std::string::npos ? 1 : 0;
  return count;
}

TEST(Segment, IsUnmappedByItsOwnerWithTheNextOnceItsLastUserIsGone) {
  const Segment keeps_file = Segment::create(2).value();
  { const Segment clears_up = Segment::create(2).value(); }
  const int before = mapped_segments();
  std::optional<Segment> owned = Segment::create(2).value();
  SegmentName name = owned->name();
  name.process ^= 1;  // as another process sees it
  std::optional<Segment> attached = Segment::attach(name).value();
  owned.reset();
  attached.reset();  // removes the pages, and with them the count of users
  const Segment next = Segment::create(2).value();
  EXPECT_EQ(mapped_segments(), before + 1);
}

TEST(Segment, OfWhichAUserWasKilledIsRemovedWithTheNext) {
  const Segment keeps_file = Segment::create(2).value();
  const long before = blocks_of(keeps_file.name());
  std::optional<Segment> owned = Segment::create(2).value();
  touch_slot(*owned);
  const SegmentName name = owned->name();
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto attached = Segment::attach(name);
    const char said = attached ? 'y' : 'n';
    if (::write(ready[1], &said, 1) == 1) ::pause();
    ::_exit(1);
  }
  char said = 0;
  ASSERT_EQ(::read(ready[0], &said, 1), 1);
  EXPECT_EQ(said, 'y');
  owned.reset();
  EXPECT_GT(blocks_of(keeps_file.name()), before) << "the child may still look at it";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const Segment next = Segment::create(2).value();
  EXPECT_LE(blocks_of(keeps_file.name()), before + 8) << "of the next one only the first page is touched";
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(ShmLink, ARankThatGaveUpWaitsUntilItsPeersAreOutside) {
  ASSERT_TRUE(hosts_[1].begin_touching());
  std::atomic<bool> outside{false};
  std::thread peer([&] {
    outside = true;
    hosts_[1].end_touching();
  });
  PeerFence fence(hosts_[0], 0);
  while (!fence.close()) std::this_thread::yield();
  EXPECT_TRUE(fence.stuck().empty()) << "threads of a process are waited for as long as it takes";
  EXPECT_TRUE(outside);
  peer.join();
  EXPECT_FALSE(hosts_[1].begin_touching()) << "nothing is touched any more";
  EXPECT_TRUE(hosts_[1].stopped());
  EXPECT_FALSE(hosts_[0].stopped());
}

/// Two ranks of a host, the second as another process.
TEST(Host, NamesPeersOfOtherProcessesThatDoNotComeOutInTime) {
  std::vector<Segment> segments;
  for (int rank = 0; rank < 2; ++rank) segments.push_back(Segment::create(2).value());
  std::vector<SegmentName> names{segments[0].name(), segments[1].name()};
  names[1].process ^= 1;
  Host host(std::move(segments[0]), names, 0);
  Fence& peer = segments[1].head().fence;
  peer.inside = 1;
  PeerFence fence(host, 0.05);
  EXPECT_FALSE(fence.close());
  EXPECT_EQ(peer.stopped, 1u);
  while (!fence.close()) std::this_thread::yield();
  EXPECT_EQ(fence.stuck(), std::vector<int>{1});
  peer.inside = 0;
  PeerFence other(host, 0.05);
  EXPECT_TRUE(other.close());
  EXPECT_TRUE(other.stuck().empty());
}

/// A machine whose copies cost `plain` and `past`.
struct Machine {
  float plain;
  float past;
};

/// Runs copies and returns how many of them went past the caches.
int run(StagingChoice& choice, Machine machine, int copies) {
  int past = 0;
  for (int i = 0; i < copies; ++i) {
    const StagingChoice::Copy copy = choice.next();
    past += copy.past ? 1 : 0;
    if (copy.timed) choice.learn(copy.past, copy.past ? machine.past : machine.plain);
  }
  return past;
}

TEST(Staging, StaysWithPlainStoresWhereTheyAreBest) {
  StagingChoice choice;
  run(choice, {1, 2}, 2000);
  EXPECT_LT(run(choice, {1, 2}, 10000), 100) << "the other way is tried rarely";
}

TEST(Staging, ChangesSoonAndBack) {
  StagingChoice choice;
  run(choice, {5, 1}, 64);
  EXPECT_GT(run(choice, {5, 1}, 1000), 950);
  run(choice, {5, 1}, 10000);
  run(choice, {1, 2}, 1100);
  EXPECT_LT(run(choice, {1, 2}, 1000), 50) << "the cores have moved";
}

TEST(Staging, DoesNotChangeForALittle) {
  StagingChoice choice;
  EXPECT_LT(run(choice, {1.0F, 0.95F}, 5000), 200);
}

}  // namespace
}  // namespace tutti
