#include "selection/plan_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "documents/text_file.hpp"
#include "program/file/format_json.hpp"

namespace tutti {

namespace {

constexpr std::string_view kMark = "\"tutti program 1\"";
constexpr std::size_t kHead = 256;  // of a file, where the mark stands

std::uint64_t digest_of(std::uint64_t digest, std::string_view text) {
  constexpr std::uint64_t kPrime = 0x100000001B3ULL;
  for (const char c : text) digest = (digest ^ static_cast<unsigned char>(c)) * kPrime;
  return digest;
}

Result<std::vector<std::string>> files_of(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  if (error) return fail(ErrorCode::invalid_argument, fmt::format("TUTTI_PLANS: {}: {}", folder, error.message()));
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

Result<PlanFolder> load_plan_folder(const std::string& folder, int ranks, int rank) {
  PlanFolder plans;
  if (folder.empty()) return plans;
  const auto files = files_of(folder);
  if (!files) return tl::unexpected(files.error());
  for (const std::string& file : *files) {
    const auto text = read_text(file);
    if (!text) return tl::unexpected(text.error());
    if (text->substr(0, kHead).find(kMark) == std::string::npos) continue;
    plans.digest = digest_of(plans.digest + 1, *text);
    auto program = load_json(*text);
    if (!program) return tl::unexpected(about_file(file, program.error()));
    if (program->shape.ranks != ranks) continue;
    auto proven = prove(std::move(*program), rank);
    if (!proven) return tl::unexpected(about_file(file, proven.error()));
    plans.programs.push_back(std::move(*proven));
  }
  return plans;
}

}  // namespace tutti
