#include <fmt/core.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <set>

#include "agent/event_tail.hpp"
#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"

namespace tutti::cli {
namespace {

struct EventFlags {
  bool follow = false;
  bool text = false;
  bool json = false;
  double since = std::numeric_limits<double>::infinity();
  std::vector<std::string> kinds;
};

double monotonic() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::set<std::string> known_kinds() {
  std::set<std::string> kinds{"process_killed"};
  for (int i = 0; i < monitor::kEventKinds; ++i) kinds.insert(name_of(static_cast<monitor::EventKind>(i)));
  return kinds;
}

/// How many there were.
std::size_t print(const std::vector<agent::SeenEvent>& events, const EventFlags& flags) {
  for (const agent::SeenEvent& seen : events)
    if (flags.kinds.empty() || std::count(flags.kinds.begin(), flags.kinds.end(), kind_of(seen)) != 0)
      fmt::print("{}\n", flags.text ? text_line(seen) : json_line(seen));
  std::fflush(stdout);
  return events.size();
}

int print_events(const EventFlags& flags) {
  agent::EventTail tail({}, flags.since);
  print(tail.look(monotonic()), flags);
  if (!flags.follow) return 0;
  Interrupts interrupts;
  double pause = 0.1;
  while (std::ferror(stdout) == 0) {
    if (!interrupts.sleep(pause)) return interrupts.exit_status();
    pause = print(tail.look(monotonic()), flags) == 0 ? std::min(2 * pause, 1.0) : 0.1;
  }
  return 1;
}

}  // namespace

void add_events(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("events", "Print what happened in jobs of this host: late ranks, lanes, failures");
  auto flags = std::make_shared<EventFlags>();
  command->add_flag("-f,--follow", flags->follow, "go on with what happens from now on, until Ctrl-C");
  command->add_option("--since", flags->since, "only of the last SECONDS")->check(CLI::NonNegativeNumber);
  command->add_option("--kind", flags->kinds, "only of this kind; may be given several times")
      ->check(CLI::IsMember(known_kinds()));
  auto* const text = command->add_flag("--text", flags->text, "for a person to read");
  command->add_flag("--json", flags->json, "as JSON lines: the default")->excludes(text);
  command->footer(
      "Examples:\n  tutti events --text\n  tutti events --follow --since 0 | jq 'select(.cause == "
      "\"path_congested\")'\n"
      "  tutti events --kind rank_late --kind communicator_broken --since 600\n\n"
      "Recordings keep the last 512 events of each process; `tutti agent` keeps them all.");
  command->callback([flags, &status] { status = print_events(*flags); });
}

}  // namespace tutti::cli
