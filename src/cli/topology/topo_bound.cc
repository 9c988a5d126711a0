#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "bound/bound.hpp"
#include "bound/check_certificate.hpp"
#include "cli/support/command.hpp"
#include "cli/support/parse.hpp"
#include "documents/text_file.hpp"
#include "topology/formats/load.hpp"

namespace tutti::cli {
namespace {

struct BoundArguments {
  std::string topology;
  int nodes = 0;
  std::string collective;  // empty: all
  std::string size = "1G";
  int root = 0;
  double seconds = 3;
  std::string folder;
};

Status save(const Bound& found, Collective collective, const std::string& folder) {
  for (std::size_t i = 0; i < found.certificates.size(); ++i) {
    const std::string path = fmt::format("{}/{}.{}.json", folder, name_of(collective), i);
    if (Status written = replace_text(path, certificate_to_json(found.certificates[i])); !written) return written;
  }
  return {};
}

/// One line: time, bandwidth of the vector, and what is known of how near the bound is to the best.
void print_row(const Bound& found, Collective collective, double bytes) {
  const double seconds = found.seconds(bytes);
  const Certificate& large = found.for_large();
  fmt::print("{:<15} {:>12.2f} {:>12.3f} {:>14.3f}", name_of(collective), seconds * 1e6, bytes / seconds / 1e9,
             1 / large.rate.value() / 1e9);
  if (found.rate_limit > 0)
    fmt::print("   no lengths prove more than {:.2f} % above",
               100 * std::max(0.0, found.rate_limit / large.rate.value() - 1));
  fmt::print("\n");
}

int print_bounds(const BoundArguments& arguments) {
  const auto topology = load_topology(arguments.topology, arguments.nodes);
  if (!topology) return report_error("topo", topology.error().message);
  const auto bytes = parse_bytes(arguments.size);
  if (!bytes) return report_error("topo", bytes.error().message);
  if (topology->ranks() < 2) return report_error("topo", "one GPU has nothing to send, so there is nothing to bound");
  if (!arguments.folder.empty())
    if (const Status made = make_folder(arguments.folder); !made) return report_error("topo", made.error().message);
  fmt::print("{:<15} {:>12} {:>12} {:>14}\n", "collective", "at least us", "at most GB/s", "of large GB/s");
  bool any = false;
  for (int i = 0; i < kCollectives; ++i) {
    const auto collective = static_cast<Collective>(i);
    if (!has_bounds(collective) || (!arguments.collective.empty() && arguments.collective != name_of(collective)))
      continue;
    any = true;
    BoundOptions options;
    options.seconds = arguments.seconds;
    const auto found = bound(*topology, collective, arguments.root, options);
    if (!found) return report_error("topo", found.error().message);
    print_row(*found, collective, static_cast<double>(*bytes));
    if (arguments.folder.empty()) continue;
    if (Status saved = save(*found, collective, arguments.folder); !saved)
      return report_error("topo", saved.error().message);
  }
  return any ? 0 : report_error("topo", fmt::format("'{}' is no collective with bounds", arguments.collective));
}

int check_file(const std::string& path, const std::string& where, int nodes) {
  const auto topology = load_topology(where, nodes);
  if (!topology) return report_error("topo", topology.error().message);
  const auto text = read_text(path);
  if (!text) return report_error("topo", text.error().message);
  const auto certificate = certificate_from_json(*text);
  if (!certificate) return report_error("topo", fmt::format("{}: {}", path, certificate.error().message));
  if (const Status status = check_certificate(*topology, *certificate); !status)
    return report_error("topo", fmt::format("{}: {}", path, status.error().message));
  fmt::print("proven: {} of B bytes on {} ranks takes at least {:.4g} us + B / {:.6g} GB/s\n",
             name_of(certificate->collective), certificate->ranks, certificate->latency.value() * 1e6,
             1 / certificate->rate.value() / 1e9);
  return 0;
}

}  // namespace

void add_topo_bound(CLI::App& group, int& status) {
  auto* command = group.add_subcommand("bound", "What no algorithm can beat on a topology, with proof");
  auto arguments = std::make_shared<BoundArguments>();
  command->add_option("topology", arguments->topology, "a file, or a built-in topology")->required();
  command->add_option("--nodes", arguments->nodes, "copies of the server or host")->check(CLI::Range(1, 1 << 17));
  command->add_option("--collective", arguments->collective, "only this one, e.g. all_gather");
  command->add_option("--size", arguments->size, "bytes of the whole vector")->capture_default_str();
  command->add_option("--root", arguments->root, "of rooted collectives")->capture_default_str();
  command->add_option("--time", arguments->seconds, "seconds for the search of an all-to-all")->capture_default_str();
  command->add_option("-o,--output", arguments->folder, "a folder for the certificates");
  command->callback([arguments, &status] { status = print_bounds(*arguments); });

  auto* check = group.add_subcommand("check", "Recompute a certificate from scratch");
  auto path = std::make_shared<std::string>();
  auto where = std::make_shared<std::string>();
  auto nodes = std::make_shared<int>(0);
  check->add_option("certificate", *path, "as `tutti topo bound -o` writes it")->required();
  check->add_option("topology", *where, "a file, or a built-in topology")->required();
  check->add_option("--nodes", *nodes, "copies of the server or host")->check(CLI::Range(1, 1 << 17));
  check->callback([path, where, nodes, &status] { status = check_file(*path, *where, *nodes); });
}

}  // namespace tutti::cli
