// Posts lines of JSON to a web server, one request for each, in order. It has a thread of its own, so nobody waits for
// the server, nor for its name to be resolved. While the server is away, answers with an error or is slow, lines are
// kept up to a bound, and tried again with growing pauses; when there is no room the oldest go, and are counted. HTTP
// only: for https, put a proxy in front of it.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/backoff.hpp"
#include "base/rate_limited_log.hpp"
#include "net/socket.hpp"
#include "tutti/error.hpp"

namespace tutti::collector {

/// "http://host[:port][/path]". An error says what was expected.
struct WebhookTarget {
  HostPort where;
  std::string host;  // for the header Host
  std::string path = "/";

  static Result<WebhookTarget> parse(std::string_view url);
};

class Webhook {
 public:
  static constexpr std::size_t kMostLines = 1024;

  /// Fails where the system makes no thread.
  static Result<std::unique_ptr<Webhook>> start(WebhookTarget target);
  /// What is being sent has a second to arrive; the rest is lost.
  ~Webhook();
  Webhook(const Webhook&) = delete;
  Webhook& operator=(const Webhook&) = delete;

  /// Without the end of the line. Any thread.
  void push(std::string line);
  std::uint64_t dropped() const;

 private:
  explicit Webhook(WebhookTarget target) : target_(std::move(target)) {}
  void run();
  /// The line that is to be sent; empty: stop.
  std::string wait_for_line();
  bool pause(double seconds);
  Status post(const std::string& line) const;

  const WebhookTarget target_;
  mutable std::mutex mutex_;  // guards what follows, up to the thread's own
  std::condition_variable changed_;
  std::deque<std::string> lines_;
  std::uint64_t dropped_ = 0;
  bool stopping_ = false;
  Backoff backoff_ = Backoff::with_jitter(0.5, 30);  // the thread's own
  RateLimitedLog log_{60};
  std::thread thread_;
};

}  // namespace tutti::collector
