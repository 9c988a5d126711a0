// Operations that nobody waits for, or that are only tested: what they promise, on ranks that are threads.
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "algorithm/algorithm.hpp"
#include "communicator/install.hpp"
#include "engine/waiter.hpp"
#include "tutti/communicator.hpp"

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

// Bounds the tests; what is promised is less, but this machine may be busy.
constexpr double kPatience = 20;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

Options impatient(double seconds) {
  Options options;
  options.timeout = seconds;
  return options;
}

void expect_timed_out_on_rank_one(const Error& error) {
  EXPECT_EQ(error.code, ErrorCode::timed_out) << error.to_string();
  EXPECT_NE(error.message.find("waiting for rank 1"), std::string::npos) << error.to_string();
}

TEST(Work, ThatIsOnlyTestedTimesOut) {
  auto all = Communicator::create_threads(2, impatient(0.3)).value();
  Work work = all[0].barrier_async().value();
  const auto start = Clock::now();
  while (!work.test() && seconds_since(start) < kPatience) {
  }
  ASSERT_NE(work.error(), nullptr);
  expect_timed_out_on_rank_one(*work.error());
}

TEST(Work, ThatIsTestedNowAndThenTimesOut) {
  auto all = Communicator::create_threads(2, impatient(0.3)).value();
  Work work = all[0].barrier_async().value();
  const auto start = Clock::now();
  while (!work.test() && seconds_since(start) < kPatience) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_NE(work.error(), nullptr);
  expect_timed_out_on_rank_one(*work.error());
}

TEST(Work, ThatNobodyLooksAfterTimesOut) {
  auto all = Communicator::create_threads(2, impatient(0.3)).value();
  Work work = all[0].barrier_async().value();
  const auto start = Clock::now();
  while (work.error() == nullptr && seconds_since(start) < kPatience)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ASSERT_NE(work.error(), nullptr);
  expect_timed_out_on_rank_one(*work.error());
}

/// What moves beside an operation does not keep it from timing out.
TEST(Work, TimesOutWhileOthersOfItsCommunicatorMove) {
  auto all = Communicator::create_threads(2, impatient(0.3)).value();
  Work work = all[0].barrier_async().value();
  const auto start = Clock::now();
  int sent = 1;
  int received = 0;
  while (work.error() == nullptr && seconds_since(start) < kPatience) {
    Group group;
    ASSERT_TRUE(all[0].send(&sent, 1, DataType::int32, 0));
    ASSERT_TRUE(all[0].recv(&received, 1, DataType::int32, 0));
    if (!group.end()) break;
  }
  (void)work.wait(kPatience);  // the communicator breaks first, and its operations a moment later
  ASSERT_NE(work.error(), nullptr);
  expect_timed_out_on_rank_one(*work.error());
}

TEST(Work, ThousandsThatAreQueuedFailWithTheirCommunicator) {
  auto all = Communicator::create_threads(2).value();
  std::vector<Work> works;
  works.reserve(50000);
  for (int i = 0; i < 50000; ++i) works.push_back(all[0].barrier_async().value());
  all[0].abort("had enough");
  for (Work& work : works) {
    const Status done = work.wait(kPatience);
    ASSERT_FALSE(done);
    ASSERT_EQ(done.error().code, ErrorCode::aborted) << done.error().to_string();
  }
}

/// Wakes a thread that sleeps, and waits for its answer as a caller of a collective does: what the machine takes for
/// that at the moment.
class Echo {
 public:
  Echo() : thread_([this] { answer(); }) {}
  ~Echo() {
    call(-1);
    thread_.join();
  }

  void call(int number) {
    {
      const std::lock_guard lock(mutex_);
      asked_ = number;
      changed_.notify_all();
    }
    Waiter waiter(WaitPolicy::of(false));
    while (answered_.load(std::memory_order_acquire) != number)
      if (waiter.pause() == Waiter::Next::sleep) ::usleep(100);
  }

