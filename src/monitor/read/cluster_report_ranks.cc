// Ranks compared with one another: who called something else.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "monitor/read/cluster_report_parts.hpp"

namespace tutti::monitor {
namespace {

std::string call_text(const OperationView& operation) {
  std::string text = fmt::format("{} of {} {}", name_of(operation.collective),
                                 bytes_text(static_cast<double>(operation.bytes)), name_of(operation.type));
  if (reduces(operation.collective)) text += fmt::format(" {}", name_of(operation.op));
  if (has_root(operation.collective)) text += fmt::format(" with root {}", operation.root);
  return text;
}

/// What a rank called under this number; null where that is not known.
const OperationView* called(const RankReport& rank, std::uint32_t number) {
  const auto fits = [&](const OperationView& operation) {
    return operation.collective != Collective::point_to_point && operation.number == number;
  };
  for (const PendingView& pending : rank.pending)
    if (fits(pending.operation)) return &pending.operation;
  for (auto operation = rank.recent.rbegin(); operation != rank.recent.rend(); ++operation)
    if (fits(*operation)) return &*operation;
  return nullptr;
}

struct Called {
  const OperationView* operation = nullptr;
  std::vector<int> ranks;
};

void compare_calls(CommunicatorReport& communicator, std::uint32_t number) {
  std::map<std::uint32_t, Called> calls;  // by signature
  for (const RankReport& rank : communicator.ranks)
    if (const OperationView* const operation = called(rank, number)) {
      calls[operation->signature].operation = operation;
      calls[operation->signature].ranks.push_back(rank.rank);
    }
  if (calls.size() < 2) return;
  const auto most = std::max_element(calls.begin(), calls.end(), [](const auto& a, const auto& b) {
    return a.second.ranks.size() < b.second.ranks.size();
  });
  for (const auto& [signature, call] : calls) {
    if (signature == most->first) continue;
    communicator.mismatches.push_back(
        {number, call.ranks,
         fmt::format("as #{} {} called {}, {} {}", number, text_of(call.ranks), call_text(*call.operation),
                     text_of(most->second.ranks), call_text(*most->second.operation))});
  }
}

}  // namespace

void find_mismatches(CommunicatorReport& communicator) {
  std::vector<std::uint32_t> numbers;
  for (const RankReport& rank : communicator.ranks)
    for (const PendingView& pending : rank.pending)
      if (pending.operation.collective != Collective::point_to_point) numbers.push_back(pending.operation.number);
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  for (const std::uint32_t number : numbers) compare_calls(communicator, number);
}

}  // namespace tutti::monitor
