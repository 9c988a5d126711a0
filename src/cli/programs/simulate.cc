#include "simulation/simulate.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "algorithm/algorithm.hpp"
#include "bound/bound.hpp"
#include "cli/programs/simulate_trace.hpp"
#include "cli/support/command.hpp"
#include "cli/support/parse.hpp"
#include "documents/text_file.hpp"
#include "program/formats/format.hpp"
#include "simulation/references.hpp"
#include "simulation/timeline.hpp"
#include "topology/formats/load.hpp"

namespace tutti::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLinksTold = 5;

struct SimulateArguments {
  std::string program;
  std::string topology;
  int nodes = 0;
  std::string collective;
  int root = 0;
  int instances = 1;
  std::vector<std::string> sizes = {"1G"};
  std::string tile;  // empty: the program's
  SimulationOptions options;
  bool json = false;
  std::string picture;
  std::string trace;
};

/// One size, simulated.
struct SimulatedSize {
  std::size_t bytes = 0;
  Simulation simulation;
  double bound_seconds = 0;  // 0: none is known

  double bandwidth() const { return simulation.seconds > 0 ? static_cast<double>(bytes) / simulation.seconds : 0; }
  double gap() const { return bound_seconds > 0 ? simulation.seconds / bound_seconds - 1 : 0; }
};

/// What stock libraries run, or an algorithm of ours.
Result<Program> program_named(const SimulateArguments& arguments, Collective collective, Routes& routes) {
  if (arguments.program.starts_with("nccl_")) {
    for (Reference& one : reference_programs(routes, collective, arguments.root))
      if (one.name == arguments.program) return std::move(one.program);
    return fail(ErrorCode::unsupported, fmt::format("there is no {} for {} on {}", arguments.program,
                                                    name_of(collective), routes.topology().name()));
  }
  return make_program(arguments.program, collective, layout_of(routes.topology()),
                      {.root = arguments.root, .instances = arguments.instances});
}

/// A file, or with a collective a program by its name.
Result<Program> program_of(const SimulateArguments& arguments, Routes& routes) {
  if (arguments.collective.empty()) {
    if (find_algorithm(arguments.program) != nullptr && !std::filesystem::exists(arguments.program))
      return fail(ErrorCode::invalid_argument,
                  fmt::format("'{}' is an algorithm of the library: say --collective", arguments.program));
    return load_program(arguments.program);
  }
  for (int i = 0; i < kCollectives; ++i)
    if (const auto collective = static_cast<Collective>(i); name_of(collective) == arguments.collective)
      return program_named(arguments, collective, routes);
  return fail(ErrorCode::invalid_argument,
              fmt::format("--collective: '{}' is none; expected all_gather, all_reduce, ...", arguments.collective));
}

/// Links that were busy, the busiest first.
std::vector<int> busiest_of(const Simulation& simulation) {
  std::vector<int> links(simulation.link_busy.size());
  std::iota(links.begin(), links.end(), 0);
  const auto busy = [&](int link) { return simulation.link_busy[static_cast<std::size_t>(link)]; };
  std::stable_sort(links.begin(), links.end(), [&](int one, int other) { return busy(one) > busy(other); });
  while (!links.empty() && (links.size() > kLinksTold || busy(links.back()) <= 0)) links.pop_back();
  return links;
}

double load_of(const Simulation& simulation, int link) {
  const double busy = simulation.link_busy[static_cast<std::size_t>(link)];
  return simulation.seconds > 0 ? busy / simulation.seconds : 0;
}

void print_text(const Program& program, const Topology& topology, const std::vector<SimulatedSize>& rows) {
  fmt::print("{}: {} over {} ranks on {}\n\n", program.name.empty() ? "program" : program.name,
             name_of(program.shape.collective), program.shape.ranks, topology.name());
  fmt::print("{:>10} {:>14} {:>10} {:>14} {:>8} {:>10}\n", "size", "time us", "GB/s", "at least us", "gap", "pieces");
  for (const SimulatedSize& row : rows) {
    fmt::print("{:>10} {:>14.2f} {:>10.3f}", show_bytes(row.bytes), row.simulation.seconds * 1e6,
               row.bandwidth() / 1e9);
    if (row.bound_seconds > 0)
      fmt::print(" {:>14.2f} {:>6.1f} %", row.bound_seconds * 1e6, 100 * row.gap());
    else
      fmt::print(" {:>14} {:>8}", "-", "-");
    fmt::print(" {:>10}\n", row.simulation.pieces);
  }
  for (const SimulatedSize& row : rows) {
    fmt::print("\nbusiest links at {}:\n", show_bytes(row.bytes));
    for (const int link : busiest_of(row.simulation))
      fmt::print("  {:>6.1f} %  {}\n", 100 * load_of(row.simulation, link), topology.describe(topology.link(link)));
  }
}

void print_json(const Program& program, const Topology& topology, const std::vector<SimulatedSize>& rows) {
  Json all = Json::array();
  for (const SimulatedSize& row : rows) {
    Json each = {{"program", program.name},
                 {"collective", name_of(program.shape.collective)},
                 {"topology", topology.name()},
                 {"ranks", program.shape.ranks},
                 {"bytes", row.bytes},
                 {"simulated_us", row.simulation.seconds * 1e6},
                 {"bytes_per_second", row.bandwidth()},
                 {"pieces", row.simulation.pieces}};
    if (row.bound_seconds > 0) {
      each["bound_us"] = row.bound_seconds * 1e6;
      each["gap"] = row.gap();
    }
    for (const int link : busiest_of(row.simulation))
      each["busiest"].push_back({{"link", topology.describe(topology.link(link))},
                                 {"busy_us", row.simulation.link_busy[static_cast<std::size_t>(link)] * 1e6},
                                 {"load", load_of(row.simulation, link)}});
    all.push_back(std::move(each));
  }
  fmt::print("{}\n", all.dump(2));
}

