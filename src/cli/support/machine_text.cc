#include "cli/support/machine_text.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace tutti::cli {
namespace {

std::string trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\n") - first + 1));
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::istringstream stream{std::string(text)};
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

}  // namespace

std::optional<double> parse_cpu_max(std::string_view text) {
  const auto words = words_of(text);
  if (words.empty()) return std::nullopt;
  return parse_cfs_quota(words[0] == "max" ? "-1" : words[0], words.size() > 1 ? words[1] : "100000");
}

std::optional<double> parse_cfs_quota(std::string_view quota, std::string_view period) {
  const double allowed = std::strtod(std::string(quota).c_str(), nullptr);
  const double of = std::strtod(std::string(period).c_str(), nullptr);
  if (allowed <= 0 || of <= 0) return std::nullopt;
  return allowed / of;
}

std::optional<std::string> parse_cgroup_path(std::string_view text, std::string_view controller) {
  for (const std::string& line : split(text, '\n')) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const auto names = split(controllers, ',');
    const bool fits =
        controller.empty() ? controllers.empty() : std::find(names.begin(), names.end(), controller) != names.end();
    if (fits) return line.substr(second + 1);
  }
  return std::nullopt;
}

std::string parse_choice(std::string_view text) {
  const std::size_t open = text.find('[');
  const std::size_t close = text.find(']', open == std::string_view::npos ? 0 : open);
  if (open == std::string_view::npos || close == std::string_view::npos) return {};
  return std::string(text.substr(open + 1, close - open - 1));
}

std::vector<std::string> parse_cpu_flags(std::string_view cpuinfo) {
  const std::size_t line = cpuinfo.find("\nflags");
  if (line == std::string_view::npos) return {};
  std::string_view rest = cpuinfo.substr(line + 1);
  rest = rest.substr(0, rest.find('\n'));
  return words_of(rest.substr(std::min(rest.size(), rest.find(':') + 1)));
}

KernelVersion parse_kernel_version(std::string_view release) {
  const std::string copy(release);
  char* end = nullptr;
  const long major = std::strtol(copy.c_str(), &end, 10);
  if (end == copy.c_str() || *end != '.') return {};
  return {static_cast<int>(major), static_cast<int>(std::strtol(end + 1, nullptr, 10))};
}

double parse_rdma_rate(std::string_view text) { return std::strtod(std::string(text).c_str(), nullptr); }

std::string parse_rdma_state(std::string_view text) {
  const std::size_t colon = text.find(':');
  return trimmed(colon == std::string_view::npos ? text : text.substr(colon + 1));
}

std::uint64_t parse_tcp_buffer_limit(std::string_view text) {
  const auto words = words_of(text);
  return words.size() < 3 ? 0 : std::strtoull(words[2].c_str(), nullptr, 10);
}

}  // namespace tutti::cli