 private:
  void answer() {
    std::unique_lock lock(mutex_);
    while (answered_ >= 0) {
      changed_.wait(lock, [&] { return asked_ != answered_; });
      answered_.store(asked_, std::memory_order_release);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  int asked_ = 0;
  std::atomic<int> answered_{0};
  std::thread thread_;
};

/// Medians, in microseconds.
struct WakeTimes {
  double own = 0;   // of a call while another thread sleeps in a collective
  double echo = 0;  // of waking a thread, measured in turn
  bool is_good() const { return own < 200 + 4 * echo; }
};

WakeTimes measure_wake_times(Communicator& communicator, Echo& other) {
  constexpr int kRounds = 51;
  std::vector<double> own;
  std::vector<double> echo;
  const auto timed = [](std::vector<double>& into, const auto& work) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // so that the other thread is asleep again
    const auto start = Clock::now();
    work();
    into.push_back(seconds_since(start) * 1e6);
  };
  static int number = 0;
  for (int round = 0; round < kRounds; ++round) {
    ++number;
    timed(echo, [&] { other.call(number); });
    timed(own, [&] {
      const int sent = number;
      int received = -1;
      Group group;
      EXPECT_TRUE(communicator.send(&sent, 1, DataType::int32, 0));
      EXPECT_TRUE(communicator.recv(&received, 1, DataType::int32, 0));
      EXPECT_TRUE(group.end());
      EXPECT_EQ(received, number);
    });
  }
  std::sort(own.begin(), own.end());
  std::sort(echo.begin(), echo.end());
  return {own[kRounds / 2], echo[kRounds / 2]};
}

/// A thread that waits in a collective sleeps with the token; calls of others are not to wait until it wakes by itself,
/// which takes half a millisecond on average. A machine may be busy for a while, but hardly during all batches.
TEST(Work, SubmittedWhileAnotherThreadSleepsIsTakenUpAtOnce) {
  auto all = Communicator::create_threads(2).value();
  std::thread sleeper([&] { EXPECT_TRUE(all[0].barrier()); });
  Echo other;
  WakeTimes best = measure_wake_times(all[0], other);
  for (int batch = 0; batch < 7 && !best.is_good(); ++batch)
    if (const WakeTimes next = measure_wake_times(all[0], other); next.own < best.own) best = next;
  EXPECT_TRUE(all[1].barrier());
  sleeper.join();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which make ours slower, and not the echo
  EXPECT_TRUE(best.is_good()) << best.own << " us, median; of waking a thread: " << best.echo;
#endif
}

/// Runs two threads on one core, the first this process may use.
void on_one_core(const std::function<void(int)>& body) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::size_t core = 0;
  while (!CPU_ISSET(core, &allowed)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  std::vector<std::thread> threads;
  for (int index = 0; index < 2; ++index)
    threads.emplace_back([&, index] {
      ::sched_setaffinity(0, sizeof one, &one);
      body(index);
    });
  for (std::thread& thread : threads) thread.join();
}

/// Returns the microseconds that each of `count` rounds of two threads on one core takes.
double microseconds_each(int count, const std::function<void(int)>& body) {
  const auto start = Clock::now();
  on_one_core([&](int index) {
    for (int i = 0; i < count; ++i) body(index);
  });
  return seconds_since(start) * 1e6 / count;
}

/// The scheduler may put two ranks on one core, where each spins in vain while the other could run. A call is to take a
/// few changes of threads then, whatever those take here, and not a spin. Where others use the core as well, that is
/// what a call waits for.
TEST(Waiting, OnACoreThatTwoRanksShareTakesNoSpin) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's own work takes longer than a spin";
#endif
  auto all = Communicator::create_threads(2).value();
  bool busy = false;
  double change = 0;
  double call = 0;
  for (int attempt = 0; attempt < 10; ++attempt) {
    std::atomic<int> turn{0};
    change = microseconds_each(500, [&](int index) {
      while (turn.load() % 2 != index) ::sched_yield();
      ++turn;
    });
    call = microseconds_each(500, [&](int index) {
      int value = 1;
      ASSERT_TRUE(all[static_cast<std::size_t>(index)].all_reduce(&value, &value, 1, DataType::int32, Operator::max));
    });
    if (call < 2 * change + 16) return;  // two spins take 40
    busy = busy || change > 4;
  }
  if (busy) GTEST_SKIP() << "others use this core";
  FAIL() << "a call takes " << call << " us, two changes of threads " << change << " us";
}

