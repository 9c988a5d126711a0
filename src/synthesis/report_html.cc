#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "documents/xml_text.hpp"
#include "simulation/simulate.hpp"
#include "simulation/timeline.hpp"
#include "synthesis/price.hpp"
#include "synthesis/published.hpp"
#include "synthesis/report.hpp"
#include "synthesis/size_chart.hpp"
#include "topology/draw/show_svg.hpp"

namespace tutti {

namespace {

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #111827; margin: 2rem auto; max-width: 1100px; padding: 0 1rem }}
h1 {{ font-size: 1.5rem }} h2 {{ margin-top: 2.5rem; border-top: 1px solid #e5e7eb; padding-top: 1rem }}
table {{ border-collapse: collapse; margin: 1rem 0 }} th, td {{ padding: .2rem .7rem; text-align: right }}
th {{ border-bottom: 1px solid #9ca3af; font-weight: 600 }} td.text, th.text {{ text-align: left }}
.wide {{ overflow-x: auto }} .good {{ color: #15803d }} .poor {{ color: #b45309 }} svg {{ max-width: none }}
.bar {{ background: #dbeafe; display: inline-block; height: .8em }}
</style></head><body><h1>{title}</h1>
<p>{summary}</p>
<div class="wide">{picture}</div>
)";

constexpr std::string_view kRivalColours[] = {"#9ca3af", "#a78bfa", "#f59e0b", "#10b981",
                                              "#f472b6", "#64748b", "#84cc16", "#fb923c"};
// Of a timeline that can still be read:
constexpr std::uint64_t kMostPieces = 3'000;
constexpr int kMostRows = 128;

double ratio_to_best_rival(const Synthesis& found, std::size_t at, std::string& name) {
  double best = 0;
  for (const Rival& rival : found.rivals) {
    const double seconds = rival.simulated[at];
    if (seconds > 0 && (best == 0 || seconds < best)) best = seconds, name = rival.name;
  }
  return best / found.sizes[at].simulated;
}

std::string table(const SynthesizedCollective& one) {
  std::string out =
      "<table><tr><th>size</th><th>simulated us</th><th>bound us</th><th>above it</th><th>GB/s</th><th "
      "class=\"text\">made by</th><th>of the library's best</th><th class=\"text\">program</th></tr>\n";
  for (std::size_t at = 0; at < one.found.sizes.size(); ++at) {
    const Synthesized& size = one.found.sizes[at];
    std::string rival;
    const double ratio = ratio_to_best_rival(one.found, at, rival);
    const auto program = static_cast<std::size_t>(size.program);
    const std::string file = program < one.files.size() ? one.files[program] : "";
    out += fmt::format(
        "<tr><td>{}</td><td>{:.2f}</td><td>{:.2f}</td><td class=\"{}\">{:.1f} %</td><td>{:.2f}</td><td "
        "class=\"text\">{}</td><td>{}</td><td class=\"text\"><a href=\"{}\">{}</a></td></tr>\n",
        size_text(static_cast<double>(size.bytes)), size.simulated * 1e6, size.bound * 1e6,
        size.gap() <= 0.05 ? "good" : "poor", size.gap() * 100, static_cast<double>(size.bytes) / size.simulated / 1e9,
        escape_xml(size.generator), ratio > 0 ? fmt::format("{:.2f} x {}", ratio, escape_xml(rival)) : "",
        escape_xml(file), escape_xml(file));
  }
  return out + "</table>\n";
}

ChartLine line_of(const Synthesis& found, std::string name, std::string colour, bool dashed, auto seconds_of) {
  ChartLine line{std::move(name), std::move(colour), dashed, {}};
  for (std::size_t at = 0; at < found.sizes.size(); ++at)
    if (const double seconds = seconds_of(at); seconds > 0)
      line.points.emplace_back(static_cast<double>(found.sizes[at].bytes), seconds * 1e6);
  return line;
}

std::string chart(const Topology& topology, const SynthesizedCollective& one) {
  const Synthesis& found = one.found;
  std::vector<ChartLine> lines;
  lines.push_back(
      line_of(found, "this synthesis", "#1d4ed8", false, [&](auto at) { return found.sizes[at].simulated; }));
  lines.push_back(line_of(found, "bound", "#dc2626", true, [&](auto at) { return found.sizes[at].bound; }));
  for (std::size_t i = 0; i < found.rivals.size(); ++i)
    lines.push_back(line_of(found, found.rivals[i].name, std::string(kRivalColours[i % std::size(kRivalColours)]),
                            false, [&](auto at) { return found.rivals[i].simulated[at]; }));
  for (const Published& published : published_times()) {
    if (published.topology != topology.name() || published.collective != one.collective) continue;
    ChartLine line{fmt::format("{}, published", published.who), "#111827", true, {}};
    for (const PublishedTime& time : published.times)
      line.points.emplace_back(static_cast<double>(time.bytes), time.microseconds);
    std::sort(line.points.begin(), line.points.end());
    lines.push_back(std::move(line));
  }
  return size_chart(lines);
}

/// How busy links of each kind are in so many seconds.
std::string loads(const Topology& topology, const std::vector<double>& busy, double seconds) {
  struct LinkKindLoad {
    int links = 0;
    double sum = 0, most = 0;
  };
  std::map<std::string, LinkKindLoad> kinds;
  for (int link = 0; link < topology.link_count(); ++link) {
    const double load = busy[static_cast<std::size_t>(link)] / seconds;
    LinkKindLoad& kind = kinds[topology.link(link).name.empty() ? "link" : topology.link(link).name];
    ++kind.links, kind.sum += load, kind.most = std::max(kind.most, load);
  }
  std::string out =
      "<table><tr><th class=\"text\">links</th><th>number</th><th>busy, mean</th><th>busiest</th><th></th></tr>\n";
  for (const auto& [name, kind] : kinds)
    out += fmt::format(
        "<tr><td class=\"text\">{}</td><td>{}</td><td>{:.1f} %</td><td>{:.1f} %</td><td class=\"text\"><span "
        "class=\"bar\" style=\"width:{:.0f}px\"></span></td></tr>\n",
        escape_xml(name), kind.links, 100 * kind.sum / kind.links, 100 * kind.most, 200 * kind.most);
  return out + "</table>\n";
}

std::string links(const Topology& topology, const Synthesis& found) {
  if (found.link_busy.empty()) return {};
  const Synthesized& largest = found.sizes.back();
  return fmt::format("<h3>Links at {}</h3>\n{}", size_text(static_cast<double>(largest.bytes)),
                     loads(topology, found.link_busy, largest.simulated));
}

/// Over time, if that can be read.
std::string timeline(const SynthesizedCollective& one, const Synthesized& size, const Simulator& simulator,
                     Routes& routes) {
  const Program& program = one.found.programs[static_cast<std::size_t>(size.program)];
  const std::uint64_t chunk = chunk_bytes(program.shape, size.bytes);
  const std::uint64_t tiles = program.tile == 0 ? 1 : (chunk + program.tile - 1) / program.tile;
  if (simulator.pieces() * tiles > kMostPieces) return {};
  const auto run = simulator.run({.bytes = size.bytes, .tile = program.tile, .keeps_flights = true});
  if (!run) return {};
  const std::string title = fmt::format("{}, {}", name_of(one.collective), size.generator);
  return fmt::format("<h3>Timeline at {}</h3>\n<div class=\"wide\">{}</div>\n",
                     size_text(static_cast<double>(size.bytes)), timeline_svg(*run, routes, title));
}

/// At the largest size whose timeline can be read.
std::string largest_timeline(const Topology& topology, const SynthesizedCollective& one) {
  if (topology.ranks() > kMostRows) return {};
  Routes routes(topology);
  int program = -1;  // what the simulator runs
  Result<Simulator> simulator = fail(ErrorCode::internal, "no program yet");
  for (auto size = one.found.sizes.rbegin(); size != one.found.sizes.rend(); ++size) {
    if (std::exchange(program, size->program) != size->program)
      simulator = Simulator::of(one.found.programs[static_cast<std::size_t>(program)], routes);
    if (!simulator) continue;
    std::string shown = timeline(one, *size, *simulator, routes);
    if (!shown.empty()) return shown;
  }
  return {};
}

}  // namespace

std::string report_html(const Topology& topology, const std::vector<SynthesizedCollective>& synthesized) {
  std::string out =
      fmt::format(kHead, fmt::arg("title", "Synthesis for " + escape_xml(topology.name())),
                  fmt::arg("summary", escape_xml(show_text(topology))), fmt::arg("picture", show_svg(topology)));
  for (const SynthesizedCollective& one : synthesized) {
    out += fmt::format(
        "<h2>{}</h2>\n<p>{} programs in {:.2f} s{}.</p>\n<div class=\"wide\">{}</div>\n<div class=\"wide\">{}</div>\n",
        name_of(one.collective), one.found.programs.size(), one.found.seconds,
        one.found.interrupted ? ", interrupted" : "", table(one), chart(topology, one));
    out += links(topology, one.found) + largest_timeline(topology, one);
  }
  return out + "</body></html>\n";
}

}  // namespace tutti
