// What a process does when the system makes no more threads: every part that has one reports an error.
#include <gtest/gtest.h>

#include "base/without_threads_test_kit.hpp"
#include "bootstrap/store.hpp"
#include "control/control.hpp"
#include "net/socket.hpp"
#include "transport/tcp/tcp.hpp"
#include "tutti/communicator.hpp"
#include "tutti/monitor.hpp"

namespace tutti {
namespace {

template <typename T>
std::string outcome(const Result<T>& result) {
  return result ? "fine" : result.error().message;
}

void expect_named(const std::string& said, const std::string& thread) {
  EXPECT_NE(said.find("cannot start the thread " + thread + ": "), std::string::npos) << said;
}

TEST(WithoutThreads, TheControlPlaneIsNotStarted) {
  if (!kCanRunWithoutThreads) GTEST_SKIP() << "ThreadSanitizer cannot follow";
  expect_named(run_without_threads([] {
                 ControlOptions options;
                 options.listen = {SocketAddress::loopback()};
                 return outcome(Control::start("secret", options));
               }),
               "tutti-control");
}

TEST(WithoutThreads, TheTransportIsNotStarted) {
  if (!kCanRunWithoutThreads) GTEST_SKIP() << "ThreadSanitizer cannot follow";
  expect_named(run_without_threads([] {
                 TcpOptions options;
                 options.listen = {SocketAddress::loopback()};
                 return outcome(Tcp::start("secret", options));
               }),
               "tutti-tcp");
}

TEST(WithoutThreads, TheStoreIsNotStarted) {
  if (!kCanRunWithoutThreads) GTEST_SKIP() << "ThreadSanitizer cannot follow";
  expect_named(run_without_threads([]() -> std::string {
                 std::vector<Fd> listeners;
                 listeners.push_back(std::move(*listen_on(SocketAddress::loopback(), {})));
                 return outcome(Store::start(std::move(listeners), JobKey("secret")));
               }),
               "tutti-store");
}

TEST(WithoutThreads, AnAsynchronousOperationMovesWhenItIsWaitedFor) {
  if (!kCanRunWithoutThreads) GTEST_SKIP() << "ThreadSanitizer cannot follow";
  const std::string said = run_without_threads([]() -> std::string {
    auto alone = Communicator::create_threads(1);
    if (!alone) return alone.error().message;
    float one = 1, sum = 0;
    auto work = alone->front().all_reduce_async(&one, &sum, 1, DataType::float32, Operator::sum);
    if (!work) return work.error().message;
    const Status waited = work->wait(5);
    return waited && sum == 1 ? "fine" : outcome(waited);
  });
  EXPECT_EQ(said, "fine");
}

}  // namespace
}  // namespace tutti