TEST(Group, RefusesAsynchronousCallsAndDoesNotRunThem) {
  auto all = Communicator::create_threads(1).value();
  int sent = 7;
  int received = -1;
  {
    Group group;
    const Result<Work> refused = all[0].all_reduce_async(&sent, &received, 1, DataType::int32, Operator::sum);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
    EXPECT_TRUE(group.end());
  }
  EXPECT_EQ(received, -1) << "a call that was refused was run";
}

TEST(Communicator, ThatIsDroppedFinishesWhatIsUnderWay) {
  auto all = Communicator::create_threads(2).value();
  constexpr std::size_t kCount = 1 << 20;
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // late, so that the other waits
    const std::vector<float> send(kCount, 2.0F);
    std::vector<float> recv(kCount);
    EXPECT_TRUE(all[1].all_reduce(send.data(), recv.data(), kCount, DataType::float32, Operator::sum));
  });
  std::vector<float> send(kCount, 1.0F);
  std::vector<float> recv(kCount);
  {
    Communicator dropped = std::move(all[0]);
    ASSERT_TRUE(dropped.all_reduce_async(send.data(), recv.data(), kCount, DataType::float32, Operator::sum));
  }
  EXPECT_EQ(std::count(recv.begin(), recv.end(), 3.0F), static_cast<std::ptrdiff_t>(kCount));
  peer.join();
}

TEST(Communicator, ThatIsDroppedAbortsWhatNobodyElseCalls) {
  auto all = Communicator::create_threads(2).value();
  const auto start = Clock::now();
  {
    Communicator dropped = std::move(all[0]);
    ASSERT_TRUE(dropped.barrier_async());
  }
  EXPECT_LT(seconds_since(start), kPatience);
  const Status broken = all[1].barrier();
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::aborted);
  EXPECT_NE(broken.error().message.find("rank 0 destroyed its communicator"), std::string::npos);
}

/// Each root sends what it has and needs nothing: all calls end well.
TEST(Communicator, ReportsRootsThatDifferWhenItIsDropped) {
  testing::internal::CaptureStderr();
  {
    auto all = Communicator::create_threads(2).value();
    for (Communicator& each : all) {
      int value = each.rank();
      ASSERT_TRUE(each.broadcast(&value, &value, 1, DataType::int32, each.rank()));
    }
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("#0 is broadcast(1 x int32, root 0) on rank 0 and broadcast(1 x int32, root 1) on rank 1"),
            std::string::npos)
      << log;
}

TEST(Communicator, ReportsNothingWhenRanksThatAgreeDropIt) {
  testing::internal::CaptureStderr();
  {
    auto all = Communicator::create_threads(2).value();
    std::thread other([&] {
      for (int i = 0; i < 100; ++i) ASSERT_TRUE(all[1].barrier());
    });
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(all[0].barrier());
    other.join();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

/// A program of two ranks that all_gathers on the channel it is told.
Program gathers_on(int channel) {
  Program program = make_program("ring", Collective::all_gather, Layout::one_host(2)).value();
  std::vector<RankProgram> parts{program.part(0), program.part(1)};
  for (RankProgram& part : parts)
    for (Worker& worker : part.workers) worker.channel = channel;
  return make_flat("on_one_channel", program.shape, std::move(parts));
}

TEST(Channels, OfProgramsAreNotThoseOfSendsAndReceives) {
  auto all = Communicator::create_threads(2).value();
  for (Communicator& each : all) ASSERT_TRUE(install_program(each, gathers_on(7)));
  std::vector<std::thread> threads;
  for (Communicator& each : all)
    threads.emplace_back([&each] {
      // The send is under way when the collective begins, and met after it.
      const int mine = each.rank() + 10;
      int theirs = -1;
      int gathered[2] = {};
      Result<Work> sending = fail(ErrorCode::internal, "not begun");
      if (each.rank() == 0) sending = each.send_async(&mine, 1, DataType::int32, 1);
      const Status done = each.all_gather(&mine, gathered, 1, DataType::int32);
      ASSERT_TRUE(done) << done.error().to_string();
      EXPECT_EQ(gathered[1], 11);
      if (each.rank() == 0) {
        ASSERT_TRUE(sending->wait(kPatience));
        return;
      }
      ASSERT_TRUE(each.recv(&theirs, 1, DataType::int32, 0));
      EXPECT_EQ(theirs, 10);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tutti
