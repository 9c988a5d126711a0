#include "cli/synth_write.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "base/text_file.hpp"
#include "program/check.hpp"
#include "program/format.hpp"
#include "synthesis/certificate.hpp"
#include "topology/format_json.hpp"

namespace tutti::cli {

namespace {

constexpr int kMostRanksOfXml = 256;
constexpr int kMostRanksToCheck = 256;  // beyond, the checker takes longer than the search

Status write_program(const std::string& folder, const std::string& stem, const Program& program,
                     const SynthOutputs& outputs) {
  if (program.shape.ranks <= kMostRanksToCheck)
    if (const CheckReport report = check(program); !report.ok())
      return fail(ErrorCode::internal, fmt::format("{}: {}", program.name, report.violation->to_string()));
  if (Status saved = save_program(program, fmt::format("{}/{}.json", folder, stem)); !saved) return saved;
  if (program.shape.ranks > kMostRanksOfXml && !outputs.xml_always) return {};
  const MscclOptions options{.dialect = outputs.msccl_dialect ? MscclDialect::msccl : MscclDialect::executor};
  const Status saved = save_program(program, fmt::format("{}/{}.xml", folder, stem), options);
  if (!saved)
    fmt::print(stderr, "no {}.xml: {}\n", stem, saved.error().message);  // the format holds less than programs
  return {};
}

Status write_bounds(const std::string& folder, const SynthesizedCollective& one) {
  std::filesystem::create_directories(folder);
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
      const Status written = write_program(folder, stem, one.found.programs[i], outputs);
      if (!written) return written;
      one.files.push_back(stem + ".json");
    }
  }
  if (Status written = replace_text(folder + "/report.json", report_json(topology, synthesized)); !written)
    return written;
  return replace_text(folder + "/report.html", report_html(topology, synthesized));
}

}  // namespace tutti::cli
