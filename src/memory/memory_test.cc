#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "memory/peer_memory.hpp"
#include "memory/region.hpp"
#include "memory/sealed.hpp"

namespace tutti {
namespace {

constexpr std::size_t kPage = 4096;

std::byte* allocate_bytes(std::size_t bytes) { return static_cast<std::byte*>(allocate(bytes).value()); }
RegionView view_of(const void* memory) { return find_region(memory, 1).value(); }

/// Anonymous memory of this process, in kilobytes.
long anonymous_kilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stol(line.substr(8));
  return -1;
}

/// This process as a peer would see it.
PeerMemory ourselves() { return PeerMemory(getpid(), false); }

TEST(Allocate, GivesZeroedMemoryThatIsFoundByAnyAddressInside) {
  void* const memory = allocate(1 << 20).value();
  EXPECT_EQ(static_cast<char*>(memory)[12345], 0);
  const auto view = find_region(static_cast<char*>(memory) + 4096, 100);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->offset, 4096u);
  EXPECT_FALSE(find_region(static_cast<char*>(memory) + 4096, 1 << 20)) << "reaches past the end";
  EXPECT_TRUE(deallocate(memory));
  EXPECT_FALSE(find_region(memory, 1));
}

TEST(Allocate, RejectsWhatCannotBe) {
  EXPECT_EQ(allocate(0).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(allocate(~std::size_t{0}).error().code, ErrorCode::invalid_argument);
  int local = 0;
  EXPECT_EQ(deallocate(&local).error().code, ErrorCode::invalid_argument);
}

TEST(RegisterBuffer, SaysHowPeersReachIt) {
  void* const memory = allocate(4096).value();
  EXPECT_EQ(register_buffer(memory, 4096).value(), Reach::mapped);
  int local = 0;
  EXPECT_NE(register_buffer(&local, sizeof local).value(), Reach::mapped);
  EXPECT_FALSE(register_buffer(nullptr, 8));
  EXPECT_FALSE(register_buffer(&local, ~std::size_t{0})) << "wraps around";
  EXPECT_TRUE(deallocate(memory));
}

TEST(RegisterBuffer, RefusesWhatIsNotAllMemory) {
  void* const pages = ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_TRUE(register_buffer(pages, 3 * kPage));
  ASSERT_EQ(::munmap(static_cast<char*>(pages) + kPage, kPage), 0);
  EXPECT_TRUE(register_buffer(pages, kPage));
  EXPECT_EQ(register_buffer(pages, 3 * kPage).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(::munmap(pages, 3 * kPage), 0);
}

TEST(PeerMemory, MapsWhatAnotherProcessAllocatedAndPullsFromItsStack) {
  auto* const memory = static_cast<char*>(allocate(8192).value());
  char secret[] = "ordinary memory";
  std::strcpy(memory + 100, "allocated memory");
  const pid_t parent = getpid();
  const auto view = find_region(memory, 8192).value();
  const pid_t child = fork();
  if (child == 0) {
    PeerMemory peer(parent, false);
    const auto mapped = peer.map(view.name, 0);
    if (!mapped || std::strcmp(reinterpret_cast<char*>(*mapped) + 100, "allocated memory") != 0) _exit(1);
    (*mapped)[0] = std::byte{42};
    char copy[sizeof secret] = {};
    if (cross_memory_attach_works()) {
      if (!peer.pull(copy, reinterpret_cast<std::uint64_t>(secret), sizeof secret)) _exit(2);
      if (std::strcmp(copy, secret) != 0) _exit(3);
    }
    RegionName wrong = view.name;
    wrong.inode += 1;
    wrong.number += 1;
    if (peer.map(wrong, 0)) _exit(4);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(memory[0], 42);
  EXPECT_TRUE(deallocate(memory));
}

TEST(Allocate, TakesNoMoreMemoryAfterManyPairsThanAfterFew) {
  std::vector<void*> live;
  for (int i = 0; i < 500; ++i) live.push_back(allocate(kPage).value());
  std::mt19937 random(3);
  const auto replace_some = [&](int pairs) {
    for (int i = 0; i < pairs; ++i) {
      void*& memory = live[random() % live.size()];
      ASSERT_TRUE(deallocate(memory));
      memory = allocate(kPage).value();
    }
  };
  replace_some(1000);
  const long before = anonymous_kilobytes();
  replace_some(20000);
  EXPECT_LT(anonymous_kilobytes() - before, 32 << 10) << "kilobytes for 20,000 pairs";
  for (void* const memory : live) EXPECT_TRUE(deallocate(memory));
}

TEST(Allocate, IsFoundWhileOthersComeAndGo) {
  std::byte* const memory = allocate_bytes(2 * kPage);
  const RegionName expected = view_of(memory).name;
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over.load()) {
      const auto view = find_region(memory + kPage, kPage);
      ASSERT_TRUE(view);
      ASSERT_EQ(view->name.number, expected.number);
      ASSERT_EQ(view->name.inode, expected.inode);
      ASSERT_EQ(view->offset, kPage);
    }
  });
  std::vector<void*> others;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 100; ++i) others.push_back(allocate(kPage).value());
    for (void* const each : others) ASSERT_TRUE(deallocate(each));
    others.clear();
  }
  over = true;
  reader.join();
  EXPECT_TRUE(deallocate(memory));
}

