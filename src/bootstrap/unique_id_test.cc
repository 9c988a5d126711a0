#include "bootstrap/unique_id.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <thread>

namespace {
bool in_forked_child = false;
}

// LeakSanitizer asks this before it looks for leaks. A forked child has no threads, and what the parent's threads held
// is nobody's there.
extern "C" int __lsan_is_turned_off() { return in_forked_child ? 1 : 0; }  // NOLINT(bugprone-reserved-identifier)

namespace tutti {
namespace {

IdParts sample() {
  IdParts parts;
  parts.addresses = {*SocketAddress::parse("10.1.2.3:4567"), *SocketAddress::parse("[2001:db8::7]:4567")};
  parts.secret = std::string(IdParts::kSecretBytes, 's');
  parts.nonce = std::string(IdParts::kNonceBytes, 'n');
  return parts;
}

TEST(UniqueId, HoldsAddressesSecretAndNonce) {
  const auto parts = decode_id(encode_id(sample()));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->addresses, sample().addresses);
  EXPECT_EQ(parts->secret, sample().secret);
  EXPECT_EQ(parts->nonce, sample().nonce);
}

TEST(UniqueId, GoesThroughTextAndBytes) {
  const auto id = UniqueId::from_bytes(encode_id(sample()));
  ASSERT_TRUE(id);
  EXPECT_EQ(id->to_string().size(), 2 * UniqueId::kBytes);
  EXPECT_EQ(*UniqueId::from_string(id->to_string()), *id);
}

TEST(UniqueId, DamagedOnItsWayIsRefused) {
  const auto good = encode_id(sample());
  for (std::size_t at = 0; at < good.size(); ++at) {
    auto bad = good;
    bad[at] ^= std::byte{1};
    EXPECT_FALSE(UniqueId::from_bytes(bad)) << "byte " << at;
  }
  const std::string text = UniqueId::from_bytes(good)->to_string();
  EXPECT_FALSE(UniqueId::from_string(""));
  EXPECT_FALSE(UniqueId::from_string(text.substr(2)));
  EXPECT_FALSE(UniqueId::from_string(text + "00"));
  EXPECT_FALSE(UniqueId::from_string("zz" + text.substr(2)));
}

TEST(UniqueId, BringsAllRanksTogether) {
  const auto id = UniqueId::create();
  ASSERT_TRUE(id) << id.error().to_string();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      auto info = join_info(*UniqueId::from_string(id->to_string()), rank, 4);
      ASSERT_TRUE(info);
      info->blob = {static_cast<std::byte>(rank)};
      const auto blobs = join(*info);
      ASSERT_TRUE(blobs) << blobs.error().to_string();
      EXPECT_EQ((*blobs)[3], Blob{std::byte{3}});
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(UniqueId, TellsHowManyNewcomersWaitUntilItsMeetingIsClosed) {
  const auto id = UniqueId::create();
  ASSERT_TRUE(id);
  std::thread newcomer([&] {
    auto info = join_info(*id, kNewcomer, 0);
    info->local_store.reset();
    info->deadline = Deadline::in(10);
    info->introduce = [](int) { return Result<Blob>(Blob()); };
    const auto gathered = attend(*info);
    ASSERT_FALSE(gathered);
    EXPECT_EQ(gathered.error().code, ErrorCode::rank_died) << gathered.error().to_string();
  });
  const Deadline deadline = Deadline::in(10);
  while (id->waiting() == 0 && !deadline.passed()) std::this_thread::yield();
  EXPECT_EQ(id->waiting(), 1);
  close_meeting(*id);
  newcomer.join();
  EXPECT_EQ(id->waiting(), 0);
}

TEST(UniqueId, GivesNewcomersNumbersAndTurnsAwayThoseTooMany) {
  const auto id = UniqueId::create();
  ASSERT_TRUE(id);
  std::vector<std::thread> threads;
  std::vector<Result<Gathered>> answers(5);
  for (int i = 2; i < 5; ++i)
    threads.emplace_back([&, i] {
      auto info = join_info(*id, kNewcomer, 0);
      info->introduce = [](int size) { return Result<Blob>({static_cast<std::byte>(size)}); };
      answers[static_cast<std::size_t>(i)] = attend(*info);
    });
  const Deadline deadline = Deadline::in(10);
  while (id->waiting() < 3 && !deadline.passed()) std::this_thread::yield();
  for (int rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      auto info = join_info(*id, rank, 4);
      info->newcomers = info->at_least = 2;
      answers[static_cast<std::size_t>(rank)] = attend(*info);
    });
  for (std::thread& thread : threads) thread.join();
  std::multiset<int> numbers;
  for (const auto& answer : answers) {
    if (answer) {
      EXPECT_EQ(answer->blobs, (std::vector<Blob>{{}, {}, {std::byte{4}}, {std::byte{4}}}));
    } else {
      EXPECT_EQ(answer.error().code, ErrorCode::refused) << answer.error().to_string();
    }
    numbers.insert(answer ? answer->rank : -1);
  }
  EXPECT_EQ(numbers, (std::multiset<int>{-1, 0, 1, 2, 3}));
}

TEST(UniqueId, SealedOpensWithTheSecretOnly) {
  const auto id = UniqueId::from_bytes(encode_id(sample()));
  auto sealed = seal(*id, "secret");
  EXPECT_NE(sealed, seal(*id, "secret")) << "a nonce of its own each time";
  EXPECT_EQ(unseal(sealed, "secret").value(), *id);
  EXPECT_FALSE(unseal(sealed, "another"));
  EXPECT_FALSE(unseal(std::span(sealed).first(100), "secret"));
  sealed[60] ^= std::byte{1};
  EXPECT_FALSE(unseal(sealed, "secret"));
}

TEST(UniqueId, KeepsCommunicatorsApart) {
  std::set<std::string> seen;
  std::vector<std::thread> threads;
  std::vector<UniqueId> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(*UniqueId::create());
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(seen.insert(ids[i].to_string()).second);
  for (int i = 0; i < 4; ++i)
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, i, rank] {
        auto info = join_info(ids[i], rank, 2);
        info->blob = {static_cast<std::byte>(i)};
        const auto blobs = join(*info);
        ASSERT_TRUE(blobs) << blobs.error().to_string();
        EXPECT_EQ((*blobs)[1 - rank], Blob{static_cast<std::byte>(i)});
      });
  for (std::thread& thread : threads) thread.join();
}

TEST(UniqueId, LeavesAForkedChildFreeToExit) {
  const auto id = UniqueId::create();
  ASSERT_TRUE(id);
  const pid_t child = fork();
  if (child == 0) {
    in_forked_child = true;
    alarm(10);
    std::exit(7);  // runs the destructors, which must not wait for a thread that is not there
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
}

}  // namespace
}  // namespace tutti
