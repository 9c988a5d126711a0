#include <fmt/core.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <optional>

#include "cli/support/command.hpp"
#include "cli/support/interrupts.hpp"
#include "cli/support/parse.hpp"
#include "cli/synthesis/synth_sizes.hpp"
#include "documents/text_file.hpp"
#include "synthesis/folder/program_folder.hpp"
#include "synthesis/synthesize.hpp"
#include "topology/builtin/builtin.hpp"
#include "topology/formats/format_taccl.hpp"
#include "topology/formats/load.hpp"

namespace tutti::cli {
namespace {

struct SynthArguments {
  std::string topology;
  int nodes = 0;
  std::string sketch;
  std::vector<std::string> collectives;
  std::string sizes = "1K..1G";
  double factor = 4;
  int root = 0;
  double seconds = 60;
  double gap_percent = 3;
  std::vector<std::string> methods;
  LoweringWishes lowering;
  std::string folder;
  ProgramFolderOptions outputs;
  bool quiet = false;
};

/// What is to be synthesized for: a topology, and the sketch it was made of.
struct Machine {
  Topology topology;
  std::optional<SketchedNode> sketch;
};

Result<Machine> load_machine(const SynthArguments& arguments) {
  if (arguments.sketch.empty()) {
    auto topology = load_topology(arguments.topology, arguments.nodes);
    if (!topology) return tl::unexpected(topology.error());
    return Machine{std::move(*topology), {}};
  }
  if (names_builtin(arguments.topology))
    return fail(ErrorCode::invalid_argument,
                fmt::format("--sketch goes with a topology file of TACCL's, which describes one node, not with the "
                            "built-in {}",
                            arguments.topology));
  const auto text = read_text(arguments.topology);
  if (!text) return tl::unexpected(text.error());
  const auto profile = profile_from_taccl(*text);
  if (!profile) return tl::unexpected(about_file(arguments.topology, profile.error()));
  const auto sketch_text = read_text(arguments.sketch);
  if (!sketch_text) return tl::unexpected(sketch_text.error());
  const auto sketch = sketch_from_taccl(*sketch_text);
  if (!sketch) return tl::unexpected(about_file(arguments.sketch, sketch.error()));
  auto applied = apply_sketch(*profile, *sketch, *sketch_text);
  if (!applied) return tl::unexpected(about_file(arguments.sketch, applied.error()));
  return Machine{std::move(applied->topology), SketchedNode{*profile, *sketch, std::move(applied->plan)}};
}

Result<std::vector<Collective>> collectives_of(const SynthArguments& arguments) {
  std::vector<Collective> chosen;
  std::vector<std::string_view> known;
  for (int i = 0; i < kCollectives; ++i)
    if (has_bounds(static_cast<Collective>(i))) known.push_back(name_of(static_cast<Collective>(i)));
  for (const std::string& name : arguments.collectives) {
    if (name != "all" && std::find(known.begin(), known.end(), name) == known.end())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("'{}' is no collective; expected all, or {}", name, fmt::join(known, ", ")));
    for (int i = 0; i < kCollectives; ++i) {
      const auto collective = static_cast<Collective>(i);
      if (has_bounds(collective) && (name == "all" || name == name_of(collective))) chosen.push_back(collective);
    }
  }
  return chosen;
}

/// One line that is written over, where there is a terminal; else a line for every improvement.
class ProgressLine {
 public:
  ProgressLine(Collective collective, bool quiet) : collective_(collective), quiet_(quiet), terminal_(isatty(2) != 0) {}
  ~ProgressLine() { clear(); }

  void show(const SynthesisProgress& now) {
    if (quiet_ || (!terminal_ && now.bytes == 0)) return;
    std::string line = fmt::format("{:6.1f} s  {}: {}", now.elapsed, name_of(collective_), now.stage);
    if (now.bytes != 0)
      last_ = fmt::format("; {} takes {:.2f} us, {:.1f} % above the bound", show_bytes(now.bytes), now.seconds * 1e6,
                          now.gap * 100);
    line += last_;
    if (!terminal_) return fmt::print(stderr, "{}\n", line);
    fmt::print(stderr, "\r\033[K{}", line.substr(0, kColumns));
    std::fflush(stderr);
    shown_ = true;
  }

  void clear() {
    if (shown_) fmt::print(stderr, "\r\033[K");
    shown_ = false;
  }

 private:
  static constexpr std::size_t kColumns = 100;

