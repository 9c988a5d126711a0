#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "bound/bound.hpp"
#include "cli/support/command.hpp"
#include "documents/text_file.hpp"
#include "synthesis/trees/symmetric_trees.hpp"
#include "topology/formats/load.hpp"

namespace tutti::cli {
namespace {

struct TreesArguments {
  std::string topology;
  int nodes = 0;
  double seconds = 60;
  std::string output;
};

/// {"format": "tutti trees 1", "topology": "...", "ranks": 16, "digits": [{"stride": 1, "size": 8, "moves": true}],
///  "homes": [0], "trees": 2, "hops": [[tree, from, to, channel], ...]}: the trees of the homes, in order of time;
///  every
/// other rank's are theirs, moved by adding to the digits that move.
std::string to_json(const Topology& topology, const SymmetricTrees& trees) {
  nlohmann::ordered_json json;
  json["format"] = "tutti trees 1";
  json["topology"] = topology.name();
  json["ranks"] = trees.ranks;
  for (const auto& digit : trees.group.digits())
    json["digits"].push_back({{"stride", digit.stride}, {"size", digit.size}, {"moves", digit.moves}});
  json["homes"] = trees.representatives;
  json["trees"] = trees.copies;
  json["hops"] = nlohmann::ordered_json::array();
  for (const SymmetricHop& hop : trees.hops) json["hops"].push_back({hop.tree, hop.from, hop.to, hop.channel});
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

int print_trees(const TreesArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const auto topology = load_topology(arguments.topology, arguments.nodes);
  if (!topology) return report_error("topo", topology.error().message);
  const auto proven = bound(*topology, Collective::all_gather);
  if (!proven) return report_error("topo", proven.error().message);
  if (proven->certificates.empty()) return report_error("topo", "one GPU has nothing to send");
  Routes routes(*topology);
  const auto trees = find_symmetric_trees(routes, {}, arguments.seconds);
  if (!trees) return report_error("topo", trees.error().message);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const double rate = proven->for_large().rate.value();
  fmt::print("{} ranks, {} of them stand for all\n{} trees for each rank, at most {} high\n", trees->ranks,
             trees->representatives.size(), trees->copies, trees->height);
  fmt::print("{:.3f} GB/s for a large all-gather, of {:.3f} that are possible: {:.2f} % lost\nin {:.2f} s\n",
             1 / trees->rate / 1e9, 1 / rate / 1e9, std::max(0.0, 100 * (trees->rate / rate - 1)), seconds);
  if (arguments.output.empty()) return 0;
  const Status written = replace_text(arguments.output, to_json(*topology, *trees));
  return written ? 0 : report_error("topo", written.error().message);
}

}  // namespace

void add_topo_trees(CLI::App& group, int& status) {
  auto* command = group.add_subcommand("trees", "The trees of an all-gather on a symmetric topology of any size");
  auto arguments = std::make_shared<TreesArguments>();
  command->add_option("topology", arguments->topology, "a file, or a built-in topology")->required();
  command->add_option("--nodes", arguments->nodes, "copies of the server or host")->check(CLI::Range(1, 1 << 17));
  command->add_option("--time", arguments->seconds, "seconds for the search")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "a file for the trees (JSON)");
  command->footer("Example:\n  tutti topo trees dgx-a100 --nodes 2048");
  command->callback([arguments, &status] { status = print_trees(*arguments); });
}

}  // namespace tutti::cli
