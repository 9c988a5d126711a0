#include "cli/doctor/doctor.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/settings.hpp"
#include "cli/support/command.hpp"
#include "cli/support/terminal.hpp"

namespace tutti::cli {
namespace {

using CheckMark = DoctorFinding::CheckMark;

struct Section {
  const char* title;
  std::vector<DoctorFinding> findings;
};

std::vector<DoctorFinding> examine_settings() {
  std::vector<DoctorFinding> findings;
  for (const std::string& line : setting_errors()) findings.push_back({CheckMark::bad, "value", line, "see tutti env"});
  for (const std::string& line : setting_warnings())
    findings.push_back({CheckMark::warn, "secret", line, "see docs/running.md"});
  for (const std::string& line : unknown_settings())
    findings.push_back({CheckMark::warn, "name", line, "see tutti env"});
  if (findings.empty()) findings.push_back({CheckMark::ok, "environment", "every TUTTI_ variable is understood", ""});
  return findings;
}

const char* name_of(CheckMark mark) { return mark == CheckMark::ok ? "ok" : mark == CheckMark::warn ? "warn" : "bad"; }

void print_report(const std::vector<Section>& sections) {
  static constexpr Color kColors[] = {Color::green, Color::yellow, Color::red};
  const bool color = wants_color(STDOUT_FILENO);
  std::size_t width = 0;
  for (const Section& section : sections)
    for (const DoctorFinding& finding : section.findings) width = std::max(width, finding.topic.size());
  for (const Section& section : sections) {
    fmt::print("{}\n", paint(section.title, Color::bold, color));
    for (const DoctorFinding& finding : section.findings) {
      const std::string mark = fmt::format("{:<4}", name_of(finding.mark));
      fmt::print("  {}  {:<{}}  {}\n", paint(mark, kColors[static_cast<int>(finding.mark)], color), finding.topic,
                 width, finding.text);
      if (!finding.mend.empty()) fmt::print("        {:<{}}  -> {}\n", "", width, finding.mend);
    }
  }
}

void print_json(const std::vector<Section>& sections) {
  nlohmann::ordered_json document = nlohmann::ordered_json::array();
  for (const Section& section : sections)
    for (const DoctorFinding& finding : section.findings)
      document.push_back({{"section", section.title},
                          {"topic", finding.topic},
                          {"mark", name_of(finding.mark)},
                          {"text", finding.text},
                          {"mend", finding.mend}});
  fmt::print("{}\n", nlohmann::ordered_json{{"findings", document}}.dump(2));
}

bool any_bad(const std::vector<Section>& sections) {
  for (const Section& section : sections)
    for (const DoctorFinding& finding : section.findings)
      if (finding.mark == CheckMark::bad) return true;
  return false;
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
  auto* command =
      app.add_subcommand("doctor", "Say what this machine offers, and what would make it faster or break it");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "as JSON");
  command->footer(
      "Examples:\n  tutti doctor\n  srun -N 8 --ntasks-per-node=1 tutti doctor --json\n\n"
      "Run it where ranks run: inside the container, under the same limits. Exit status 1 when something will fail.");
  command->callback([json, &status] {
    const std::vector<Section> sections = {{"CPU", examine_cpu()},
                                           {"Memory", examine_memory()},
                                           {"Network", examine_network()},
                                           {"GPU", examine_gpus()},
                                           {"Settings", examine_settings()}};
    *json ? print_json(sections) : print_report(sections);
    status = any_bad(sections) ? 1 : 0;
  });
}

}  // namespace tutti::cli