  Collective collective_;
  bool quiet_;
  bool terminal_;
  bool shown_ = false;
  std::string last_;
};

void print_table(Collective collective, const Synthesis& found) {
  fmt::print("{:<15} {:>9} {:>13} {:>13} {:>8} {:>9}  {}\n", name_of(collective), "size", "simulated us", "bound us",
             "gap %", "GB/s", "by");
  for (const Synthesized& size : found.sizes)
    fmt::print("{:<15} {:>9} {:>13.2f} {:>13.2f} {:>8.1f} {:>9.2f}  {}\n", "", show_bytes(size.bytes),
               size.simulated * 1e6, size.bound * 1e6, size.gap() * 100,
               static_cast<double>(size.bytes) / size.simulated / 1e9, size.generator);
}

int synth(const SynthArguments& arguments) {
  const auto machine = load_machine(arguments);
  if (!machine) return report_error("synth", machine.error().message);
  const auto collectives = collectives_of(arguments);
  if (!collectives) return report_error("synth", collectives.error().message, kBadUsage);
  const auto sizes = parse_sizes(arguments.sizes, arguments.factor);
  if (!sizes) return report_error("synth", sizes.error().message, kBadUsage);
  if (!arguments.folder.empty())
    if (const Status made = make_folder(arguments.folder); !made) return report_error("synth", made.error().message);

  Interrupts interrupts;
  std::vector<SynthesizedCollective> all;
  for (const Collective collective : *collectives) {
    ProgressLine progress(collective, arguments.quiet);
    SynthesisRequest request{.collective = collective,
                             .root = arguments.root,
                             .sizes = *sizes,
                             .seconds = arguments.seconds,
                             .enough = arguments.gap_percent / 100,
                             .sketch = machine->sketch ? &*machine->sketch : nullptr,
                             .lowering = arguments.lowering,
                             .methods = arguments.methods,
                             .progress = {}};
    request.progress = [&](const SynthesisProgress& now) {
      progress.show(now);
      return interrupts.check().has_value();
    };
    auto found = synthesize(machine->topology, request);
    progress.clear();
    if (!found) return report_error("synth", fmt::format("{}: {}", name_of(collective), found.error().message));
    print_table(collective, *found);
    all.push_back({collective, arguments.root, std::move(*found), {}});
    if (interrupts.exit_status() != 0) {
      fmt::print(stderr, "tutti synth: interrupted; the best so far is kept\n");
      break;
    }
  }
  if (arguments.folder.empty()) return interrupts.exit_status();
  ProgramFolderOptions outputs = arguments.outputs;
  outputs.on_left_out = [](std::string_view file, std::string_view reason) {
    fmt::print(stderr, "no {}: {}\n", file, reason);
  };
  const Status written = write_program_folder(arguments.folder, machine->topology, all, outputs);
  if (!written) return report_error("synth", written.error().message);
  fmt::print("written to {}: look at report.html\n", arguments.folder);
  return interrupts.exit_status();
}

}  // namespace

void add_synth(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("synth", "Make the best programs for a topology, with proof of how good they are");
  auto arguments = std::make_shared<SynthArguments>();
  command->add_option("--topology", arguments->topology, "a file, or a built-in topology (`tutti topo list`)")
      ->required();
  command->add_option("--nodes", arguments->nodes, "copies of the server or host")->check(CLI::Range(1, 1 << 17));
  command->add_option("--collective", arguments->collectives, "which ones, by name, or all")
      ->delimiter(',')
      ->required();
  command->add_option("--size", arguments->sizes, "bytes of the whole vector: 64K, 1K,1M or 1K..1G")
      ->capture_default_str();
  command->add_option("--step", arguments->factor, "between the sizes of a range")
      ->check(CLI::Range(1.1, 1e6))
      ->capture_default_str();
  command->add_option("--sketch", arguments->sketch,
                      "a sketch file of TACCL's; the topology is then its file of one node");
  command->add_option("--root", arguments->root, "of rooted collectives")->capture_default_str();
  command->add_option("--time", arguments->seconds, "seconds for each collective")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--gap", arguments->gap_percent, "percent above the bound that are good enough")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--method", arguments->methods,
                   fmt::format("only these generators: {}", fmt::join(synthesis_methods(), ", ")))
      ->delimiter(',');
  command->add_option("-o,--output", arguments->folder,
                      "a folder for programs, certificates, report.html and report.json");
  command
      ->add_option("--instances", arguments->lowering.instances, "copies of a program side by side; by itself: 1 or 4")
      ->check(CLI::Range(1, 32));
  command
      ->add_option("--channels", arguments->lowering.channels,
                   "between two ranks: one, match (the topology's links), most; by itself: match")
      ->transform(CLI::CheckedTransformer(std::map<std::string, ChannelPolicy>{
          {"one", ChannelPolicy::one}, {"match", ChannelPolicy::match_topology}, {"most", ChannelPolicy::most}}));
  command->add_flag("!--no-merge", arguments->lowering.merges,
                    "a step for every chunk, also where they could go together");
  command->add_flag("!--no-reuse", arguments->lowering.reuses_scratch, "scratch is used once only");
  command->add_flag("--xml", arguments->outputs.xml_always, "MSCCL's XML above 256 ranks, too");
  command->add_flag("--msccl", arguments->outputs.msccl_dialect,
                    "XML in the dialect of microsoft/msccl, not the executor's and RCCL's");
  command->add_flag("--mscclpp", arguments->outputs.mscclpp, "execution plans of MSCCL++ as well");
  command->add_flag("--quiet", arguments->quiet, "no progress");
  command->footer(
      "The search ends when every size is near enough to its bound, or time is up; Ctrl-C keeps the best so far.\n\n"
      "Examples:\n"
      "  tutti synth --topology ndv2 --nodes 2 --collective all_gather --size 1K..1G -o plans\n"
      "  tutti synth --topology dgx-a100 --nodes 10 --collective all --size 1G --time 10\n"
      "  tutti synth --topology examples/topologies/taccl/topo-ndv2-1MB.json --sketch "
      "examples/sketches/sk1-ndv2-n2.json \\\n"
      "              --collective all_gather --size 1M -o plans");
  command->callback([arguments, &status] { status = synth(*arguments); });
}

}  // namespace tutti::cli
