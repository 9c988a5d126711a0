#include "collector/webhook.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>

namespace tutti::collector {
namespace {

std::string error_of(const char* url) {
  const auto target = WebhookTarget::parse(url);
  return target ? "fine" : target.error().message;
}

TEST(WebhookTarget, is_taken_apart) {
  const auto target = WebhookTarget::parse("http://alerts.example:8080/tutti?x=1").value();
  EXPECT_EQ(target.where.host, "alerts.example");
  EXPECT_EQ(target.where.port, 8080);
  EXPECT_EQ(target.host, "alerts.example:8080");
  EXPECT_EQ(target.path, "/tutti?x=1");
  EXPECT_EQ(WebhookTarget::parse("http://alerts.example").value().where.port, 80);
  EXPECT_EQ(WebhookTarget::parse("http://[::1]/x").value().where.host, "::1");
  EXPECT_EQ(WebhookTarget::parse("http://[::1]:81/x").value().where.port, 81);
}

TEST(WebhookTarget, says_what_to_do_about_https) {
  EXPECT_NE(error_of("https://alerts.example/").find("put a proxy"), std::string::npos);
  EXPECT_EQ(error_of("alerts.example"), "alerts.example: expected http://HOST[:PORT][/PATH]");
  EXPECT_EQ(error_of("http://:/"), "http://:/: expected http://HOST[:PORT][/PATH]");
  EXPECT_NE(error_of("http://a/ b\r\nX: y").find("no spaces"), std::string::npos);
}

/// A web server that answers each request as it is told.
class WebServer {
 public:
  WebServer() : listener_(std::move(*listen_on(SocketAddress::loopback(AF_INET, 0), PortRange{}))) {}

  std::string url() const {
    return fmt::format("http://127.0.0.1:{}/verdicts", local_address(listener_.get())->port());
  }
  /// The next request, and answers it.
  std::string serve(const std::string& answer) const {
    const Deadline deadline = Deadline::in(20);
    auto accepted = accept_before(listener_.get(), deadline);
    if (!accepted) return "nobody came";
    std::string request;
    while (!request.ends_with("}\n")) {
      if (!wait_for(accepted->connection.get(), POLLIN, deadline)) return request;
      std::array<std::byte, 4096> part{};
      const auto got = recv_some(accepted->connection.get(), part);
      if (!got) return request;
      request.append(reinterpret_cast<const char*>(part.data()), *got);
    }
    EXPECT_TRUE(send_all(accepted->connection.get(), std::as_bytes(std::span(answer)), deadline));
    return request;
  }

 private:
  Fd listener_;
};

TEST(Webhook, posts_lines_in_order_and_again_until_they_are_taken) {
  const WebServer server;
  const auto webhook = Webhook::start(WebhookTarget::parse(server.url()).value()).value();
  webhook->push(R"({"n": 1})");
  webhook->push(R"({"n": 2})");
  const std::string first = server.serve("HTTP/1.1 503 Busy\r\n\r\n");
  EXPECT_TRUE(first.starts_with("POST /verdicts HTTP/1.1\r\n")) << first;
  EXPECT_NE(first.find("Content-Length: 9\r\n"), std::string::npos) << first;
  EXPECT_TRUE(server.serve("HTTP/1.1 204 No Content\r\n\r\n").ends_with("{\"n\": 1}\n"));
  EXPECT_TRUE(server.serve("HTTP/1.1 200 OK\r\n\r\n").ends_with("{\"n\": 2}\n"));
}

TEST(Webhook, keeps_the_newest_while_nobody_listens_and_holds_nobody_up) {
  const auto target = WebhookTarget::parse(WebServer().url()).value();
  const Deadline deadline = Deadline::in(3);
  {
    const auto webhook = Webhook::start(target).value();
    for (std::size_t i = 0; i < Webhook::kMostLines + 10; ++i) webhook->push(fmt::format("{{\"n\": {}}}", i));
    // The one that is being sent is no longer among those that wait.
    EXPECT_GE(webhook->dropped(), 9U);
    EXPECT_LE(webhook->dropped(), 10U);
  }
  EXPECT_FALSE(deadline.passed());
}

}  // namespace
}  // namespace tutti::collector