TEST(PeerMemory, KeepsAMappingWhenThePeerFreesAnotherRegion) {
  std::byte* const used = allocate_bytes(kPage);
  void* const unused = allocate(kPage).value();
  PeerMemory peer = ourselves();
  const std::byte* const seen = peer.map(view_of(used).name, region_generation()).value();
  ASSERT_TRUE(deallocate(unused));
  std::byte* const sent = allocate_bytes(kPage);
  ASSERT_TRUE(peer.map(view_of(sent).name, region_generation()));
  used[5] = std::byte{7};
  EXPECT_EQ(seen[5], std::byte{7}) << "an operation still reads there";
  EXPECT_EQ(peer.map(view_of(used).name, region_generation()).value(), seen);
  EXPECT_TRUE(deallocate(used));
  EXPECT_TRUE(deallocate(sent));
}

TEST(PeerMemory, GivesUpARegionThatIsFreedOnceNobodyUsesIt) {
  std::byte* const freed = allocate_bytes(kPage);
  std::byte* const other = allocate_bytes(kPage);
  freed[0] = std::byte{9};
  PeerMemory peer = ourselves();
  peer.begin_use();
  const std::byte* const seen = peer.map(view_of(freed).name, region_generation()).value();
  ASSERT_TRUE(deallocate(freed));
  ASSERT_TRUE(peer.map(view_of(other).name, region_generation()));
  EXPECT_EQ(seen[0], std::byte{9}) << "whoever uses it can still read it";
  EXPECT_EQ(peer.mapped(), 2u);
  peer.end_use();
  EXPECT_EQ(peer.mapped(), 1u) << "its memory goes back to the system";
  EXPECT_TRUE(deallocate(other));
}

