// Communicators by unique id, of ranks that are threads: which of them share a job. tests/integration creates those of
// processes.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "bootstrap/unique_id.hpp"
#include "communicator/job/job.hpp"
#include "net/free_port_test_kit.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

using Slot = std::optional<Communicator>;

Options patient() {
  Options options;
  options.join_timeout = 20;
  options.timeout = 20;
  return options;
}

void on_threads(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::vector<std::thread> threads;
  for (std::size_t index = 0; index < count; ++index) threads.emplace_back([&, index] { body(index); });
  for (std::thread& thread : threads) thread.join();
}

/// Each rank on a thread of its own.
std::vector<Slot> create(int size) {
  const UniqueId id = UniqueId::create().value();
  std::vector<Slot> all(static_cast<std::size_t>(size));
  on_threads(all.size(), [&](std::size_t rank) {
    auto made = Communicator::create(id, static_cast<int>(rank), size, patient());
    ASSERT_TRUE(made) << made.error().to_string();
    all[rank].emplace(std::move(*made));
  });
  return all;
}

void expect_works(std::vector<Slot>& all) {
  on_threads(all.size(), [&](std::size_t rank) {
    ASSERT_TRUE(all[rank]);
    const auto mine = static_cast<int>(rank) + 1;
    int sum = 0;
    const Status done = all[rank]->all_reduce(&mine, &sum, 1, DataType::int32, Operator::sum);
    EXPECT_TRUE(done) << done.error().to_string();
    const auto size = static_cast<int>(all.size());
    EXPECT_EQ(sum, size * (size + 1) / 2);
  });
}

