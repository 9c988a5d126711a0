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

void print_json() {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const SettingInfo& info : describe_settings())
    settings.push_back({{"name", info.name},
                        {"type", info.type},
                        {"default", info.fallback},
                        {"value", info.current},
                        {"help", info.help}});
  const nlohmann::ordered_json document = {{"settings", settings},
                                           {"errors", setting_errors()},
                                           {"warnings", setting_warnings()},
                                           {"unknown", unknown_settings()}};
  fmt::print("{}\n", document.dump(2));
}

void print_table() {
  const bool color = wants_color(STDOUT_FILENO);
  std::size_t width = 0;
  for (const SettingInfo& info : describe_settings()) width = std::max(width, info.name.size());
  for (const SettingInfo& info : describe_settings()) {
    const bool changed = info.current != info.fallback;
    const std::string value = info.current.empty() ? "(empty)" : info.current;
    const std::string name = fmt::format("{:<{}}", info.name, width);
    fmt::print("{}  {:<10}  {}", paint(name, Color::bold, color && changed), value, info.help);
    if (changed) fmt::print(" (default: {})", info.fallback.empty() ? "empty" : info.fallback);
    fmt::print("\n");
  }
  for (const std::string& line : setting_errors()) fmt::print("{} {}\n", paint("error:", Color::red, color), line);
  for (const std::string& line : setting_warnings())
    fmt::print("{} {}\n", paint("warning:", Color::yellow, color), line);
  for (const std::string& line : unknown_settings())
    fmt::print("{} {}\n", paint("warning:", Color::yellow, color), line);
}

}  // namespace

void add_env(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("env", "List every setting: value, default, meaning");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "as JSON");
  command->footer(
      "Examples:\n  tutti env\n  TUTTI_LOG=info tutti env --json\n\nExit status 1 when a value cannot be read.");
  command->callback([json, &status] {
    *json ? print_json() : print_table();
    status = setting_errors().empty() ? 0 : 1;
  });
}

}  // namespace tutti::cli
