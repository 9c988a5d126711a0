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

std::string shown(const std::string& key, const std::string* value) {
  return value == nullptr ? "no " + key : fmt::format("{}={}", key, *value);
}

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

bool can_be(const JoinRequest& request) {
  if (request.size < 1 || request.size > kMaxRanks) return false;
  if (request.newcomers < 0 || request.newcomers >= request.size) return false;
  if (request.at_least < 0 || request.at_least > request.newcomers) return false;
  return request.rank >= 0 && request.rank < request.size - request.newcomers;
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

Attendance::Reply Attendance::add(JoinRequest request, const std::string& from) {
  if (!can_be(request))
    return {Admission::mismatch,
            fmt::format("the process at {} says it is rank {} of {} ranks", from, request.rank, request.size)};
  if (joined_ == 0) {
    members_.resize(static_cast<std::size_t>(request.size - request.newcomers));
    places_ = static_cast<std::size_t>(request.newcomers);
    at_least_ = static_cast<std::size_t>(request.at_least);
    first_rank_ = request.rank;
    settings_ = request.settings;
  }
  if (std::string why = disagreement(request); !why.empty()) return {Admission::mismatch, std::move(why)};
  auto& member = members_[request.rank];
  if (member)
    return {Admission::duplicate,
            fmt::format("rank {} is taken: one joined from {}, another from {}", request.rank, member->from, from)};
  member = JoinedRank{from, std::move(request.blob)};
  ++joined_;
  return {};
}

std::string Attendance::disagreement(const JoinRequest& request) const {
  if (request.size != size())
    return fmt::format("rank {} says {} ranks, rank {} says {}", request.rank, request.size, first_rank_, size());
  if (request.newcomers != static_cast<int>(places_) || request.at_least != static_cast<int>(at_least_))
    return fmt::format("rank {} says {} newcomers, rank {} says {}", request.rank, request.newcomers, first_rank_,
                       places_);
  const std::string key = differing_key(request.settings, settings_);
  if (key.empty()) return {};
  return fmt::format("rank {} has {}, rank {} has {}; it must be the same on all ranks", request.rank,
                     shown(key, find_setting(request.settings, key)), first_rank_,
                     shown(key, find_setting(settings_, key)));
}

std::vector<int> Attendance::missing() const {
  std::vector<int> ranks;
  for (std::size_t rank = 0; rank < members_.size(); ++rank)
    if (!members_[rank]) ranks.push_back(static_cast<int>(rank));
  return ranks;
}

std::string Attendance::absent() const {
  const std::vector<int> lacking = missing();
  const std::size_t newcomers = places_ > introduced_.size() ? places_ - introduced_.size() : 0;
  std::string text;
  if (!lacking.empty()) text = name_ranks(lacking, ranks());
  if (newcomers > 0)
    text +=
        fmt::format("{}{} of {} newcomer{}", text.empty() ? "" : " and ", newcomers, places_, places_ == 1 ? "" : "s");
  return text + (lacking.size() + newcomers == 1 ? " has" : " have");
}

void Attendance::add_newcomer(std::uint64_t key) { newcomers_.insert(key); }

void Attendance::introduce(std::uint64_t key, Blob blob) { introduced_.push_back({key, std::move(blob)}); }

void Attendance::remove_newcomer(std::uint64_t key) {
  newcomers_.erase(key);
  std::erase_if(introduced_, [&](const Introduced& newcomer) { return newcomer.key == key; });
}

std::vector<std::uint64_t> Attendance::admitted() const {
  std::vector<std::uint64_t> keys;
  for (const Introduced& newcomer : introduced_)
    if (keys.size() < places_) keys.push_back(newcomer.key);
  return keys;
}

std::vector<Blob> Attendance::blobs() const {
  std::vector<Blob> all;
  for (const auto& member : members_) all.push_back(member->blob);
  for (std::size_t i = 0; i < std::min(places_, introduced_.size()); ++i) all.push_back(introduced_[i].blob);
  return all;
}

}  // namespace tutti
