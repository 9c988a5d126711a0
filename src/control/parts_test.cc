// The pure parts below the control plane.
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/wire.hpp"
#include "control/control_peer.hpp"
#include "control/mailbox.hpp"
#include "control/process_watch.hpp"
#include "control/world/overlay.hpp"

namespace tutti {
namespace {

bool becomes_readable(int descriptor) {
  pollfd entry{descriptor, POLLIN, 0};
  return poll(&entry, 1, 10000) == 1;
}

TEST(Overlay, IsSymmetricAndConnectedWhoeverHasDied) {
  std::mt19937 random(3);
  for (int size = 1; size <= 40; ++size) {
    std::vector<bool> living(static_cast<std::size_t>(size));
    for (int process = 0; process < size; ++process) living[process] = random() % 3 != 0;
    std::vector<bool> reached(living.size());
    std::vector<int> open;
    const auto first = std::find(living.begin(), living.end(), true);
    if (first == living.end()) continue;
    open.push_back(static_cast<int>(first - living.begin()));
    reached[open.front()] = true;
    while (!open.empty()) {
      const int process = open.back();
      open.pop_back();
      for (const int neighbour : overlay_neighbours(process, living)) {
        EXPECT_TRUE(living[neighbour]);
        EXPECT_NE(neighbour, process);
        const auto back = overlay_neighbours(neighbour, living);
        EXPECT_TRUE(std::count(back.begin(), back.end(), process) == 1);
        if (!reached[neighbour]) open.push_back(neighbour);
        reached[neighbour] = true;
      }
    }
    EXPECT_EQ(reached, living);
  }
}

TEST(Overlay, HasLogarithmicDegree) {
  EXPECT_EQ(overlay_neighbours(0, std::vector<bool>(2, true)), std::vector<int>{1});
  EXPECT_LE(overlay_neighbours(5, std::vector<bool>(1024, true)).size(), 20u);
}

TEST(SeenBroadcasts, TellsTheFirstTimeWhateverTheOrder) {
  std::mt19937 random(5);
  SeenBroadcasts seen(2);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; number < 500; ++number) numbers.insert(numbers.end(), 3, number);
  std::shuffle(numbers.begin(), numbers.end(), random);
  int first = 0;
  for (const std::uint64_t number : numbers) first += seen.first_time(1, number) ? 1 : 0;
  EXPECT_EQ(first, 500);
  EXPECT_TRUE(seen.first_time(0, 3));
}

TEST(Mailbox, KeepsABoundedNumberOfMessagesAndForgetsRetiredTopics) {
  Mailbox mailbox;
  for (int number = 0; number < 100; ++number) mailbox.deliver(number, 1, {});
  std::vector<int> got;
  mailbox.set(1, [&](int from, std::span<const std::byte>) { got.push_back(from); });
  mailbox.open(1);
  ASSERT_EQ(got.size(), 64u);
  EXPECT_EQ(got.front(), 36) << "the last word counts";
  EXPECT_EQ(got.back(), 99);
  mailbox.remove(1);
  mailbox.retire(1);
  mailbox.deliver(7, 1, {});
  mailbox.set(1, [&](int from, std::span<const std::byte>) { got.push_back(from); });
  mailbox.open(1);
  EXPECT_EQ(got.size(), 64u);
  mailbox.deliver(8, 1, {});
  EXPECT_EQ(got.back(), 8);
}

TEST(Mailbox, HearsTheLastWordWhateverWasSaidBeforeOnTopicsThatNobodyOpened) {
  Mailbox mailbox;
  for (std::uint64_t topic = 100; topic < 1200; ++topic) mailbox.deliver(0, topic, {});
  mailbox.deliver(5, 7, {});
  std::vector<int> got;
  mailbox.set(7, [&](int from, std::span<const std::byte>) { got.push_back(from); });
  mailbox.open(7);
  EXPECT_EQ(got, std::vector<int>{5});
}

TEST(ProcessWatch, SeesTheEndOfAProcessAndIsNotFooledByAReusedPid) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto start = start_time_of(child);
  ASSERT_TRUE(start);
  const ProcessWatch watch = watch_process(child, *start);
  EXPECT_TRUE(watch.descriptor);
  EXPECT_FALSE(watch.gone);
  EXPECT_TRUE(watch_process(child, *start + 1).gone);
  kill(child, SIGKILL);
  EXPECT_TRUE(becomes_readable(watch.descriptor.get()));
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(watch_process(child, *start).gone);
}

TEST(ControlPeer, SurvivesTheJourneyAndAnOverlongPathDoesNot) {
  ControlPeer peer;
  peer.id = ProcessId::random();
  peer.addresses = {SocketAddress::loopback(AF_INET, 1234)};
  peer.pid = 17;
  peer.start_time = 4711;
  peer.host = "a host";
  peer.local_path = "/proc/17/fd/9";
  const auto bytes = peer.encode();
  const auto decoded = ControlPeer::decode(bytes);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->id, peer.id);
  EXPECT_EQ(decoded->addresses, peer.addresses);
  EXPECT_EQ(decoded->pid, peer.pid);
  EXPECT_EQ(decoded->start_time, peer.start_time);
  EXPECT_EQ(decoded->host, peer.host);
  EXPECT_EQ(decoded->local_path, peer.local_path);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(ControlPeer::decode(std::span(bytes).first(length))) << length;
  const std::string overlong(ControlPeer::kPathLimit + 1, 'x');
  peer.local_path = overlong;
  EXPECT_EQ(ControlPeer::decode(peer.encode()).value().local_path, "");
  WireWriter out;
  for (int number = 0; number < 4; ++number) out.put(std::uint64_t{1});
  for (const std::string& text : {std::string("a host"), overlong}) out.put_text(text);
  out.put(std::uint32_t{0});
  EXPECT_FALSE(ControlPeer::decode(out.take()));
}

}  // namespace
}  // namespace tutti
