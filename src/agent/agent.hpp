// The agent of a host: reads the recordings of all processes that use tutti here, and passes on what they tell, to
// Prometheus, to node_exporter's textfile, to a file of events, to whoever collects logs. It only ever reads them:
// whatever becomes of the agent or of those it talks to, the job goes on as it did. To a collector it tells what the
// jobs do (report/host_reporter.hpp).
//
// One thread, asleep between looks: one a second while nothing happens, ten while there are events. Looks and answers
// that took more CPU time than 0.15 % of a core make later ones wait, or share what was read before.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/event_forwarder.hpp"
#include "agent/event_tail.hpp"
#include "agent/files.hpp"
#include "agent/metrics.hpp"
#include "agent/report/host_reporter.hpp"
#include "agent/server.hpp"

namespace tutti::agent {

struct AgentOptions {
  std::vector<std::string> folders;  // of recordings; none: as `tutti status` looks
  std::optional<SocketAddress> listen;
  std::string token;  // wanted from whoever asks; empty: from nobody
  std::string textfile;
  double textfile_interval = 15;      // seconds
  std::string events;                 // "-": standard output
  std::optional<HostPort> forward;    // who gets the events, as lines over TCP
  std::optional<HostPort> collector;  // who is told what the jobs of this host do
  JobKey collector_key;
  /// What /status answers, as JSON; none: it is not found.
  std::function<std::string()> status;
};

class Agent {
 public:
  /// Fails where it cannot listen.
  static Result<std::unique_ptr<Agent>> open(AgentOptions options);

  /// Where it listens, where it does.
  std::string address() const { return server_ ? server_->address().to_string() : ""; }
  /// Until `stop` becomes readable. What was told until then is passed on, as far as that can be done at once.
  void run(int stop);

 private:
  /// Something that takes CPU time to make, and is shared while it is fresh.
  struct Page {
    std::shared_ptr<const std::string> text;
    double fresh_until = 0;
  };

  explicit Agent(AgentOptions options) : options_(std::move(options)), tail_(options_.folders, 0) {}
  HttpResponse answer(std::string_view path);
  const Page& refresh(Page& page, const std::function<std::string()>& make);
  std::string make_metrics();
  void pass_on_events(double now);
  void count(const SeenEvent& seen);
  void work(double now);
  void write_out(double now);
  double next_due(double now) const;
  /// True once it shall stop.
  bool sleep(int stop, double seconds);

  AgentOptions options_;
  EventTail tail_;
  Metrics metrics_;
  AgentCounts counts_;
  CpuBudget budget_;
  Page metrics_page_, status_page_;
  double next_look_ = 0;
  double pause_ = 0.1;  // between looks
  std::optional<EventFile> file_;
  std::optional<EventForwarder> forwarder_;
  std::optional<HostReporter> reporter_;
  std::optional<TextFile> textfile_;
  std::unique_ptr<Server> server_;
};

}  // namespace tutti::agent
