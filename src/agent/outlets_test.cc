#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "agent/event_forwarder.hpp"
#include "agent/files.hpp"
#include "agent/pacing.hpp"
#include "monitor/read/recording_test_kit.hpp"

namespace tutti::agent {
namespace {

std::string contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(CpuBudget, MakesWorkWaitUntilItsShareIsEarned) {
  CpuBudget budget(0.002, 0.005);
  EXPECT_EQ(budget.wait(100), 0);
  budget.spend(0.005, 100);
  EXPECT_EQ(budget.wait(100), 0);
  budget.spend(0.002, 100);
  EXPECT_NEAR(budget.wait(100), 1, 1e-9);
  EXPECT_NEAR(budget.wait(100.5), 0.5, 1e-9);
  EXPECT_EQ(budget.wait(102), 0);
}

TEST(EventFile, AppendsAndFollowsARotation) {
  const monitor::TemporaryFolder folder;
  const std::string path = folder.path() + "/events";
  EventFile file(path);
  file.push("one");
  file.work(100);
  EXPECT_EQ(contents(path), "one\n");
  std::filesystem::rename(path, path + ".1");
  file.push("two");
  file.work(102);
  EXPECT_EQ(contents(path + ".1"), "one\n");
  EXPECT_EQ(contents(path), "two\n");
}

TEST(EventFile, KeepsWhatItCannotWriteAndTriesAgainLater) {
  const monitor::TemporaryFolder folder;
  const std::string path = folder.path() + "/later/events";
  EventFile file(path);
  file.push("one");
  file.work(100);
  EXPECT_EQ(file.failures(), 1u);
  EXPECT_GT(file.due(), 100);
  file.work(100.1);
  EXPECT_EQ(file.failures(), 1u);
  std::filesystem::create_directory(folder.path() + "/later");
  file.work(102);
  EXPECT_EQ(contents(path), "one\n");
}

TEST(EventFile, DoesNotWaitForAPipeThatIsFull) {
  const monitor::TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Fd reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK));
  EventFile file(path);
  for (int i = 0; i < 200; ++i) file.push(std::string(1000, 'x'));
  file.work(100);
  EXPECT_EQ(file.due(), 100.1);
  EXPECT_EQ(file.dropped(), 0u);
}

TEST(TextFile, ReplacesTheFileAsAWhole) {
  const monitor::TemporaryFolder folder;
  const std::string path = folder.path() + "/tutti.prom";
  TextFile file(path, 15);
  file.write(100, "old 1\n");
  EXPECT_EQ(file.due(), 115);
  file.write(115, "new 2\n");
  EXPECT_EQ(contents(path), "new 2\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(TextFile, LeavesTheOldOneWhereItCannotWrite) {
  const monitor::TemporaryFolder folder;
  const std::string path = folder.path() + "/folder/tutti.prom";
  TextFile file(path, 2);
  file.write(100, "x 1\n");
  EXPECT_EQ(file.failures(), 1u);
  EXPECT_GE(file.due(), 102);
}

TEST(TextFile, NeverTakesThePlaceOfWhatIsNoFile) {
  const monitor::TemporaryFolder folder;
  const std::string path = folder.path() + "/tutti.prom";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  TextFile file(path, 2);
  file.write(100, "x 1\n");
  EXPECT_EQ(file.failures(), 1u);
  EXPECT_TRUE(std::filesystem::is_fifo(path));
}

/// Who events are forwarded to, and what it was sent.
class Listener {
 public:
  explicit Listener(std::uint16_t port = 0)
      : socket_(std::move(*listen_on(SocketAddress::loopback(AF_INET, port), PortRange{}))) {}

  std::uint16_t port() const { return local_address(socket_.get())->port(); }
  /// Until `bytes` came, while `from` works.
  std::string receive(std::size_t bytes, EventForwarder& from, double& now) {
    std::string text;
    Fd connection;
    for (const Deadline deadline = Deadline::in(20); text.size() < bytes && !deadline.passed(); now += 0.01) {
      from.work(now);
      if (!connection)
        if (auto accepted = accept_one(socket_.get()); accepted && *accepted)
          connection = std::move((*accepted)->connection);
      std::array<std::byte, 4096> part{};
      if (!connection) continue;
      if (const auto got = recv_some(connection.get(), part)) text.append(reinterpret_cast<char*>(part.data()), *got);
    }
    return text;
  }

 private:
  Fd socket_;
};

TEST(EventForwarder, SendsLinesToWhoeverListens) {
  Listener listener;
  EventForwarder forwarder({"127.0.0.1", listener.port()});
  forwarder.push("one");
  forwarder.push("two");
  double now = 100;
  EXPECT_EQ(listener.receive(8, forwarder, now), "one\ntwo\n");
  EXPECT_TRUE(forwarder.is_connected());
}

TEST(EventForwarder, KeepsLinesWhileNobodyListensAndPausesBetweenAttempts) {
  const std::uint16_t port = Listener().port();
  EventForwarder forwarder({"127.0.0.1", port});
  forwarder.push("one");
  double now = 100;
  int attempts = 0;
  for (; now < 160; now += 0.01) {
    const double before = forwarder.due();
    forwarder.work(now);
    if (forwarder.due() > before) ++attempts;
  }
  EXPECT_LE(attempts, 20);
  EXPECT_FALSE(forwarder.is_connected());
  Listener listener(port);
  EXPECT_EQ(listener.receive(4, forwarder, now), "one\n");
}

TEST(EventForwarder, TriesAllAddressesOfAName) {
  Listener listener;
  const std::uint16_t closed = Listener().port();
  EventForwarder forwarder({"logs.example", 0}, [&](const HostPort&) -> Result<std::vector<SocketAddress>> {
    return std::vector{SocketAddress::loopback(AF_INET, closed), SocketAddress::loopback(AF_INET, listener.port())};
  });
  forwarder.push("one");
  double now = 100;
  EXPECT_EQ(listener.receive(4, forwarder, now), "one\n");
  EXPECT_LT(now, 101) << "it paused between two addresses";
}

TEST(EventForwarder, ComesBackAfterItsPeerWentAway) {
  auto listener = std::make_unique<Listener>();
  const std::uint16_t port = listener->port();
  EventForwarder forwarder({"127.0.0.1", port});
  forwarder.push("one");
  double now = 100;
  EXPECT_EQ(listener->receive(4, forwarder, now), "one\n");
  listener.reset();
  for (const Deadline deadline = Deadline::in(20); forwarder.is_connected() && !deadline.passed();) forwarder.work(now);
  EXPECT_FALSE(forwarder.is_connected());
  forwarder.push("two");
  Listener again(port);
  EXPECT_EQ(again.receive(4, forwarder, now), "two\n");
}

}  // namespace
}  // namespace tutti::agent
