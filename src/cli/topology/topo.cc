#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "cli/support/command.hpp"
#include "documents/text_file.hpp"
#include "topology/builtin/builtin.hpp"
#include "topology/draw/show_svg.hpp"
#include "topology/formats/format_json.hpp"
#include "topology/formats/load.hpp"

namespace tutti::cli {
namespace {

/// What to show, and where.
struct ShowOptions {
  std::string topology;
  int nodes = 0;
  std::string output;
  bool json = false;
};

int show(const ShowOptions& options) {
  const auto topology = load_topology(options.topology, options.nodes);
  if (!topology) return report_error("topo", topology.error().message);
  if (options.json || !options.output.empty()) {
    const std::string text = options.json ? topology_to_json(*topology) : show_svg(*topology);
    if (!options.output.empty()) {
      const Status written = replace_text(options.output, text);
      return written ? 0 : report_error("topo", written.error().message);
    }
    fmt::print("{}", text);
    return 0;
  }
  fmt::print("{}", show_text(*topology));
  return 0;
}

int list() {
  for (const Builtin& builtin : builtin_topologies()) {
    fmt::print("{:<10} {}\n", builtin.name, builtin.summary);
    for (const BuiltinParameter& parameter : builtin.parameters)
      fmt::print("             {}={}  {}\n", parameter.name, parameter.standard, parameter.meaning);
  }
  return 0;
}

}  // namespace

void add_topo(CLI::App& app, int& status) {
  auto* group = app.add_subcommand("topo", "Topologies: those built in, and files of several formats");
  group->require_subcommand(1);
  group->footer(
      "A topology is a file (our JSON, TACCL's, NCCL_TOPO_DUMP_FILE's XML, the text of `nvidia-smi topo -m`)\n"
      "or a built-in one with its parameters.\n\nExamples:\n  tutti topo list\n"
      "  tutti topo show dgx-h100:nodes=4,fabric=leaf-spine,oversubscription=2 -o h100.svg\n"
      "  tutti topo show ndv2 --nodes 2 --json -o ndv2.json\n  tutti topo show nccl-topo.xml --nodes 2 -o two.svg\n"
      "  tutti topo measure -n 4 -o machine.json\n  tutti topo bound ndv2 --nodes 2 --size 1G -o proofs\n"
      "  tutti topo check proofs/all_gather.0.json ndv2 --nodes 2");
  auto* command = group->add_subcommand("show", "Draw a topology, or write it as JSON");
  auto options = std::make_shared<ShowOptions>();
  command->add_option("topology", options->topology, "a file, or a built-in topology")->required();
  command->add_option("--nodes", options->nodes, "copies of the server or host")->check(CLI::Range(1, 1 << 17));
  command->add_option("-o,--output", options->output, "a picture (SVG), or with --json the topology, into this file");
  command->add_flag("--json", options->json, "the topology in our own format");
  command->callback([options, &status] { status = show(*options); });
  add_topo_bound(*group, status);
  add_topo_trees(*group, status);
  group->add_subcommand("list", "The built-in topologies and their parameters")->callback([&status] {
    status = list();
  });
}

}  // namespace tutti::cli
