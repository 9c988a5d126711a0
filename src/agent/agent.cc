#include "agent/agent.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "net/event_loop.hpp"

namespace tutti::agent {
namespace {

constexpr double kBusyPause = 0.1, kIdlePause = 1.0;  // seconds between looks for events
constexpr double kFreshFor = 1.0;                     // seconds that scrapes share what was read

}  // namespace

Result<std::unique_ptr<Agent>> Agent::open(AgentOptions options) {
  std::unique_ptr<Agent> agent(new Agent(std::move(options)));
  const AgentOptions& set = agent->options_;
  if (!set.events.empty()) agent->file_.emplace(set.events);
  if (!set.textfile.empty()) agent->textfile_.emplace(set.textfile, set.textfile_interval);
  if (set.collector) agent->reporter_.emplace(set.folders, *set.collector, set.collector_key);
  if (set.forward) agent->forwarder_.emplace(*set.forward);
  if (!set.listen) return agent;
  auto server =
      Server::open(*set.listen, set.token, [self = agent.get()](std::string_view path) { return self->answer(path); });
  if (!server) return tl::unexpected(server.error());
  agent->server_ = std::move(*server);
  return agent;
}

void Agent::run(int stop) {
  do work(monotonic_seconds());
  while (!sleep(stop, next_due(monotonic_seconds())));
  next_look_ = 0;
  work(monotonic_seconds());
}

void Agent::work(double now) {
  if (now >= next_look_) pass_on_events(now);
  write_out(now);
  if (reporter_) reporter_->work(now);
  if (textfile_ && now >= textfile_->due())
    textfile_->write(now, *refresh(metrics_page_, [this] { return make_metrics(); }).text);
  if (server_) server_->serve();
}

void Agent::write_out(double now) {
  const double cpu = process_cpu_seconds();
  if (file_) file_->work(now);
  if (forwarder_) forwarder_->work(now);
  budget_.spend(process_cpu_seconds() - cpu, now);
}

void Agent::pass_on_events(double now) {
  const double cpu = process_cpu_seconds();
  const std::vector<SeenEvent> events = tail_.look(now);
  for (const SeenEvent& seen : events) {
    count(seen);
    if (!file_ && !forwarder_) continue;
    const std::string line = json_line(seen);
    if (file_) file_->push(line);
    if (forwarder_) forwarder_->push(line);
  }
  budget_.spend(process_cpu_seconds() - cpu, now);
  pause_ = events.empty() ? std::min(2 * pause_, kIdlePause) : kBusyPause;
  next_look_ = now + std::max(pause_, budget_.wait(now));
}

void Agent::count(const SeenEvent& seen) {
  counts_.events_missed += seen.missed;
  if (seen.source == SeenEvent::Source::process_killed)
    ++counts_.processes_killed;
  else
    ++counts_.events[static_cast<std::size_t>(seen.event.kind)][static_cast<std::size_t>(seen.event.cause)];
}

HttpResponse Agent::answer(std::string_view path) {
  if (path == "/metrics") {
    ++counts_.scrapes;
    return {200, "text/plain; version=0.0.4; charset=utf-8",
            refresh(metrics_page_, [this] { return make_metrics(); }).text};
  }
  if (path == "/status" && options_.status)
    return {200, "application/json", refresh(status_page_, options_.status).text};
  return {404, "text/plain; charset=utf-8",
          std::make_shared<const std::string>("here are /metrics, /status and /healthz\n")};
}

const Agent::Page& Agent::refresh(Page& page, const std::function<std::string()>& make) {
  const double now = monotonic_seconds();
  if (page.text != nullptr && now < page.fresh_until) return page;
  const double cpu = process_cpu_seconds();
  page.text = std::make_shared<const std::string>(make());
  budget_.spend(process_cpu_seconds() - cpu, now);
  page.fresh_until = now + std::max(kFreshFor, budget_.wait(now));
  return page;
}

std::string Agent::make_metrics() {
  const double begun = monotonic_seconds();
  monitor::Detail detail;
  detail.operations = true;
  const monitor::Snapshot snapshot =
      monitor::take_snapshot(options_.folders.empty() ? monitor::recording_folders() : options_.folders, detail);
  counts_.snapshot_seconds = monotonic_seconds() - begun;
  counts_.cpu_seconds = process_cpu_seconds();
  counts_.refused = server_ ? server_->refused() : 0;
  counts_.file_dropped = file_ ? file_->dropped() : 0;
  counts_.forward_dropped = forwarder_ ? forwarder_->dropped() : 0;
  counts_.forward_connected = forwarder_ && forwarder_->is_connected();
  counts_.collector_connected = reporter_ && reporter_->is_connected();
  counts_.write_failures = (file_ ? file_->failures() : 0) + (textfile_ ? textfile_->failures() : 0);
  return metrics_.text(snapshot, counts_);
}

double Agent::next_due(double now) const {
  double due = next_look_;
  if (file_) due = std::min(due, file_->due());
  if (forwarder_) due = std::min(due, forwarder_->due());
  if (reporter_) due = std::min(due, reporter_->due());
  if (textfile_) due = std::min(due, textfile_->due());
  if (server_) due = std::min(due, now + server_->wait());
  return std::max(0.0, due - now);
}

bool Agent::sleep(int stop, double seconds) {
  std::array<pollfd, 4> entries{
      pollfd{stop, POLLIN, 0}, pollfd{server_ ? server_->descriptor() : -1, POLLIN, 0},
      pollfd{forwarder_ ? forwarder_->descriptor() : -1, forwarder_ ? forwarder_->events() : short{0}, 0},
      pollfd{reporter_ ? reporter_->descriptor() : -1, reporter_ ? reporter_->events() : short{0}, 0}};
  ::poll(entries.data(), entries.size(), static_cast<int>(std::ceil(1e3 * seconds)));
  return (entries[0].revents & POLLIN) != 0;
}

}  // namespace tutti::agent