Status draw(const SimulateArguments& arguments, const Program& program, Routes& routes, const SimulatedSize& row) {
  if (!arguments.picture.empty()) {
    const std::string title = fmt::format("{}: {} of {} on {}", program.name, name_of(program.shape.collective),
                                          show_bytes(row.bytes), routes.topology().name());
    if (Status written = replace_text(arguments.picture, timeline_svg(row.simulation, routes, title)); !written)
      return written;
  }
  return arguments.trace.empty() ? Status{} : write_flights(row.simulation, arguments.trace);
}

/// None where the collective has no bounds, or one rank has nothing to send.
Result<std::optional<Bound>> bound_of(const Program& program, const Topology& topology) {
  if (!has_bounds(program.shape.collective)) return std::nullopt;
  return bound(topology, program.shape.collective, program.shape.root).map([](Bound found) {
    return std::optional(std::move(found));
  });
}

int simulate_sizes(const SimulateArguments& arguments, const std::vector<std::size_t>& sizes,
                   std::optional<std::size_t> tile) {
  const auto topology = load_topology(arguments.topology, arguments.nodes);
  if (!topology) return report_error("simulate", topology.error().message);
  Routes routes(*topology);
  const auto program = program_of(arguments, routes);
  if (!program) return report_error("simulate", program.error().message);
  const auto limit = bound_of(*program, *topology);
  if (!limit) return report_error("simulate", limit.error().message);
  SimulationOptions options = arguments.options;
  options.tile = tile.value_or(program->tile);
  options.keeps_flights = !arguments.picture.empty() || !arguments.trace.empty();
  std::vector<SimulatedSize> rows;
  for (const std::size_t bytes : sizes) {
    options.bytes = bytes;
    auto done = simulate(*program, routes, options);
    if (!done) return report_error("simulate", done.error().message);
    const double at_least = *limit ? (*limit)->seconds(static_cast<double>(bytes)) : 0;
    rows.push_back({bytes, std::move(*done), at_least});
  }
  (arguments.json ? print_json : print_text)(*program, *topology, rows);
  const Status drawn = draw(arguments, *program, routes, rows.back());
  return drawn ? 0 : report_error("simulate", drawn.error().message);
}

int run(const SimulateArguments& arguments) {
  std::vector<std::size_t> sizes;
  for (const std::string& text : arguments.sizes) {
    const auto bytes = parse_bytes(text);
    if (!bytes) return report_error("simulate", "--size: " + bytes.error().message, kBadUsage);
    sizes.push_back(*bytes);
  }
  if (sizes.size() > 1 && !(arguments.picture.empty() && arguments.trace.empty()))
    return report_error("simulate", "--output and --trace show one size; several were given", kBadUsage);
  std::optional<std::size_t> tile;
  if (!arguments.tile.empty()) {
    const auto bytes = parse_bytes(arguments.tile);
    if (!bytes) return report_error("simulate", "--tile: " + bytes.error().message, kBadUsage);
    tile = *bytes;
  }
  return simulate_sizes(arguments, sizes, tile);
}

}  // namespace

void add_simulate(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("simulate", "How long a program takes on a topology, and what holds it up");
  auto arguments = std::make_shared<SimulateArguments>();
  command
      ->add_option("program", arguments->program,
                   "a file (JSON or MSCCL XML), an algorithm of the library,\nor what NCCL would run: nccl_ring, "
                   "nccl_tree, nccl_direct")
      ->required();
  command->add_option("--topology", arguments->topology, "a file, or a built-in topology")->required();
  command->add_option("--nodes", arguments->nodes, "copies of the server or host")->check(CLI::Range(1, 1 << 17));
  command->add_option("--collective", arguments->collective, "of an algorithm of the library, e.g. all_gather");
  command->add_option("--root", arguments->root, "of rooted collectives")->capture_default_str();
  command->add_option("--instances", arguments->instances, "parallel copies of an algorithm of the library")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--size", arguments->sizes, "bytes of the whole vector; several after commas")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--tile", arguments->tile,
                      "bytes of a chunk run through at a time; the program's where not said");
  command->add_option("--slots", arguments->options.slots, "pieces a channel holds")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "for programs");
  command->add_option("-o,--output", arguments->picture, "a timeline (SVG) into this file");
  command->add_option("--trace", arguments->trace, "what the Perfetto UI opens, into this file");
  command->footer(
      "Links carry one piece after the other, at their bandwidth; reductions and copies cost nothing.\n\nExamples:\n"
      "  tutti simulate ring --collective all_gather --topology ndv2 --nodes 2 --size 1M,1G\n"
      "  tutti simulate mine.json --topology dgx-a100:nodes=2 --size 64M --tile 512K -o timeline.svg\n\n"
      "Exit status 1 when the program cannot run there.");
  command->callback([arguments, &status] { status = run(*arguments); });
}

}  // namespace tutti::cli