std::size_t entries_of(const char* folder) {
  const std::filesystem::directory_iterator entries(folder);
  return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

/// Of this process.
struct Use {
  std::size_t threads = entries_of("/proc/self/task");
  std::size_t descriptors = entries_of("/proc/self/fd");
};

/// Waits until it is so, for some seconds at most: stores and threads of ours end shortly after their last user.
bool soon(const std::function<bool()>& is_so) {
  for (int i = 0; i < 500 && !is_so(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return is_so();
}

bool there_are_jobs(std::size_t count) {
  return soon([&] { return Job::all().size() == count; });
}

TEST(Create, MoreCommunicatorsOfTheSameProcessesTakeNoThreadsAndNoDescriptors) {
  std::vector<Slot> first = create(2);
  expect_works(first);
  std::vector<std::vector<Slot>> more;
  more.push_back(create(2));
  EXPECT_TRUE(there_are_jobs(2)) << "one for each rank: the threads stand for processes";
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // until the last store has ended
  const Use before;
  for (int i = 0; i < 20; ++i) more.push_back(create(2));
  EXPECT_TRUE(soon([&] { return Use().threads <= before.threads; })) << Use().threads << " > " << before.threads;
  EXPECT_TRUE(soon([&] { return Use().descriptors <= before.descriptors; }))
      << Use().descriptors << " > " << before.descriptors;
  EXPECT_TRUE(there_are_jobs(2));
  for (auto& each : more) expect_works(each);
  first.clear();  // those made later need it no more
  for (auto& each : more) expect_works(each);
}

TEST(Create, SomeOfTheProcessesOfAJobMakeACommunicatorInIt) {
  std::vector<Slot> all = create(3);
  std::vector<Slot> two = create(2);
  EXPECT_TRUE(there_are_jobs(3));
  expect_works(two);
  expect_works(all);
}

TEST(Create, AJobEndsWithItsLastCommunicator) {
  std::vector<Slot> first = create(2);
  std::vector<Slot> second = create(2);
  first.clear();
  EXPECT_TRUE(there_are_jobs(2));
  second.clear();
  EXPECT_TRUE(there_are_jobs(0));
}

TEST(Create, ProcessesWithoutACommonJobMakeOne) {
  std::vector<Slot> two = create(2);
  std::vector<Slot> three = create(3);  // no place for the third in the first job
  EXPECT_TRUE(there_are_jobs(5));
  expect_works(three);
  std::vector<Slot> more = create(3);
  EXPECT_TRUE(there_are_jobs(5));
  expect_works(more);
  expect_works(two);
}

TEST(Create, AJobThatOneProcessHasLeftIsNotUsedWithIt) {
  std::vector<Slot> first = create(2);
  first[1].reset();
  std::vector<Slot> second = create(2);
  EXPECT_TRUE(there_are_jobs(3));
  expect_works(second);
}

/// What a secret is to protect does not go over connections that were made without one.
TEST(Create, AJobWithoutASecretIsNotUsedForAnIdThatHasOne) {
  ::setenv("TUTTI_RANK", "0", 1);
  ::setenv("TUTTI_SIZE", "1", 1);
  ::setenv("TUTTI_ADDRESS", ("127.0.0.1:" + std::to_string(free_port())).c_str(), 1);
  const auto open = Communicator::create_from_environment(patient());
  for (const char* name : {"TUTTI_RANK", "TUTTI_SIZE", "TUTTI_ADDRESS"}) ::unsetenv(name);
  ASSERT_TRUE(open) << open.error().to_string();
  EXPECT_TRUE(there_are_jobs(1));
  std::vector<Slot> secret = create(1);
  EXPECT_TRUE(there_are_jobs(2));
  std::vector<Slot> more = create(1);
  EXPECT_TRUE(there_are_jobs(2));
  expect_works(more);
}

TEST(Create, SeveralAtOnceDoNotWaitForOneAnother) {
  std::vector<Slot> first = create(2);
  std::vector<std::vector<Slot>> made(8);
  on_threads(made.size(), [&](std::size_t index) { made[index] = create(2); });
  for (auto& each : made) expect_works(each);
  EXPECT_TRUE(there_are_jobs(2));
}

TEST(Create, ACommunicatorThatBreaksLeavesTheOthersOfItsJobAlone) {
  std::vector<Slot> first = create(2);
  std::vector<Slot> second = create(2);
  first[0]->abort("enough");
  int one = 1, sum = 0;
  EXPECT_FALSE(first[1]->all_reduce(&one, &sum, 1, DataType::int32, Operator::sum));
  expect_works(second);
  std::vector<Slot> third = create(2);
  expect_works(third);
  EXPECT_TRUE(there_are_jobs(2));
}

TEST(Create, ARankThatDestroyedItsCommunicatorIsMissed) {
  std::vector<Slot> first = create(2);
  std::vector<Slot> second = create(2);
  second[1].reset();
  const auto start = std::chrono::steady_clock::now();
  const Status met = second[0]->barrier();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::rank_died) << met.error().to_string();
  EXPECT_NE(met.error().message.find("rank 1 has left"), std::string::npos) << met.error().message;
  expect_works(first);
}

/// Requests a stop after a moment.
class Canceller {
 public:
  ~Canceller() { thread_.join(); }

  Options options() const {
    Options options = patient();
    options.cancel = source_.get_token();
    return options;
  }

 private:
  std::stop_source source_;
  std::thread thread_{[this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    source_.request_stop();
  }};
};

/// The store of an id that was made here is given a second to tell the other ranks.
void expect_cancelled(const std::function<Result<Communicator>(const Options&)>& make) {
  const Canceller canceller;
  const auto start = std::chrono::steady_clock::now();
  const auto made = make(canceller.options());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::aborted) << made.error().to_string();
}

TEST(Create, CanBeCancelledWhileOtherRanksAreMissing) {
  for (const int rank : {0, 1})
    expect_cancelled([&](const Options& options) {
      auto made = Communicator::create(UniqueId::create().value(), rank, 2, options);
      EXPECT_TRUE(made || made.error().rank == rank);
      return made;
    });
}

TEST(Create, CanBeCancelledWhileTheStoreDoesNotAnswer) {
  const Fd silent(::socket(AF_INET, SOCK_STREAM, 0));  // listens, and accepts nobody
  const SocketAddress any = SocketAddress::loopback();
  ASSERT_EQ(::bind(silent.get(), reinterpret_cast<const sockaddr*>(&any.storage), any.length), 0);
  ASSERT_EQ(::listen(silent.get(), 0), 0);
  const IdParts parts{{*local_address(silent.get())}, std::string(32, 's'), std::string(16, 'n')};
  const UniqueId id = UniqueId::from_bytes(encode_id(parts)).value();
  expect_cancelled([&](const Options& options) { return Communicator::create(id, 1, 2, options); });
}

TEST(Create, JoiningAsANewcomerCanBeCancelled) {
  const UniqueId id = UniqueId::create().value();  // nobody invites
  expect_cancelled([&](const Options& options) { return Communicator::join(id, -1, options); });
}

TEST(Create, AnOldRequestToCancelEndsItAtOnce) {
  std::stop_source cancel;
  cancel.request_stop();
  Options options = patient();
  options.cancel = cancel.get_token();
  const auto made = Communicator::create(UniqueId::create().value(), 0, 1, options);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::aborted);
}

TEST(Create, OneThreadMakesSeveralRanks) {
  const UniqueId id = UniqueId::create().value();
  std::optional<std::vector<Communicator>> here[2];
  on_threads(2, [&](std::size_t process) {
    const std::vector<int> ranks = process == 0 ? std::vector<int>{0, 3} : std::vector<int>{1, 2};
    auto made = Communicator::create(id, ranks, 4, patient());
    ASSERT_TRUE(made) << made.error().to_string();
    for (std::size_t i = 0; i < ranks.size(); ++i) EXPECT_EQ((*made)[i].rank(), ranks[i]);
    here[process].emplace(std::move(*made));
  });
  std::vector<Slot> all(4);
  for (auto& each : here)
    for (Communicator& communicator : *each)
      all[static_cast<std::size_t>(communicator.rank())] = std::move(communicator);
  expect_works(all);
}

TEST(Create, SeveralRanksFailTogetherAndSoon) {
  const UniqueId id = UniqueId::create().value();
  const auto start = std::chrono::steady_clock::now();
  const auto made = Communicator::create(id, std::vector<int>{0, 7}, 4, patient());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::invalid_argument) << made.error().to_string();
  EXPECT_EQ(Communicator::create(id, std::span<const int>(), 4).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace tutti
