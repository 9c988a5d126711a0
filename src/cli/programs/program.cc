#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "cli/support/command.hpp"
#include "documents/text_file.hpp"
#include "program/check/check.hpp"
#include "program/draw/show.hpp"
#include "program/formats/format.hpp"

namespace tutti::cli {
namespace {

std::string describe(const Program& program) {
  const Shape& shape = program.shape;
  std::string text = fmt::format("{} over {} rank{}, {} chunk{}", name_of(shape.collective), shape.ranks,
                                 shape.ranks == 1 ? "" : "s", shape.chunks, shape.chunks == 1 ? "" : "s");
  if (has_root(shape.collective)) text += fmt::format(", root {}", shape.root);
  if (!program.in_place || !program.out_of_place) text += program.in_place ? ", in place only" : ", out of place only";
  if (program.one_sided) text += ", one-sided";
  return program.name.empty() ? text : fmt::format("{}: {}", program.name, text);
}

int check_file(const std::string& path, int slots) {
  const auto program = load_program(path);
  if (!program) return report_error("program", program.error().message);
  CheckOptions options;
  options.slots = slots;
  const CheckReport report = check(*program, options);
  fmt::print("{}\n", describe(*program));
  if (!report.ok()) {
    fmt::print("wrong: {}\n", report.violation->to_string());
    return 1;
  }
  fmt::print("ok\n");
  if (!reduces(program->shape.collective)) return 0;
  fmt::print("roundings on the way to an element: at most {}\n", report.roundings);
  fmt::print("operands in rank order: {}\n",
             report.rank_order         ? "yes, one after another: the same bits whatever the size"
             : report.ordered_operands ? "yes, differently bracketed: fit for functions that do not commute"
                                       : "no: for functions that commute");
  return 0;
}

int show_file(const std::string& path, const std::string& svg, int ranks) {
  const auto program = load_program(path);
  if (!program) return report_error("program", program.error().message);
  if (svg.empty()) {
    fmt::print("{}", show_text(*program, ranks));
    return 0;
  }
  const Status written = replace_text(svg, show_svg(*program));
  return written ? 0 : report_error("program", written.error().message);
}

int convert_file(const std::string& from, const std::string& to, const MscclOptions& xml, MscclppOptions plan,
                 int ranks_per_node) {
  const auto program = load_program(from);
  if (!program) return report_error("program", program.error().message);
  for (int rank = 0; ranks_per_node > 0 && rank < program->shape.ranks; ++rank)
    plan.node_of_rank.push_back(rank / ranks_per_node);
  const auto saved = save_program(*program, to, xml, plan);
  return saved ? 0 : report_error("program", saved.error().message);
}

void add_check(CLI::App* group, int& status) {
  auto* command = group->add_subcommand("check", "Prove that a program does what its collective promises");
  auto path = std::make_shared<std::string>();
  auto slots = std::make_shared<int>(CheckOptions().slots);
  command->add_option("file", *path, "JSON or MSCCL XML")->required();
  command->add_option("--slots", *slots, "chunks a sender may be ahead of its receiver")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->callback([path, slots, &status] { status = check_file(*path, *slots); });
}

void add_show(CLI::App* group, int& status) {
  auto* command = group->add_subcommand("show", "Draw the steps of a program");
  auto path = std::make_shared<std::string>();
  auto svg = std::make_shared<std::string>();
  auto ranks = std::make_shared<int>(8);
  command->add_option("file", *path, "JSON or MSCCL XML")->required();
  command->add_option("--svg", *svg, "a picture into this file, instead of text");
  command->add_option("--ranks", *ranks, "how many ranks to show as text")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->callback([path, svg, ranks, &status] { status = show_file(*path, *svg, *ranks); });
}

void add_convert(CLI::App* group, int& status) {
  static const std::map<std::string, MscclDialect> kDialects = {{"msccl", MscclDialect::msccl},
                                                                {"executor", MscclDialect::executor}};
  auto* command = group->add_subcommand("convert", "Write a program in another format, told by the extension");
  auto from = std::make_shared<std::string>();
  auto to = std::make_shared<std::string>();
  auto xml = std::make_shared<MscclOptions>();
  auto plan = std::make_shared<MscclppOptions>();
  auto ranks_per_node = std::make_shared<int>(0);
  command->add_option("file", *from, "JSON or MSCCL XML")->required();
  command->add_option("-o,--output", *to, "FILE.json, FILE.xml, or FILE.mscclpp.json: a plan for MSCCL++")->required();
  command->add_option("--dialect", xml->dialect, "of XML: msccl (microsoft/msccl) or executor (msccl-executor-nccl)")
      ->transform(CLI::CheckedTransformer(kDialects));
  command->add_option("--protocol", xml->protocol, "of XML: Simple, LL, LL128")
      ->check(CLI::IsMember({"Simple", "LL", "LL128"}))
      ->capture_default_str();
  command->add_option("--ranks-per-node", *ranks_per_node, "of plans: ports lead to other nodes; default: all on one")
      ->check(CLI::PositiveNumber);
  command->add_flag("--in-place", plan->in_place, "of plans: for calls in place, not for the others");
  command->callback([from, to, xml, plan, ranks_per_node, &status] {
    status = convert_file(*from, *to, *xml, *plan, *ranks_per_node);
  });
}

}  // namespace

void add_program(CLI::App& app, int& status) {
  auto* group = app.add_subcommand("program", "Check, show or convert a collective's program file");
  group->require_subcommand(1);
  group->footer(
      "Examples:\n  tutti program check ring.json\n  tutti program show ring.xml --svg ring.svg\n"
      "  tutti program convert ring.json -o ring.xml --dialect msccl\n"
      "  tutti program convert ring.json -o ring.mscclpp.json --ranks-per-node 8\n\nExit status 1 when the program is "
      "wrong.");
  add_check(group, status);
  add_show(group, status);
  add_convert(group, status);
}

}  // namespace tutti::cli
