#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/support/command.hpp"
#include "cli/support/launch.hpp"

namespace tutti::cli {
namespace {

constexpr const char* kExamples =
    R"(What follows the options, with or without -- before it, is the program and its arguments.

Examples:
  tutti run -n 4 -- build/bin/example_all_reduce
  tutti run -n 2 --bind python3 train.py --epochs 3
  tutti run -n 8 --keep-going -- ./survives-a-death

Each rank finds TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_LOCAL_SIZE, TUTTI_ADDRESS and TUTTI_SECRET in its
environment. When a rank fails, the others are ended and its exit status is that of tutti run.)";

}  // namespace

void add_run(CLI::App& app, const Arguments& tail, int& status) {
  auto* command = app.add_subcommand("run", "Start a program as several ranks on this machine");
  auto options = std::make_shared<LaunchOptions>();
  auto no_prefix = std::make_shared<bool>(false);
  command->footer(kExamples);
  command->prefix_command();
  command->add_option("-n,--ranks", options->ranks, "how many ranks")->required()->check(CLI::Range(1, 4096));
  command->add_flag("--no-prefix", *no_prefix, "lines without the rank before them");
  command->add_flag("--keep-going", options->keep_going, "when a rank fails, only report it");
  command->add_flag("--bind", options->bind, "pin each rank to a core, in turn");
  command->add_option("--grace", options->grace, "seconds between SIGTERM and SIGKILL when ranks are ended")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->callback([command, options, no_prefix, tail, &status] {
    options->command = command->remaining();
    // The separator is ours when nothing but options stood before it, the program's own otherwise.
    const bool ours = options->command.empty() && !tail.empty();
    options->command.insert(options->command.end(), tail.begin() + (ours ? 1 : 0), tail.end());
    if (options->command.empty()) throw CLI::ValidationError("tutti run", "no program given; see tutti run --help");
    if (*no_prefix) options->output = RankOutput::lines;
    const auto result = launch(*options);
    if (!result) fmt::print(stderr, "tutti run: {}\n", result.error().message);
    status = result ? *result : 127;
  });
}

}  // namespace tutti::cli
