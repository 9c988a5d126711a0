#include "synthesis/report.hpp"

#include <nlohmann/json.hpp>

namespace tutti {

namespace {

double rounded(double number, double unit) { return std::round(number / unit) * unit; }

}  // namespace

std::string report_json(const Topology& topology, const std::vector<SynthesizedCollective>& synthesized) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const SynthesizedCollective& one : synthesized)
    for (std::size_t at = 0; at < one.found.sizes.size(); ++at) {
      const Synthesized& size = one.found.sizes[at];
      nlohmann::ordered_json row;
      row["collective"] = name_of(one.collective);
      if (has_root(one.collective)) row["root"] = one.root;
      row["ranks"] = topology.ranks();
      row["bytes"] = size.bytes;
      row["generator"] = size.generator;
      row["simulated_us"] = rounded(size.simulated * 1e6, 1e-4);
      row["bound_us"] = rounded(size.bound * 1e6, 1e-4);
      row["gap"] = rounded(size.gap(), 1e-5);
      row["seconds"] = rounded(one.found.seconds, 1e-4);
      const auto program = static_cast<std::size_t>(size.program);
      row["program"] = program < one.files.size() ? one.files[program] : "";
      for (const Rival& rival : one.found.rivals)
        if (rival.simulated[at] > 0) row["rivals_us"][rival.name] = rounded(rival.simulated[at] * 1e6, 1e-4);
      rows.push_back(std::move(row));
    }
  nlohmann::ordered_json report;
  report["format"] = "tutti synthesis 1";
  report["topology"] = topology.name();
  report["ranks"] = topology.ranks();
  report["rows"] = std::move(rows);
  return report.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace tutti
