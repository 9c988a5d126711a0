#include "agent/agent.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/monitor/collector_flags.hpp"
#include "cli/monitor/status_view.hpp"
#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"

namespace tutti::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  tutti agent                                            metrics on http://127.0.0.1:9464/metrics\n"
    "  tutti agent --listen 0.0.0.0:9464 --token-file FILE    for a Prometheus elsewhere\n"
    "  tutti agent --listen '' --textfile /var/lib/prometheus/node-exporter/tutti.prom\n"
    "  tutti agent --events /var/log/tutti/events.jsonl --forward logs.example:5170\n"
    "  tutti agent --collector head.example:9470 --token-file FILE    verdicts on jobs of several hosts\n\n"
    "It reads the recordings of this user's processes, as root those of all users (TUTTI_MONITOR_DIR: another "
    "folder).\n"
    "Ends on SIGTERM and SIGINT. Exit status 2 for a bad option. Rules and dashboards are in deploy/.";

struct AgentFlags {
  std::string listen = "127.0.0.1:9464";
  std::string token_file;
  bool insecure = false;
  std::string textfile;
  double textfile_interval = 15;
  std::string events;
  std::string forward;
  std::string collector;
  std::string collector_token_file;
};

Status set_listener(const AgentFlags& flags, agent::AgentOptions& options) {
  if (flags.listen.empty()) return {};
  const auto address = SocketAddress::parse(flags.listen);
  if (!address)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--listen {}: expected ADDRESS:PORT, as in 127.0.0.1:9464", flags.listen));
  if (!flags.token_file.empty()) {
    const auto token = read_token(flags.token_file);
    if (!token) return tl::unexpected(token.error());
    options.token = *token;
  }
  if (!address->is_loopback() && options.token.empty() && !flags.insecure)
    return fail(ErrorCode::refused,
                fmt::format("--listen {}: others than this host can reach it; give --token-file FILE, or --insecure "
                            "where the network is trusted",
                            flags.listen));
  options.listen = *address;
  return {};
}

/// The collector has the token of --token-file, unless another is given for it.
Status set_collector(const AgentFlags& flags, agent::AgentOptions& options) {
  if (flags.collector.empty()) return {};
  const CollectorFlags collector{flags.collector,
                                 flags.collector_token_file.empty() ? flags.token_file : flags.collector_token_file,
                                 flags.insecure};
  const auto where = collector_address(collector);
  if (!where) return tl::unexpected(where.error());
  const auto key = collector_key(collector);
  if (!key) return tl::unexpected(key.error());
  options.collector = *where;
  options.collector_key = *key;
  return {};
}

/// What `tutti status --json` prints.
std::string status_page() {
  monitor::Detail detail;
  detail.operations = true;
  const monitor::Snapshot snapshot = monitor::take_snapshot(monitor::recording_folders(), detail);
  return status_json(snapshot, monitor::analyze(snapshot)).dump() + "\n";
}

Result<agent::AgentOptions> options_of(const AgentFlags& flags) {
  agent::AgentOptions options;
  if (Status set = set_listener(flags, options); !set) return tl::unexpected(set.error());
  if (Status set = set_collector(flags, options); !set) return tl::unexpected(set.error());
  options.status = &status_page;
  options.textfile = flags.textfile;
  options.textfile_interval = flags.textfile_interval;
  options.events = flags.events;
  if (!flags.forward.empty()) {
    const auto forward = parse_host_port(flags.forward);
    if (!forward)
      return fail(ErrorCode::invalid_argument, fmt::format("--forward {}: expected HOST:PORT", flags.forward));
    options.forward = *forward;
  }
  if (!options.listen && options.textfile.empty() && options.events.empty() && !options.forward && !options.collector)
    return fail(ErrorCode::invalid_argument,
                "nothing to do: no --listen, --textfile, --events, --forward or --collector");
  return options;
}

int run_agent(const AgentFlags& flags) {
  auto options = options_of(flags);
  if (!options) return report_error("agent", options.error().message, kBadUsage);
  become_a_service();  // one descriptor for each process that is followed
  Interrupts interrupts;
  auto opened = agent::Agent::open(std::move(*options));
  if (!opened) return report_error("agent", opened.error().message);
  if (!(*opened)->address().empty()) fmt::print(stderr, "metrics on http://{}/metrics\n", (*opened)->address());
  (*opened)->run(interrupts.descriptor());
  (void)interrupts.check();  // taken, so that it does not end us after all
  return 0;
}

}  // namespace

void add_agent(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("agent", "Pass on what recordings of this host tell: to Prometheus, as events");
  auto flags = std::make_shared<AgentFlags>();
  command->add_option("--listen", flags->listen, "ADDRESS:PORT of the metrics; '' for none")->capture_default_str();
  command->add_option("--token-file", flags->token_file,
                      "whoever scrapes must bear the token that is its first line; the collector has it, too");
  command->add_flag("--insecure", flags->insecure,
                    "no token: let others than this host scrape; speak to a collector elsewhere");
  command->add_option("--textfile", flags->textfile, "write the metrics to FILE, for node_exporter");
  command->add_option("--textfile-interval", flags->textfile_interval, "seconds between these writes")
      ->check(CLI::Range(1.0, 3600.0))
      ->capture_default_str();
  command->add_option("--events", flags->events, "append events to FILE as JSON lines; - for standard output");
  command->add_option("--forward", flags->forward, "send events to HOST:PORT by TCP, as JSON lines");
  command->add_option("--collector", flags->collector, "tell the collector at HOST:PORT what the jobs of this host do");
  command->add_option("--collector-token-file", flags->collector_token_file,
                      "the collector's token, where it is not that of --token-file");
  command->footer(kExamples);
  command->callback([flags, &status] { status = run_agent(*flags); });
}

}  // namespace tutti::cli
