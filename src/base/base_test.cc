#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <string>
#include <utility>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/rate_limited_log.hpp"
#include "base/settings.hpp"
#include "base/thread.hpp"
#include "base/without_threads_test_kit.hpp"
#include "tutti/types.hpp"

namespace tutti {
namespace {

/// Sleeps, and expects the ticks to have gone as far as the system's clock, between whose readings theirs are.
void expect_ticks_follow_the_clock() {
  using Clock = std::chrono::steady_clock;
  const auto microseconds = [](Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  const auto before = Clock::now();
  const auto start = ticks();
  const auto after_start = Clock::now();
  usleep(20000);
  const auto before_end = Clock::now();
  const double elapsed = microseconds_since(start);
  const auto end = Clock::now();
  EXPECT_GE(elapsed, 0.98 * microseconds(before_end - after_start));
  EXPECT_LE(elapsed, 1.02 * microseconds(end - before));
}

TEST(Clock, TicksFollowTheMonotonicClock) { expect_ticks_follow_the_clock(); }

TEST(Clock, TakesTheCounterOnlyWhereCpuAndKernelVouchForIt) {
  EXPECT_TRUE(is_counter_steady(true, "tsc hpet acpi_pm "));
  EXPECT_TRUE(is_counter_steady(true, "kvm-clock tsc"));
  EXPECT_TRUE(is_counter_steady(true, "")) << "the kernel does not say";
  EXPECT_FALSE(is_counter_steady(true, "hpet acpi_pm ")) << "the kernel found it unstable";
  EXPECT_FALSE(is_counter_steady(true, "hyperv_clocksource_tsc_page"));
  EXPECT_FALSE(is_counter_steady(false, "tsc"));
}

TEST(Clock, DoesWithoutTheCounter) {
  const bool before = std::exchange(g_is_counter_unsteady, true);
  expect_ticks_follow_the_clock();
  EXPECT_EQ(ticks_of_microseconds(3), 3000u);
  g_is_counter_unsteady = before;
}

TEST(Thread, BlocksAllSignalsButThoseOfItsOwnFaultsAndHasItsName) {
  sigset_t mask;
  std::array<char, 16> name{};
  auto thread = start_thread("tutti-test", [&] {
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    pthread_getname_np(pthread_self(), name.data(), name.size());
  });
  ASSERT_TRUE(thread);
  thread->join();
  EXPECT_TRUE(sigismember(&mask, SIGTERM));
  EXPECT_FALSE(sigismember(&mask, SIGSEGV));
  EXPECT_STREQ(name.data(), "tutti-test");
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  EXPECT_FALSE(sigismember(&mask, SIGTERM));
}

TEST(Thread, ThatCannotBeStartedIsAnErrorThatNamesIt) {
  if (!kCanRunWithoutThreads) GTEST_SKIP() << "ThreadSanitizer cannot follow";
  const std::string said = run_without_threads([]() -> std::string {
    const auto thread = start_thread("tutti-test", [] {});
    return thread ? "started" : thread.error().message;
  });
  EXPECT_EQ(said.find("cannot start the thread tutti-test: Resource temporarily unavailable"), 0u) << said;
}

TEST(Thread, ThatCannotBeStartedFailsWhatRunsBeforeADeadline) {
  if (!kCanRunWithoutThreads) GTEST_SKIP() << "ThreadSanitizer cannot follow";
  const std::string said = run_without_threads([]() -> std::string {
    const Status ran = run_before(Deadline::in(5), "the work", []() -> Status { return {}; });
    return ran ? "ran" : ran.error().message;
  });
  EXPECT_EQ(said.find("the work: cannot start the thread"), 0u) << said;
}

TEST(Deadline, NeverDoesNotPassAndZeroPassesAtOnce) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_TRUE(Deadline::in(0).passed());
  EXPECT_EQ(Deadline::never().poll_milliseconds(7), 7);
  EXPECT_EQ(Deadline::in(-1).poll_milliseconds(), 0);
}

TEST(RateLimitedLog, LogsOneLinePerIntervalAndHowManyItStandsFor) {
  RateLimitedLog log(1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(log.catch_up(99), RateLimitedLog::kNothingKept);
  for (int line = 0; line < 4; ++line) log.warn(std::to_string(line), 100 + 0.1 * line);
  EXPECT_EQ(log.catch_up(100.5), 101);
  EXPECT_EQ(log.catch_up(101), RateLimitedLog::kNothingKept);
  log.warn("4", 101.5);
  log.warn("5", 102);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("warn: 0\n"), std::string::npos) << text;
  EXPECT_NE(text.find("warn: 3 (and 2 more, not shown)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("warn: 5 (and 1 more, not shown)\n"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
}

TEST(RunBefore, GivesUpOnWorkThatDoesNotEnd) {
  auto release = std::make_shared<std::atomic<bool>>(false);
  const auto given_up = run_before(Deadline::in(0.02), "the work", [release]() -> Status {
    while (!*release) std::this_thread::yield();
    return {};
  });
  *release = true;
  ASSERT_FALSE(given_up);
  EXPECT_EQ(given_up.error().code, ErrorCode::timed_out);
  EXPECT_TRUE(run_before(Deadline::in(5), "the work", []() -> Status { return {}; }));
}

TEST(Fd, IsClosedInAForkedChildSoThatThePeerSeesTheParentsDeath) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = fork();
  if (child == 0) _exit(write(ends[1], "x", 1) < 0 ? 0 : 1);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the child could still write";
  EXPECT_EQ(write(write_end.get(), "x", 1), 1);
}

TEST(Settings, EveryOneHasHelpAndStandsInOrder) {
  std::string previous;
  for (const SettingInfo& setting : describe_settings()) {
    EXPECT_FALSE(setting.help.empty());
    EXPECT_LT(previous, setting.name);
    previous = setting.name;
  }
}

TEST(Types, NamesAndSizesCoverTheEnumeration) {
  for (int type = 0; type < kDataTypes; ++type) EXPECT_NE(name_of(static_cast<DataType>(type)), "?");
  for (int op = 0; op < kOperators; ++op) EXPECT_NE(name_of(static_cast<Operator>(op)), "?");
  EXPECT_EQ(size_of(DataType::bfloat16), 2u);
}

}  // namespace
}  // namespace tutti
