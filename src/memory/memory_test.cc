#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "memory/peer_memory.hpp"
#include "memory/region.hpp"

namespace tutti {
namespace {

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
  EXPECT_TRUE(deallocate(memory));
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

}  // namespace
}  // namespace tutti
