#include "collector/webhook.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/thread.hpp"
#include "net/event_loop.hpp"

namespace tutti::collector {
namespace {

constexpr double kWithin = 5;  // seconds for a request and its answer
constexpr std::size_t kMostAnswer = 4096;

}  // namespace

Result<WebhookTarget> WebhookTarget::parse(std::string_view url) {
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://"))
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("{}: https is not spoken; put a proxy on this host in front of it, and give its http:// URL", url));
  if (!url.starts_with(kScheme))
    return fail(ErrorCode::invalid_argument, fmt::format("{}: expected http://HOST[:PORT][/PATH]", url));
  for (const char c : url)
    if (c <= ' ' || c > '~')
      return fail(ErrorCode::invalid_argument, fmt::format("{}: a URL has no spaces, nor letters beyond ASCII", url));
  const std::string_view rest = url.substr(kScheme.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  WebhookTarget target;
  target.host = rest.substr(0, slash);
  if (slash < rest.size()) target.path = rest.substr(slash);
  const std::size_t colon = target.host.rfind(':');
  const bool has_port = colon != std::string::npos && target.host.find(']', colon) == std::string::npos;
  const auto where = parse_host_port(has_port ? target.host : target.host + ":80");
  if (!where) return fail(ErrorCode::invalid_argument, fmt::format("{}: expected http://HOST[:PORT][/PATH]", url));
  target.where = *where;
  return target;
}

Result<std::unique_ptr<Webhook>> Webhook::start(WebhookTarget target) {
  std::unique_ptr<Webhook> webhook(new Webhook(std::move(target)));
  auto thread = start_thread("tutti-webhook", [self = webhook.get()] { self->run(); });
  if (!thread) return tl::unexpected(thread.error());
  webhook->thread_ = std::move(*thread);
  return webhook;
}

Webhook::~Webhook() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Webhook::push(std::string line) {
  {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    if (lines_.size() > kMostLines) {
      lines_.pop_front();
      ++dropped_;
    }
  }
  changed_.notify_all();
}

std::uint64_t Webhook::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::string Webhook::wait_for_line() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !lines_.empty(); });
  if (stopping_) return {};
  std::string line = std::move(lines_.front());
  lines_.pop_front();
  return line;
}

/// False: it is to stop.
bool Webhook::pause(double seconds) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return stopping_; });
}

void Webhook::run() {
  while (true) {
    const std::string line = wait_for_line();
    if (line.empty()) return;
    while (true) {
      const Status posted = post(line);
      if (posted) break;
      log_.warn(fmt::format("http://{}{} takes no verdicts, tried again with growing pauses: {}", target_.host,
                            target_.path, posted.error().message),
                monotonic_seconds());
      if (!pause(backoff_.next())) return;
    }
    backoff_.reset();
  }
}

Status Webhook::post(const std::string& line) const {
  const Deadline deadline = Deadline::in(kWithin);
  const auto addresses = resolve(target_.where.host, target_.where.port, deadline);
  if (!addresses) return tl::unexpected(addresses.error());
  if (addresses->empty()) return fail(ErrorCode::system, "the name has no address");
  Result<Fd> connection = connect_once(addresses->front(), deadline);
  for (std::size_t i = 1; !connection && i < addresses->size(); ++i)
    connection = connect_once((*addresses)[i], deadline);
  if (!connection) return tl::unexpected(connection.error());
  const std::string request = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: "
      "close\r\n\r\n"
      "{}\n",
      target_.path, target_.host, line.size() + 1, line);
  if (Status sent = send_all(connection->get(), std::as_bytes(std::span(request)), deadline); !sent) return sent;
  // "HTTP/1.1 204 ...": the status is all that matters.
  std::string answer;
  while (answer.find("\r\n") == std::string::npos && answer.size() < kMostAnswer) {
    if (Status ready = wait_for(connection->get(), POLLIN, deadline); !ready) return ready;
    std::array<std::byte, 512> part{};
    const auto received = recv_some(connection->get(), part);
    if (!received) return tl::unexpected(received.error());
    answer.append(reinterpret_cast<const char*>(part.data()), *received);
  }
  const bool is_http = answer.starts_with("HTTP/1.") && answer.size() > 12;
  if (is_http && answer[9] == '2') return {};
  return fail(ErrorCode::refused,
              fmt::format("it answers '{}'; expected a status of 2xx", is_http ? answer.substr(9, 3) : "no HTTP"));
}

}  // namespace tutti::collector
