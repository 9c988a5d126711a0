#include "collector/collector.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/monitor/collector_flags.hpp"
#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"

namespace tutti::cli {
namespace {

struct CollectFlags {
  std::string listen = "127.0.0.1:9470";
  std::string token_file;
  bool insecure = false;
  std::string store;
  std::string events;
  std::string webhook;
};

Result<collector::CollectorOptions> options_of(const CollectFlags& flags) {
  collector::CollectorOptions options;
  const auto address = SocketAddress::parse(flags.listen);
  if (!address)
    return fail(ErrorCode::invalid_argument,
                fmt::format("--listen {}: expected ADDRESS:PORT, as in 127.0.0.1:9470", flags.listen));
  if (!address->is_loopback() && flags.token_file.empty() && !flags.insecure)
    return fail(ErrorCode::refused,
                fmt::format("--listen {}: others than this host can reach it; give --token-file FILE, or --insecure "
                            "where the network is trusted",
                            flags.listen));
  options.listen = *address;
  const auto key = collector_key({"", flags.token_file, flags.insecure});
  if (!key) return tl::unexpected(key.error());
  options.key = *key;
  options.store = flags.store;
  options.events = flags.events;
  if (!flags.webhook.empty()) {
    const auto target = collector::WebhookTarget::parse(flags.webhook);
    if (!target) return fail(target.error().code, "--webhook " + target.error().message);
    options.webhook = *target;
  }
  return options;
}

int run_collector(const CollectFlags& flags) {
  auto options = options_of(flags);
  if (!options) return report_error("collector", options.error().message, kBadUsage);
  become_a_service();  // one descriptor for each agent
  Interrupts interrupts;
  auto opened = collector::Collector::open(*std::move(options));
  if (!opened) return report_error("collector", opened.error().message);
  fmt::print(stderr, "collecting on {}\n", (*opened)->address().to_string());
  const Status ran = (*opened)->run(interrupts.descriptor());
  (void)interrupts.check();  // taken, so that it does not end us after all
  return ran ? 0 : report_error("collector", ran.error().message);
}

}  // namespace

void add_collector(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("collector", "Judge jobs of several hosts, from what their agents tell");
  auto flags = std::make_shared<CollectFlags>();
  command->add_option("--listen", flags->listen, "ADDRESS:PORT for agents, and those who ask")->capture_default_str();
  command->add_option("--token-file", flags->token_file, "agents must know the token that is its first line");
  command->add_flag("--insecure", flags->insecure, "let others than this host connect without a token");
  command->add_option("--store", flags->store, "keep verdicts in FILE, an SQLite database");
  command->add_option("--events", flags->events, "append verdicts to FILE as JSON lines; - for standard output");
  command->add_option("--webhook", flags->webhook, "post verdicts to http://HOST[:PORT][/PATH], as JSON");
  command->footer(
      "Examples:\n"
      "  tutti collector --listen 0.0.0.0:9470 --token-file FILE --store /var/lib/tutti/verdicts.db\n"
      "  tutti agent --listen '' --collector head.example:9470 --token-file FILE        on each host\n"
      "  tutti diagnose --collector head.example:9470 --token-file FILE --watch\n\n"
      "Ends on SIGTERM and SIGINT. Exit status 2 for a bad option. docs/diagnosis.md explains verdicts and how to run "
      "it.");
  command->callback([flags, &status] { status = run_collector(*flags); });
}

}  // namespace tutti::cli
