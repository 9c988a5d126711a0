#include "agent/server.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

namespace tutti::agent {
namespace {

/// A server that is served by a thread while the test talks to it.
class Served {
 public:
  explicit Served(std::string token = "") {
    auto opened = Server::open(SocketAddress::loopback(), std::move(token), [this](std::string_view path) {
      ++asked_;
      return HttpResponse{200, "text/plain", std::make_shared<const std::string>(std::string(path) + "\n" + filler_)};
    });
    server_ = std::move(*opened);
    thread_ = std::thread([this] {
      while (!stop_) {
        pollfd entry{server_->descriptor(), POLLIN, 0};
        ::poll(&entry, 1, static_cast<int>(std::min(50.0, std::ceil(1e3 * server_->wait()))));
        server_->serve();
      }
    });
  }
  ~Served() {
    stop_ = true;
    thread_.join();
  }

  void fill(std::size_t bytes) { filler_ = std::string(bytes, 'x'); }
  int asked() const { return asked_; }
  Fd connect() const { return std::move(*connect_once(server_->address(), Deadline::in(10))); }
  std::string ask(const std::string& request) const {
    const Fd connection = connect();
    EXPECT_TRUE(send_all(connection.get(), std::as_bytes(std::span(request)), Deadline::in(10)));
    return rest(connection);
  }
  /// Until the server closes.
  static std::string rest(const Fd& connection) {
    std::string text;
    std::array<std::byte, 4096> part{};
    while (wait_for(connection.get(), POLLIN, Deadline::in(20))) {
      const auto got = recv_some(connection.get(), part);
      if (!got) break;
      text.append(reinterpret_cast<const char*>(part.data()), *got);
    }
    return text;
  }

 private:
  std::string filler_;
  std::atomic<int> asked_{0};
  std::atomic<bool> stop_{false};
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

const std::string kGet = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

TEST(Server, AnswersAGetAndCloses) {
  const Served served;
  const std::string answer = served.ask(kGet);
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_NE(answer.find("\r\n\r\n/metrics\n"), std::string::npos) << answer;
}

TEST(Server, RefusesWhoeverHasNotTheToken) {
  const Served served("a-long-secret-token");
  EXPECT_TRUE(served.ask(kGet).starts_with("HTTP/1.1 401 "));
  const auto bearing = [](const std::string& token) {
    return "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\n\r\n";
  };
  EXPECT_TRUE(served.ask(bearing("a-long-secret-tokem")).starts_with("HTTP/1.1 401 "));
  EXPECT_TRUE(served.ask(bearing("a-long-secret-token")).starts_with("HTTP/1.1 200 "));
  EXPECT_TRUE(served.ask("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(served.asked(), 1);
}

TEST(Server, TakesNothingButGet) {
  const Served served;
  EXPECT_TRUE(
      served.ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc").starts_with("HTTP/1.1 405 "));
}

TEST(Server, AnswersWhileOthersSayNothingOrHalfOfIt) {
  const Served served;
  std::vector<Fd> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(served.connect());
    const std::string half = kGet.substr(0, 10);
    if (i % 2 == 1) continue;
    ASSERT_TRUE(send_all(silent.back().get(), std::as_bytes(std::span(half)), Deadline::in(10)));
  }
  EXPECT_TRUE(served.ask(kGet).starts_with("HTTP/1.1 200 "));
}

TEST(Server, AnswersWhileOthersDoNotReadTheirAnswers) {
  Served served;
  served.fill(8 << 20);
  std::vector<Fd> deaf;
  for (int i = 0; i < 20; ++i) {
    deaf.push_back(served.connect());
    ASSERT_TRUE(send_all(deaf.back().get(), std::as_bytes(std::span(kGet)), Deadline::in(10)));
  }
  EXPECT_GT(served.ask(kGet).size(), std::size_t{8} << 20);
}

TEST(Server, CutsOffWhoeverSendsSlowly) {
  const Served served;
  const Fd slow = served.connect();
  const Deadline patience = Deadline::in(30);
  const auto begun = Deadline::Clock::now();
  std::array<std::byte, 16> answer{};
  bool is_open = true;
  while (is_open && !patience.passed()) {
    const std::byte letter{'a'};
    is_open = send_some(slow.get(), std::span(&letter, 1)).has_value() && recv_some(slow.get(), answer).has_value();
    if (is_open) (void)wait_for(slow.get(), POLLIN, Deadline::in(0.5));
  }
  EXPECT_FALSE(is_open);
  EXPECT_LT(Deadline::Clock::now() - begun, std::chrono::seconds(15));
}

}  // namespace
}  // namespace tutti::agent
