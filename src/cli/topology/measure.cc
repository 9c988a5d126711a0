#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/support/command.hpp"
#include "cli/support/launch.hpp"
#include "cli/support/parse.hpp"
#include "cli/topology/measure_report.hpp"
#include "cli/topology/measure_run.hpp"
#include "documents/text_file.hpp"
#include "measure/model.hpp"
#include "topology/formats/format_json.hpp"

namespace tutti::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  tutti topo measure -o machine.json                    ranks of this machine, one per core, at least two
  tutti run -n 4 -- tutti topo measure -o machine.json  the ranks of a job; any launcher that tutti bench knows
  tutti topo measure -N 4 --time 10 --json > raw.json   every figure, for other programs

Pairs are measured one after the other, so that nothing disturbs them, then ranks with several peers at once. What they
share becomes a link of the topology, which `tutti topo show`, `tutti topo bound` and `tutti synth` read.)";

struct MeasureArguments {
  int ranks = 0;
  std::string output;
  bool json = false;
  MeasureOptions measuring;
};

int run_as_rank(const MeasureArguments& asked) {
  auto communicator = Communicator::create_from_environment();
  if (!communicator) return report_error("topo measure", communicator.error().to_string());
  const bool speaks = communicator->rank() == 0;
  const bool progress = speaks && ::isatty(STDERR_FILENO) != 0;
  const auto measured = measure_job(*communicator, asked.measuring, [&](const MeasureProgress& at) {
    if (progress) fmt::print(stderr, "\r\033[K{} of {}: {}", at.done + 1, at.of, at.what);
  });
  if (progress) fmt::print(stderr, "\r\033[K");
  if (!measured) return report_error("topo measure", measured.error().to_string());
  if (!speaks) return 0;
  const Findings findings = conclude(*measured);
  if (!asked.output.empty()) {
    const Topology topology = topology_of(
        findings, fmt::format("measured: {} ranks on {} hosts", findings.pairs.ranks(), findings.pairs.hosts()));
    if (Status written = replace_text(asked.output, topology_to_json(topology)); !written)
      return report_error("topo measure", written.error().message);
  }
  fmt::print("{}", asked.json ? measurements_to_json(*measured) : report_of(*measured, findings));
  if (!asked.output.empty() && !asked.json) fmt::print("\nthe topology is in {}\n", asked.output);
  return 0;
}

void set_sizes(const std::vector<std::string>& texts, MeasureOptions& measuring) {
  measuring.sizes.clear();
  for (const std::string& text : texts) {
    const auto bytes = parse_bytes(text);
    if (!bytes) throw CLI::ValidationError("--sizes", bytes.error().message);
    if (*bytes == 0) throw CLI::ValidationError("--sizes", "'0' is no size; expected at least 1 byte");
    measuring.sizes.push_back(*bytes);
  }
  std::sort(measuring.sizes.begin(), measuring.sizes.end());
  measuring.sizes.erase(std::unique(measuring.sizes.begin(), measuring.sizes.end()), measuring.sizes.end());
  if (measuring.sizes.size() < 2)
    throw CLI::ValidationError("--sizes", "latency and bandwidth need two sizes, a small one and a large one");
}

}  // namespace

void add_topo_measure(CLI::App& group, const Arguments& arguments, int& status) {
  auto* command = group.add_subcommand("measure", "Measure the job it runs in, and write its topology");
  auto asked = std::make_shared<MeasureArguments>();
  auto sizes = std::make_shared<std::vector<std::string>>();
  command->footer(kExamples);
  command->add_option("-o,--output", asked->output, "write the topology there");
  command->add_option("-N,-n,--ranks", asked->ranks, "processes to start (one per core, at least two)")
      ->check(CLI::Range(2, 4096));
  command->add_option("--sizes", *sizes, "of messages, separated by commas (8 to 4M; K, M: powers of 1024)")
      ->delimiter(',');
  command->add_option("--time", asked->measuring.seconds, "seconds at most")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command->add_flag("--json", asked->json, "print every measurement as JSON instead of tables");
  command->callback([=, &status] {
    if (!sizes->empty()) set_sizes(*sizes, asked->measuring);
    status = started_by_launcher() ? run_as_rank(*asked) : launch_self("tutti topo measure", asked->ranks, arguments);
  });
}

}  // namespace tutti::cli
