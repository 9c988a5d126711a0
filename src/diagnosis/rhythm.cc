#include "diagnosis/rhythm.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "diagnosis/robust.hpp"

namespace tutti::diagnosis {
namespace {

constexpr double kAlike = 0.9;         // share of operations that must recur for a period
constexpr double kNoticeable = 50e-6;  // seconds; who leaves an operation first does so by less
constexpr std::size_t kFewest = 3;     // periods, before one is believed
constexpr std::size_t kSlices = 8;     // stand for periods where there are none
constexpr std::int64_t kReach = 1024;  // numbers for each shared operation; beyond, they are made up
constexpr std::size_t kWarmUp = 8;     // first operations of a communicator, of which nothing is learned

/// Without the operations of the start, where it is known that they are.
std::span<const PastOperation> without_warm_up(std::span<const PastOperation> operations) {
  if (operations.size() < 3 * kWarmUp || operations.front().number > 2) return operations;
  return operations.subspan(kWarmUp);
}

/// The least number of operations after which signatures recur; 0: there is none.
int length_of_period(std::span<const PastOperation> operations) {
  for (std::size_t length = 1; kFewest * length <= operations.size(); ++length) {
    const std::size_t compared = operations.size() - length;
    std::size_t alike = 0;
    for (std::size_t i = 0; i < compared; ++i)
      alike += operations[i].signature == operations[i + length].signature ? 1 : 0;
    if (static_cast<double>(alike) >= kAlike * static_cast<double>(compared)) return static_cast<int>(length);
  }
  return 0;
}

/// An operation of which it is known how long each rank was in it.
struct SharedOperation {
  std::vector<double> stays;  // in the order of the ranks
  double done = 0;
};

/// By how far their numbers are from that of the first operation of the first rank; numbers wrap.
std::map<std::int32_t, SharedOperation> shared_operations(std::span<const RankHistory> ranks) {
  std::map<std::int32_t, SharedOperation> shared;
  if (ranks.empty() || ranks.front().operations.empty()) return shared;
  const std::uint32_t origin = ranks.front().operations.front().number;
  for (const RankHistory& rank : ranks)
    for (const PastOperation& operation : rank.operations) {
      if (!operation.together) continue;
      SharedOperation& all = shared[static_cast<std::int32_t>(operation.number - origin)];
      all.stays.push_back(operation.done - operation.entered);
      all.done = std::max(all.done, operation.done);
    }
  std::erase_if(shared, [&](const auto& each) { return each.second.stays.size() != ranks.size(); });
  return shared;
}

/// What each rank waited for each other, period by period.
class WaitTable {
 public:
  explicit WaitTable(std::span<const RankHistory> ranks) : ranks_(ranks) {}

  void add(const SharedOperation& operation, std::size_t period) {
    const auto& stays = operation.stays;
    const auto last = static_cast<std::size_t>(std::min_element(stays.begin(), stays.end()) - stays.begin());
    for (std::size_t i = 0; i < stays.size(); ++i)
      if (i != last && stays[i] - stays[last] >= kNoticeable) waited_[{i, last}][period] += stays[i] - stays[last];
  }

  std::vector<WaitFacts> facts(const std::vector<double>& periods) const {
    std::vector<WaitFacts> facts;
    for (const auto& [pair, waited] : waited_) {
      WaitFacts wait{ranks_[pair.first].rank, ranks_[pair.second].rank, 0, 0};
      std::vector<double> shares;
      for (std::size_t period = 0; period < periods.size(); ++period) {
        const auto found = waited.find(period);
        const double seconds = found == waited.end() ? 0 : found->second;
        wait.seconds += seconds;
        if (periods[period] > 0) shares.push_back(std::min(1.0, seconds / periods[period]));
      }
      wait.share = median_of(shares);
      facts.push_back(wait);
    }
    return facts;
  }

 private:
  std::span<const RankHistory> ranks_;
  std::map<std::pair<std::size_t, std::size_t>, std::map<std::size_t, double>> waited_;
};

}  // namespace

RhythmFacts learn_rhythm(std::span<const PastOperation> operations) {
  const std::span<const PastOperation> known = without_warm_up(operations);
  RhythmFacts rhythm;
  rhythm.operations = operations.size();
  if (known.size() < 2) return rhythm;
  for (std::size_t i = 1; i < known.size(); ++i)
    rhythm.longest_gap = std::max(rhythm.longest_gap, known[i].done - known[i - 1].done);
  rhythm.length = length_of_period(known);
  if (rhythm.length == 0) return rhythm;
  std::vector<double> periods;
  for (auto i = static_cast<std::size_t>(rhythm.length); i < known.size(); ++i)
    periods.push_back(known[i].done - known[i - static_cast<std::size_t>(rhythm.length)].done);
  const Center center = center_of(periods);
  rhythm.period = center.median;
  rhythm.spread = center.spread;
  return rhythm;
}

std::vector<CallSiteFacts> learn_sites(std::span<const PastOperation> operations) {
  std::map<std::uint32_t, std::vector<double>> stays;
  for (const PastOperation& operation : without_warm_up(operations))
    stays[operation.signature].push_back(operation.done - operation.entered);
  std::vector<CallSiteFacts> sites;
  for (auto& [signature, seconds] : stays) {
    const Center center = center_of(seconds);
    sites.push_back({signature, center.median, center.spread});
  }
  return sites;
}

std::vector<WaitFacts> learn_waits(std::span<const RankHistory> ranks, const RhythmFacts& rhythm) {
  const std::map<std::int32_t, SharedOperation> shared = shared_operations(ranks);
  const auto slice = static_cast<std::uint32_t>(shared.size() / kSlices);
  const std::uint32_t length =
      rhythm.length > 0 ? static_cast<std::uint32_t>(rhythm.length) : std::max(std::uint32_t{1}, slice);
  if (ranks.size() < 2 || shared.size() < 3 * length) return {};
  // Periods begin where the first operation does; the last one is taken only if it is whole. The first is as long as
  // nobody knows.
  const std::int64_t first = shared.begin()->first;
  const std::int64_t reach = shared.rbegin()->first - first + 1;
  if (reach > kReach * static_cast<std::int64_t>(shared.size())) return {};
  const auto count = static_cast<std::size_t>(reach / length);
  std::vector<double> periods(count);
  WaitTable table(ranks);
  double before = 0;
  std::size_t current = 0;
  double last_done = 0;
  for (const auto& [number, operation] : shared) {
    const auto period = static_cast<std::size_t>((number - first) / length);
    if (period >= count) break;
    if (period != current) {
      periods[current] = before == 0 ? 0 : last_done - before;
      before = last_done;
      current = period;
    }
    last_done = std::max(last_done, operation.done);
    table.add(operation, period);
  }
  periods[current] = before == 0 ? 0 : last_done - before;
  return table.facts(periods);
}

}  // namespace tutti::diagnosis
