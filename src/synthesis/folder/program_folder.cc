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

namespace tutti {

namespace {

constexpr int kMostRanksOfXml = 256;

class ProgramWriter {
 public:
  ProgramWriter(const std::string& folder, const Topology& topology, const ProgramFolderOptions& options)
      : folder_(folder), topology_(topology), options_(options) {}

  /// Returns the name of the native file; empty if the program has more steps than a file can hold.
  Result<std::string> write(const std::string& stem, const Program& program) const {
    if (program.shape.ranks <= kMostRanksToCheck)
      if (const CheckReport report = check(program); !report.ok())
        return fail(ErrorCode::internal, fmt::format("{}: {}", program.name, report.violation->to_string()));
    const auto native = write_native(stem + ".json", program);
    if (!native) return native;
    if (!native->empty() && (program.shape.ranks <= kMostRanksOfXml || options_.xml_always))
      write_xml(stem + ".xml", program);
    if (options_.mscclpp)
      if (Status plan = write_mscclpp(stem + ".mscclpp", program); !plan) return tl::unexpected(plan.error());
    return native;
  }

 private:
  Result<std::string> write_native(const std::string& name, const Program& program) const {
    const Status saved = save_program(program, path_of(name));
    if (saved) return name;
    if (saved.error().code != ErrorCode::unsupported) return tl::unexpected(saved.error());
    leave_out(name, saved.error());
    return "";
  }

  void write_xml(const std::string& name, const Program& program) const {
    const MscclOptions dialect{.dialect = options_.msccl_dialect ? MscclDialect::msccl : MscclDialect::executor};
    if (const Status saved = save_program(program, path_of(name), dialect); !saved) leave_out(name, saved.error());
  }

  Status write_mscclpp(const std::string& name, const Program& program) const {
    MscclppOptions nodes;
    for (const int gpu : topology_.gpus()) nodes.node_of_rank.push_back(topology_.vertex(gpu).node);
    const auto text = save_mscclpp(program, nodes);
    if (text) return replace_text(path_of(name), *text);
    leave_out(name, text.error());
    return {};
  }

  void leave_out(const std::string& name, const Error& why) const {
    if (options_.on_left_out) options_.on_left_out(name, why.message);
  }

  std::string path_of(const std::string& name) const { return fmt::format("{}/{}", folder_, name); }

  const std::string& folder_;
  const Topology& topology_;
  const ProgramFolderOptions& options_;
};

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

Status write_program_folder(const std::string& folder, const Topology& topology,
                            std::vector<SynthesizedCollective>& synthesized, const ProgramFolderOptions& options) {
  if (Status written = replace_text(folder + "/topology.json", topology_to_json(topology)); !written) return written;
  const ProgramWriter writer(folder, topology, options);
  for (SynthesizedCollective& one : synthesized) {
    if (Status written = write_bounds(folder + "/bounds", one); !written) return written;
    for (std::size_t i = 0; i < one.found.programs.size(); ++i) {
      const auto file = writer.write(fmt::format("{}.{}", name_of(one.collective), i), one.found.programs[i]);
      if (!file) return tl::unexpected(file.error());
      one.files.push_back(*file);
    }
  }
  if (Status written = write_tuner(folder + "/nccl_tuner.csv", topology, synthesized); !written) return written;
  if (Status written = replace_text(folder + "/report.json", report_json(topology, synthesized)); !written)
    return written;
  return replace_text(folder + "/report.html", report_html(topology, synthesized));
}

}  // namespace tutti
