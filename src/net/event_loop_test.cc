#include "net/event_loop.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace tutti {
namespace {

TEST(EventLoop, CountsItsOwnAbsenceForNobody) {
  EventLoop loop(0.05);
  ASSERT_TRUE(loop.open());
  loop.run_once(loop.now());
  const double before = loop.now();
  loop.post([] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); });
  loop.run_once(loop.now() + 10);
  loop.run_once(loop.now());
  EXPECT_LT(loop.now() - before, 0.25);
}

TEST(EventLoop, WakesForPostedWork) {
  EventLoop loop(1);
  ASSERT_TRUE(loop.open());
  bool ran = false;
  std::thread other([&] { loop.post([&] { ran = true; }); });
  while (!ran) loop.run_once(loop.now() + 10);
  other.join();
}

}  // namespace
}  // namespace tutti
