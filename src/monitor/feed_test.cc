#include "monitor/feed.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "monitor/read/recording_test_kit.hpp"
#include "tutti/monitor.hpp"

namespace tutti {
namespace {

using monitor::Recorder;

/// The recording of this process goes where nothing else looks.
class OwnFolder : public ::testing::Environment {
 public:
  void SetUp() override { ::setenv("TUTTI_MONITOR_DIR", folder_.path().c_str(), 1); }

 private:
  monitor::TemporaryFolder folder_;
};
const auto* const g_own_folder = ::testing::AddGlobalTestEnvironment(new OwnFolder);

void tell(int peer) {
  monitor::Event event;
  event.kind = monitor::EventKind::lane_dropped;
  event.cause = monitor::Cause::path_congested;
  event.peer = peer;
  event.lane = 2;
  event.values[0] = 1e9;
  event.text = "a lane";
  Recorder::of_process().record(event);
}

/// Collects what a handler was called with.
class Heard {
 public:
  std::function<void(const MonitorEvent&)> handler() {
    return [this](const MonitorEvent& event) {
      const std::lock_guard lock(mutex_);
      events_.push_back(event);
      changed_.notify_all();
    };
  }
  std::vector<MonitorEvent> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return events_.size() >= count; });
    return events_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<MonitorEvent> events_;
};

/// Something a handler waits in.
class Gate {
 public:
  void open() { set(open_); }
  void wait() {
    set(reached_);
    wait_until(open_);
  }
  void wait_until_reached() { wait_until(reached_); }

 private:
  void set(bool& what) {
    const std::lock_guard lock(mutex_);
    what = true;
    changed_.notify_all();
  }
  void wait_until(const bool& what) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return what; });
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false, reached_ = false;
};

TEST(Feed, CallsTheHandlerWithWhatWasTold) {
  Heard heard;
  const auto subscription = on_event(heard.handler());
  ASSERT_TRUE(subscription) << subscription.error().message;
  tell(7);
  const auto events = heard.wait_for(1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, MonitorEvent::Kind::lane_dropped);
  EXPECT_EQ(name_of(events[0].kind), "lane_dropped");
  EXPECT_EQ(name_of(events[0].cause), "path_congested");
  EXPECT_EQ(events[0].peer, 7);
  EXPECT_EQ(events[0].lane, 2);
  EXPECT_EQ(events[0].values[0], 1e9);
  EXPECT_EQ(events[0].text, "a lane");
  EXPECT_EQ(events[0].missed, 0u);
  EXPECT_LT(std::chrono::system_clock::now() - events[0].at, std::chrono::seconds(30));
}

TEST(Feed, TellsNothingOfWhatWasBeforeTheSubscription) {
  tell(1);
  Heard heard;
  const auto subscription = on_event(heard.handler());
  tell(2);
  const auto events = heard.wait_for(1);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].peer, 2);
}

TEST(Feed, EndingASubscriptionWaitsForItsHandler) {
  Gate gate;
  std::atomic<bool> is_over{false};
  auto subscription = on_event([&](const MonitorEvent&) {
    gate.wait();
    is_over = true;
  });
  tell(1);
  gate.wait_until_reached();
  std::thread opener([&] { gate.open(); });
  subscription->end();
  EXPECT_TRUE(is_over);
  opener.join();
}

TEST(Feed, AHandlerMayEndItsOwnSubscription) {
  Subscription subscription;
  Heard heard;
  std::mutex mutex;  // held until `subscription` is there
  std::unique_lock lock(mutex);
  auto made = on_event([&](const MonitorEvent& event) {
    const std::lock_guard wait(mutex);
    subscription.end();
    heard.handler()(event);
  });
  tell(1);
  subscription = std::move(*made);
  lock.unlock();
  heard.wait_for(1);
  Heard other;
  const auto later = on_event(other.handler());
  tell(2);
  other.wait_for(1);
  EXPECT_EQ(heard.wait_for(1).size(), 1u);
}

TEST(Feed, ABlockedHandlerDelaysNobodyWhoTells) {
  Gate gate;
  Heard heard;
  auto handler = heard.handler();
  const auto subscription = on_event([&](const MonitorEvent& event) {
    if (event.peer == 0) gate.wait();
    handler(event);
  });
  tell(0);
  gate.wait_until_reached();
  const std::uint64_t room = Recorder::of_process().map().shape().events;
  for (std::uint64_t i = 1; i < 3 * room; ++i) tell(static_cast<int>(i));
  gate.open();
  const auto events = heard.wait_for(1 + room);
  ASSERT_EQ(events.size(), 1 + room);
  EXPECT_EQ(events[1].missed, 2 * room - 1);
  EXPECT_EQ(events.back().peer, static_cast<int>(3 * room - 1));
}

TEST(Feed, NobodyIsWokenOnceTheLastSubscriptionEnded) {
  auto subscription = on_event([](const MonitorEvent&) {});
  EXPECT_TRUE(monitor::feed_door.listening);
  subscription->end();
  EXPECT_FALSE(monitor::feed_door.listening);
  const std::uint32_t before = monitor::feed_door.told;
  tell(1);
  EXPECT_EQ(monitor::feed_door.told, before);
}

TEST(Feed, AChildMadeByForkIsRefusedAndEndsNothing) {
  Heard heard;
  auto subscription = on_event(heard.handler());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = !on_event([](const MonitorEvent&) {});
    subscription->end();
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  tell(5);
  EXPECT_EQ(heard.wait_for(1).size(), 1u);
}

}  // namespace
}  // namespace tutti
