#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cli/monitor/cluster_view.hpp"
#include "cli/monitor/status_view.hpp"
#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"
#include "cli/support/terminal.hpp"

namespace tutti::cli {
namespace {

struct StatusOptions {
  bool json = false;
  double watch = 0;  // seconds between looks; 0: once
  std::string folder;
  bool all = false;
  CollectorFlags collector;
};

std::string joined(const std::vector<std::string>& folders) {
  std::string text;
  for (const std::string& folder : folders) text += (text.empty() ? "" : ", ") + folder;
  return text;
}

/// Looks once, prints, and says whether something is wrong.
bool look(const StatusOptions& options, bool color) {
  const std::vector<std::string> folders =
      options.folder.empty() ? monitor::recording_folders() : std::vector<std::string>{options.folder};
  const monitor::Snapshot snapshot = monitor::take_snapshot(folders, {.operations = true});
  const monitor::ClusterReport report = monitor::analyze(snapshot, {.with_closed = options.all});
  if (options.json) {
    // In watch, one object a line.
    fmt::print("{}\n", status_json(snapshot, report).dump(options.watch > 0 ? -1 : 2));
  } else {
    fmt::print("{}", status_text(report, {color, options.all}));
    if (report.processes.empty())
      fmt::print("no recordings in {}: no process of yours uses tutti now, or TUTTI_MONITOR=0 is set for it\n",
                 joined(folders));
  }
  std::fflush(stdout);
  return report.is_wrong();
}

constexpr double kAnswerWithin = 10;  // seconds, of a collector

/// Asks the collector, once or again and again, and prints what it knows of all hosts.
int look_at_cluster(const StatusOptions& options, bool color) {
  auto client = CollectorClient::open(options.collector);
  if (!client) return report_error("status", client.error().message, kBadUsage);
  Interrupts interrupts;
  const bool terminal = options.watch > 0 && ::isatty(STDOUT_FILENO) == 1 && !options.json;
  while (true) {
    auto answer = (*client)->ask(Deadline::in(kAnswerWithin));
    if (!answer) return report_error("status", answer.error().message, kBadUsage);
    const JudgedCluster cluster(*std::move(answer));
    if (terminal) fmt::print("\x1b[H\x1b[2J");
    if (options.json)
      fmt::print("{}\n", cluster_json(cluster).dump(options.watch > 0 ? -1 : 2));
    else
      for (const std::string& line : cluster_lines(cluster, nullptr, {color, options.all})) fmt::print("{}\n", line);
    std::fflush(stdout);
    if (options.watch == 0) return cluster.is_wrong() ? 1 : 0;
    if (!interrupts.sleep(options.watch)) return interrupts.exit_status();
  }
}

int watch(const StatusOptions& options, bool color) {
  Interrupts interrupts;
  const bool terminal = ::isatty(STDOUT_FILENO) == 1 && !options.json;
  while (true) {
    if (terminal) fmt::print("\x1b[H\x1b[2J");
    look(options, color);
    if (!interrupts.sleep(options.watch)) return interrupts.exit_status();
  }
}

}  // namespace

void add_status(CLI::App& app, int& status) {
  auto* command = app.add_subcommand(
      "status", "What the jobs on this host, or those a collector knows, do: who waits for whom, what is wrong");
  auto options = std::make_shared<StatusOptions>();
  command->add_flag("--json", options->json, "as JSON (docs/monitor.md); with --watch an object a line");
  command->add_option("--watch", options->watch, "again every SECONDS (2 where none are given)")
      ->expected(0, 1)
      ->default_str("2")
      ->check(CLI::Range(0.05, 3600.0))
      ->option_text("[SECONDS]");
  command->add_option("--dir", options->folder, "folder of recordings, instead of this user's (root: of all users)")
      ->option_text("FOLDER");
  command->add_flag("--all", options->all,
                    "every rank and lane in a line of its own, and communicators that are closed");
  add_collector_flags(*command, options->collector);
  command->get_option("--collector")->excludes(command->get_option("--dir"));
  command->footer(
      "Examples:\n  tutti status\n  tutti status --watch 1\n  tutti status --json | jq "
      "'.jobs[].communicators[].blockers'\n"
      "\nExit status 1 when something is wrong: a rank killed, late for 10 s or in another operation than the others, "
      "a communicator broken,\na lane dead or stalled.");
  command->callback([options, &status] {
    const bool color = !options->json && wants_color(STDOUT_FILENO);
    if (!options->collector.collector.empty())
      status = look_at_cluster(*options, color);
    else
      status = options->watch > 0 ? watch(*options, color) : static_cast<int>(look(*options, color));
  });
}

}  // namespace tutti::cli
