// Ranks compared with one another: who comes last again and again, and who called something else.
#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "monitor/read/cluster_report_parts.hpp"

namespace tutti::monitor {
namespace {

constexpr int kFewest = 4;              // operations, before anything is said
constexpr double kMostTimes = 0.75;     // of the operations; of two ranks, chance makes each the last of every other
constexpr double kNoticeable = 20e-6;   // seconds
constexpr double kNoticeableOf = 0.05;  // of the time the others were in the operation

/// Whether all its ranks leave at about the same time, so that who was in it for the shortest time came last.
bool leaves_together(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
    case Collective::barrier:
      return true;
    default:
      return false;
  }
}

struct Stay {
  int rank = 0;
  double seconds = 0;
};

/// How long each rank was in each operation that all recorded ranks have done.
std::map<std::uint32_t, std::vector<Stay>> shared_operations(const CommunicatorReport& communicator) {
  std::map<std::uint32_t, std::vector<Stay>> stays;
  for (const RankReport& rank : communicator.ranks)
    for (const OperationView& operation : rank.recent)
      if (leaves_together(operation.collective) && !operation.failed)
        stays[operation.number].push_back({rank.rank, operation.done - operation.entered});
  std::erase_if(stays, [&](const auto& each) { return each.second.size() != communicator.ranks.size(); });
  return stays;
}

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

void find_stragglers(CommunicatorReport& communicator) {
  if (communicator.ranks.size() < 2) return;
  auto shared = shared_operations(communicator);
  std::map<int, Straggler> found;
  for (auto& [number, stays] : shared) {
    std::sort(stays.begin(), stays.end(), [](const Stay& a, const Stay& b) { return a.seconds < b.seconds; });
    const double others = stays[(stays.size() + 1) / 2].seconds;  // the median of all but the first
    const double late = others - stays[0].seconds;
    if (late < kNoticeable || late < kNoticeableOf * others) continue;
    Straggler& straggler = found[stays[0].rank];
    straggler.rank = stays[0].rank;
    ++straggler.times;
    straggler.late += late;
  }
  const int count = static_cast<int>(shared.size());
  for (auto& [rank, straggler] : found) {
    if (straggler.times < kFewest || straggler.times < kMostTimes * count) continue;
    straggler.of = count;
    straggler.late /= straggler.times;
    communicator.stragglers.push_back(straggler);
  }
}

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