TEST(Sealed, NobodyChangesTheSizeOfMemoryThatOthersMap) {
  std::byte* const memory = allocate_bytes(kPage);
  const RegionName name = view_of(memory).name;
  const OpenedFile opened = open_sealed(getpid(), name.descriptor, name.inode, name.bytes).value();
  EXPECT_EQ(::ftruncate(opened.get(), 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(opened.get(), 1 << 20), -1);
  EXPECT_TRUE(deallocate(memory));
}

/// While it lives, this process gets no further descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    lowest_free_ = ::dup(STDERR_FILENO);
    none.rlim_cur = static_cast<rlim_t>(lowest_free_) + 1;
    ::setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() {
    ::close(lowest_free_);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  int lowest_free_ = -1;
};

TEST(Sealed, MemoryOfPeersIsOpenedWhereNoDescriptorIsLeft) {
  const auto file = create_sealed("test", 4096, Pages::when_touched).value();
  const NoDescriptors none;
  ASSERT_LT(::dup(STDERR_FILENO), 0);
  for (int time = 0; time < 3; ++time) {
    const auto opened = open_sealed(::getpid(), file.descriptor.get(), file.inode, 4096);
    ASSERT_TRUE(opened) << opened.error().message;
  }
  EXPECT_LT(::dup(STDERR_FILENO), 0) << "it is kept in reserve again";
}

TEST(Sealed, MemoryThatMayShrinkOrIsTooSmallIsNotMapped) {
  const Fd loose(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), kPage), 0);
  struct stat info {};
  ASSERT_EQ(::fstat(loose.get(), &info), 0);
  PeerMemory peer = ourselves();
  RegionName name{loose.get(), 1, info.st_ino, kPage};
  EXPECT_EQ(peer.map(name, 0).error().code, ErrorCode::refused);
  ASSERT_EQ(::fcntl(loose.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  name.bytes = kPage + 1;
  EXPECT_EQ(peer.map(name, 0).error().code, ErrorCode::refused);
  name.bytes = kPage;
  EXPECT_TRUE(peer.map(name, 0));
}

/// Eight pages, each filled with its number, that a peer has mapped.
class Revoke : public testing::Test {
 protected:
  static constexpr std::size_t kPages = 8;

  void SetUp() override {
    for (std::size_t i = 0; i < kPages * kPage; ++i) memory_[i] = number_of(i);
    peer_.begin_use();
    seen_ = peer_.map(before_.name, region_generation()).value();
  }
  void TearDown() override { EXPECT_TRUE(deallocate(memory_)); }

  static std::byte number_of(std::size_t byte) { return static_cast<std::byte>(byte / kPage + 1); }
  void expect_unchanged(std::size_t from, std::size_t to) const {
    for (std::size_t i = from; i < to; ++i) ASSERT_EQ(memory_[i], number_of(i)) << "byte " << i;
  }
  void peer_overwrites() { std::memset(seen_, 99, kPages * kPage); }

  std::byte* memory_ = allocate_bytes(kPages * kPage - 100);
  RegionView before_ = view_of(memory_);
  PeerMemory peer_ = ourselves();
  std::byte* seen_ = nullptr;
};

TEST_F(Revoke, WhatPeersWriteAfterwardsGoesNowhere) {
  ASSERT_TRUE(revoke(memory_, kPages * kPage - 100));
  peer_overwrites();
  expect_unchanged(0, kPages * kPage);
  const auto after = find_region(memory_, kPages * kPage - 100);
  ASSERT_TRUE(after) << "later operations can use it as before";
  EXPECT_NE(after->name.number, before_.name.number);
  std::byte* const again = peer_.map(after->name, region_generation()).value();
  again[17] = std::byte{55};
  EXPECT_EQ(memory_[17], std::byte{55});
}

TEST_F(Revoke, OfAPartLeavesTheRestAsItIs) {
  ASSERT_TRUE(revoke(memory_ + 2 * kPage + 10, kPage));
  peer_overwrites();
  expect_unchanged(2 * kPage, 4 * kPage);
  EXPECT_EQ(memory_[2 * kPage - 1], std::byte{99});
  EXPECT_EQ(memory_[4 * kPage], std::byte{99});
  EXPECT_EQ(view_of(memory_).name.number, before_.name.number);
  const RegionView middle = view_of(memory_ + 3 * kPage);
  EXPECT_NE(middle.name.number, before_.name.number);
  EXPECT_EQ(middle.offset, kPage);
  const RegionView end = view_of(memory_ + 5 * kPage);
  EXPECT_EQ(end.name.number, before_.name.number);
  EXPECT_EQ(end.offset, 5 * kPage);
  EXPECT_FALSE(find_region(memory_ + kPage, 2 * kPage)) << "no peer can map that in one piece";
}

TEST_F(Revoke, MayComeAgain) {
  ASSERT_TRUE(revoke(memory_ + kPage, 2 * kPage));
  ASSERT_TRUE(revoke(memory_ + 2 * kPage, 3 * kPage));
  peer_overwrites();
  expect_unchanged(kPage, 5 * kPage);
  EXPECT_TRUE(find_region(memory_ + 2 * kPage, 3 * kPage));
  ASSERT_TRUE(revoke(memory_, kPages * kPage - 100));
  EXPECT_TRUE(find_region(memory_, kPages * kPage - 100));
}

TEST(RevokeNothing, OfMemoryThatPeersCannotMap) {
  int local = 3;
  EXPECT_TRUE(revoke(&local, sizeof local));
  EXPECT_TRUE(revoke(nullptr, 0));
  EXPECT_EQ(local, 3);
}

}  // namespace
}  // namespace tutti
