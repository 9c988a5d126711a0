#include "cli/monitor/collector_client.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "agent/report/host_reporter.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"
#include "net/event_loop.hpp"

namespace tutti::cli {
namespace {

using agent::Frame;
using agent::FrameKind;

constexpr std::size_t kMostFromCollector = std::size_t{256} << 20;  // bytes of a frame; a job of 100,000 ranks

agent::Hello hello_of_asker() {
  agent::Hello hello = agent::hello_of_this_host({});
  hello.speaker = agent::Hello::Speaker::asker;
  return hello;
}

}  // namespace

Result<std::unique_ptr<CollectorClient>> CollectorClient::open(const CollectorFlags& flags) {
  const auto where = collector_address(flags);
  if (!where) return tl::unexpected(where.error());
  const auto key = collector_key(flags);
  if (!key) return tl::unexpected(key.error());
  return std::unique_ptr<CollectorClient>(new CollectorClient(*where, *key));
}

CollectorClient::CollectorClient(HostPort where, const JobKey& key)
    : name_(fmt::format("{}:{}", where.host, where.port)),
      link_(std::move(where), key, hello_of_asker(), kMostFromCollector,
            [this](const Frame& frame) { return take(frame); }) {}

Status CollectorClient::take(const Frame& frame) {
  switch (frame.kind) {
    case FrameKind::hosts:
      answer_.hosts = nlohmann::ordered_json::parse(frame.payload, nullptr, false);
      if (!answer_.hosts.is_array()) return fail(ErrorCode::refused, "the collector's list of hosts is no list");
      return {};
    case FrameKind::job: {
      auto telemetry = diagnosis::parse_telemetry(frame.payload);
      if (!telemetry) return tl::unexpected(telemetry.error());
      answer_.jobs.push_back(*std::move(telemetry));
      return {};
    }
    case FrameKind::end:
      is_whole_ = true;
      return {};
    default:
      return fail(ErrorCode::refused, fmt::format("the collector sent a frame of {}", name_of(frame.kind)));
  }
}

Result<CollectorAnswer> CollectorClient::ask(Deadline deadline) {
  answer_ = {};
  is_whole_ = false;
  const std::uint64_t failures = link_.failures();
  std::uint64_t asked_on = 0;  // the connection
  while (!is_whole_) {
    // One that is busy is asked again; one that is not there, or refuses, is not.
    const bool failed = link_.failures() != failures && link_.failure().code != ErrorCode::timed_out;
    if (failed || deadline.passed())
      return fail(failed ? ErrorCode::system : ErrorCode::timed_out,
                  fmt::format("no answer from the collector {}{}", name_,
                              link_.failures() != failures ? ": " + link_.failure().message : " in time"));
    if (link_.is_connected() && std::exchange(asked_on, link_.connections()) != link_.connections())
      link_.push(FrameKind::ask, "");
    link_.work(monotonic_seconds());
    if (is_whole_) break;
    const double wait = std::min(deadline.seconds_left(), std::max(0.0, link_.due() - monotonic_seconds()));
    pollfd entry{link_.descriptor(), link_.events(), 0};
    ::poll(&entry, 1, static_cast<int>(1e3 * std::min(wait, 1.0)) + 1);
  }
  return std::exchange(answer_, {});
}

}  // namespace tutti::cli
