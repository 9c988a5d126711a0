#include "bootstrap/attendance.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace tutti {
namespace {

const std::string* find_setting(const AgreedSettings& settings, const std::string& key) {
  const auto found =
      std::find_if(settings.begin(), settings.end(), [&](const auto& pair) { return pair.first == key; });
  return found == settings.end() ? nullptr : &found->second;
}

std::string shown(const std::string* value) { return value == nullptr ? "nothing" : fmt::format("'{}'", *value); }

// The first setting that differs, either way round; empty when none does.
std::string differing_key(const AgreedSettings& a, const AgreedSettings& b) {
  for (const auto* pairs : {&a, &b})
    for (const auto& [key, value] : *pairs) {
      const std::string* left = find_setting(a, key);
      const std::string* right = find_setting(b, key);
      if (left == nullptr || right == nullptr || *left != *right) return key;
    }
  return {};
}

}  // namespace

std::string name_ranks(const std::vector<int>& ranks, int size) {
  std::string text;
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[first]);
    if (last == first + 1) text += fmt::format(", {}", ranks[last]);
    if (last > first + 1) text += fmt::format("-{}", ranks[last]);
    first = last + 1;
  }
  return fmt::format("{} {} of {}", ranks.size() == 1 ? "rank" : "ranks", text, size);
}

std::string name_seconds(double seconds) {
  return seconds < 10 ? fmt::format("{:.2g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

Attendance::Answer Attendance::add(JoinRequest request, const std::string& from) {
  if (request.size < 1 || request.size > kMaxRanks || request.rank < 0 || request.rank >= request.size)
    return {Admission::mismatch,
            fmt::format("the process at {} says it is rank {} of {} ranks", from, request.rank, request.size)};
  if (joined_ == 0) {
    members_.resize(request.size);
    first_rank_ = request.rank;
    settings_ = request.settings;
  }
  if (std::string why = disagreement(request); !why.empty()) return {Admission::mismatch, std::move(why)};
  auto& member = members_[request.rank];
  if (member)
    return {Admission::duplicate,
            fmt::format("rank {} is taken: one joined from {}, another from {}", request.rank, member->from, from)};
  member = Member{from, std::move(request.blob)};
  ++joined_;
  return {};
}

std::string Attendance::disagreement(const JoinRequest& request) const {
  if (request.size != size())
    return fmt::format("rank {} says {} ranks, rank {} says {}", request.rank, request.size, first_rank_, size());
  const std::string key = differing_key(request.settings, settings_);
  if (key.empty()) return {};
  return fmt::format("rank {} has {} = {}, rank {} has {}; it must be the same on all ranks", request.rank, key,
                     shown(find_setting(request.settings, key)), first_rank_, shown(find_setting(settings_, key)));
}

std::vector<int> Attendance::missing() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank)
    if (!members_[rank]) ranks.push_back(rank);
  return ranks;
}

std::vector<Blob> Attendance::blobs() const {
  std::vector<Blob> all;
  for (const auto& member : members_) all.push_back(member->blob);
  return all;
}

}  // namespace tutti
