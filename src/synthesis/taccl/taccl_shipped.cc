#include "synthesis/taccl/taccl_shipped.hpp"

#include <fmt/format.h>

#include <map>

#include "documents/text_file.hpp"

namespace tutti {
namespace {

/// File names without ".json", and what is in the files.
Result<std::map<std::string, std::string>> read_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::map<std::string, std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".json") continue;
    auto text = read_text(entry.path().string());
    if (!text) return tl::unexpected(text.error());
    texts[entry.path().stem().string()] = std::move(*text);
  }
  if (error) return fail(ErrorCode::invalid_argument, fmt::format("{}: {}", folder.string(), error.message()));
  return texts;
}

/// "ndv2" of "topo-ndv2-1MB".
std::string machine_of(const std::string& name) {
  const std::size_t first = name.find('-') + 1;
  return name.substr(first, name.find('-', first) - first);
}

}  // namespace

std::string ShippedCase::name() const { return fmt::format("{} {} {}", topology, sketch, name_of(collective)); }

Result<std::vector<ShippedCase>> shipped_cases(const std::filesystem::path& examples) {
  const auto topologies = read_folder(examples / "topologies" / "taccl");
  if (!topologies) return tl::unexpected(topologies.error());
  const auto sketches = read_folder(examples / "sketches");
  if (!sketches) return tl::unexpected(sketches.error());
  std::vector<ShippedCase> cases;
  for (const auto& [topology, topology_text] : *topologies) {
    const auto profile = profile_from_taccl(topology_text);
    if (!profile) return fail(profile.error().code, fmt::format("{}: {}", topology, profile.error().message));
    for (const auto& [sketch, sketch_text] : *sketches) {
      if (machine_of(topology) != machine_of(sketch)) continue;
      const auto plan = sketch_from_taccl(sketch_text);
      if (!plan) return fail(plan.error().code, fmt::format("{}: {}", sketch, plan.error().message));
      for (const Collective collective :
           {Collective::all_gather, Collective::all_to_all, Collective::reduce_scatter, Collective::all_reduce})
        cases.push_back({topology, sketch, *profile, *plan, collective});
    }
  }
  return cases;
}

}  // namespace tutti
