#include "selection/tuning.hpp"

#include <fmt/core.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/settings.hpp"
#include "documents/text_file.hpp"

namespace tutti {
namespace {

std::string cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') return cache;
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') return std::string(home) + "/.cache";
  return "/tmp";
}

/// "AMD_EPYC": tables of one kind of machine do not serve another that shares the home folder.
std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    std::string model = line.substr(line.find(':') + 1);
    for (char& c : model)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    return model.substr(model.find_first_not_of('_'));
  }
  return "cpu";
}

}  // namespace

std::string tuning_path(int ranks, int hosts) {
  if (!settings().tune_file.empty()) return settings().tune_file;
  return fmt::format("{}/tutti/tune-{}-{}ranks-{}hosts.rules", cache_folder(), cpu_model(), ranks, hosts);
}

Result<std::vector<SelectionRule>> load_tuning(const std::string& path) {
  std::ifstream file(path);
  std::vector<SelectionRule> rules;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    Result<std::vector<SelectionRule>> parsed = parse_rules(line);
    if (!parsed) return fail(parsed.error().code, fmt::format("{}:{}: {}", path, number, parsed.error().message));
    rules.insert(rules.end(), parsed->begin(), parsed->end());
  }
  return rules;
}

Status save_tuning(const std::string& path, const std::vector<SelectionRule>& rules, const std::string& comment) {
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  std::string text = fmt::format("# {}\n", comment);
  for (const SelectionRule& rule : rules) text += to_string(std::vector<SelectionRule>{rule}) + '\n';
  return replace_text(path, text);
}

}  // namespace tutti
