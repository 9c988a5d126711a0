#include "synthesis/folder/program_folder.hpp"

#include <fmt/format.h>

#include <optional>

#include "bound/certificate.hpp"
#include "documents/text_file.hpp"
#include "program/check/check.hpp"
#include "program/formats/format.hpp"
#include "program/formats/format_mscclpp.hpp"
#include "program/formats/format_nccl_tuner.hpp"
#include "topology/formats/format_json.hpp"

namespace tutti::cli {

namespace {

constexpr int kMostRanksOfXml = 256;

/// The name of the file; none where the program has more steps than a file can hold.
Result<std::string> write_program(const std::string& folder, const std::string& stem, const Program& program,
                                  const SynthOutputs& outputs) {
  if (program.shape.ranks <= kMostRanksToCheck)
    if (const CheckReport report = check(program); !report.ok())
      return fail(ErrorCode::internal, fmt::format("{}: {}", program.name, report.violation->to_string()));
  const std::string name = stem + ".json";
  const Status native = save_program(program, fmt::format("{}/{}", folder, name));
  if (!native && native.error().code == ErrorCode::unsupported) {
    fmt::print(stderr, "no {}: {}\n", name, native.error().message);
    return "";
  }
  if (!native) return tl::unexpected(native.error());
  if (program.shape.ranks > kMostRanksOfXml && !outputs.xml_always) return name;
  const MscclOptions options{.dialect = outputs.msccl_dialect ? MscclDialect::msccl : MscclDialect::executor};
  const Status saved = save_program(program, fmt::format("{}/{}.xml", folder, stem), options);
  if (!saved)
    fmt::print(stderr, "no {}.xml: {}\n", stem, saved.error().message);  // the format holds less than programs
  return name;
}

/// Where the format cannot say it, that is told, and no reason to fail.
Status write_mscclpp(const std::string& folder, const std::string& stem, const Program& program,
                     const Topology& topology) {
  MscclppOptions options;
  for (const int gpu : topology.gpus()) options.node_of_rank.push_back(topology.vertex(gpu).node);
  const auto text = save_mscclpp(program, options);
  if (text) return replace_text(fmt::format("{}/{}.mscclpp", folder, stem), *text);
  fmt::print(stderr, "no {}.mscclpp: {}\n", stem, text.error().message);
  return {};
}

/// The algorithm of NCCL's that is as good as ours at a size.
std::optional<NcclAlgorithm> as_good(const Synthesis& found, std::size_t at) {
  constexpr double kAsGood = 1.01;
  for (const Rival& rival : found.rivals) {
    if (rival.simulated[at] == 0 || rival.simulated[at] > found.sizes[at].simulated * kAsGood) continue;
    if (rival.name == "nccl_ring") return NcclAlgorithm::ring;
    if (rival.name == "nccl_tree") return NcclAlgorithm::tree;
  }
  return std::nullopt;
}

Status write_tuner(const std::string& path, const Topology& topology,
                   const std::vector<SynthesizedCollective>& synthesized) {
  std::vector<NcclTunerRow> rows;
  for (const SynthesizedCollective& one : synthesized) {
    const auto& sizes = one.found.sizes;
    for (std::size_t at = 0; at < sizes.size(); ++at) {
      const auto algorithm = as_good(one.found, at);
      if (!algorithm) continue;
      rows.push_back({.collective = one.collective,
                      .min_bytes = at == 0 ? 0 : end_of_range(sizes[at - 1].bytes, sizes[at].bytes) + 1,
                      .max_bytes = at + 1 == sizes.size() ? 0 : end_of_range(sizes[at].bytes, sizes[at + 1].bytes),
                      .algorithm = *algorithm,
                      .nodes = topology.nodes(),
                      .ranks = topology.ranks()});
    }
  }
  if (rows.empty()) return {};
  const auto text = save_nccl_tuner(rows);
  return text ? replace_text(path, *text) : tl::unexpected(text.error());
}

Status write_bounds(const std::string& folder, const SynthesizedCollective& one) {
  if (Status made = make_folder(folder); !made) return made;
  for (std::size_t i = 0; i < one.found.bound.certificates.size(); ++i) {
    const std::string path = fmt::format("{}/{}.{}.json", folder, name_of(one.collective), i);
    if (Status written = replace_text(path, certificate_to_json(one.found.bound.certificates[i])); !written)
      return written;
  }
  return {};
}

}  // namespace

Status write_synthesis(const std::string& folder, const Topology& topology,
                       std::vector<SynthesizedCollective>& synthesized, const SynthOutputs& outputs) {
  if (Status written = replace_text(folder + "/topology.json", topology_to_json(topology)); !written) return written;
  for (SynthesizedCollective& one : synthesized) {
    if (Status written = write_bounds(folder + "/bounds", one); !written) return written;
    for (std::size_t i = 0; i < one.found.programs.size(); ++i) {
      const std::string stem = fmt::format("{}.{}", name_of(one.collective), i);
      const auto file = write_program(folder, stem, one.found.programs[i], outputs);
      if (!file) return tl::unexpected(file.error());
      if (outputs.mscclpp)
        if (Status plan = write_mscclpp(folder, stem, one.found.programs[i], topology); !plan) return plan;
      one.files.push_back(*file);
    }
  }
  if (Status written = write_tuner(folder + "/nccl_tuner.csv", topology, synthesized); !written) return written;
  if (Status written = replace_text(folder + "/report.json", report_json(topology, synthesized)); !written)
    return written;
  return replace_text(folder + "/report.html", report_html(topology, synthesized));
}

}  // namespace tutti::cli
