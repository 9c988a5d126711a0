#include "cli/tune/tune.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/support/command.hpp"
#include "cli/support/launch.hpp"
#include "selection/tuning.hpp"

namespace tutti::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  tutti tune                 two ranks or one per core, on this machine
  tutti tune -N 8 --show     try, print the table, keep nothing
  mpirun -n 4 tutti tune     the ranks of a launcher

The table is kept in the cache folder (TUTTI_TUNE_FILE overrides), one file per number of ranks and hosts, and is used
by every communicator of that layout from then on. Remove the file to return to the defaults.)";

int run_as_rank(const TuneOptions& tuning, bool show) {
  auto communicator = Communicator::create_from_environment();
  if (!communicator) return report_error("tune", communicator.error().to_string());
  const bool speaks = communicator->rank() == 0;
  const bool progress = speaks && ::isatty(STDERR_FILENO) != 0;
  const auto trials = search_programs(*communicator, tuning, [&](const Trial& trial) {
    if (progress)
      fmt::print(stderr, "\r\033[K{} {} bytes: {} {:.1f} us", name_of(trial.collective), trial.bytes,
                 trial.choice.algorithm, trial.microseconds);
  });
  if (progress) fmt::print(stderr, "\r\033[K");
  if (!trials) return report_error("tune", trials.error().to_string());
  if (!speaks) return 0;
  const auto rules = rules_of(*trials, communicator->layout());
  for (const SelectionRule& rule : rules) fmt::print("{}\n", to_string({rule}));
  if (show) return 0;
  const std::string path = tuning_path(communicator->size(), communicator->layout().hosts);
  const auto saved = save_tuning(
      path, rules, fmt::format("tutti tune: {} ranks on {} hosts", communicator->size(), communicator->layout().hosts));
  if (!saved) return report_error("tune", saved.error().message);
  fmt::print("kept in {}\n", path);
  return 0;
}

}  // namespace

void add_tune(CLI::App& app, const Arguments& arguments, int& status) {
  auto* command = app.add_subcommand("tune", "Measure which program is fastest for each collective and size");
  auto tuning = std::make_shared<TuneOptions>();
  auto ranks = std::make_shared<int>(0);
  auto show = std::make_shared<bool>(false);
  command->footer(kExamples);
  command->add_option("-N,--ranks", *ranks, "processes to start (one per core, at least two)")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--show", *show, "print the table, keep nothing");
  command->callback([=, &status] {
    status = started_by_launcher() ? run_as_rank(*tuning, *show) : launch_self("tutti tune", *ranks, arguments);
  });
}

}  // namespace tutti::cli
