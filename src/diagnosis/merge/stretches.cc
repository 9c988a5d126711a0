#include "diagnosis/merge/stretches.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "diagnosis/robust.hpp"

namespace tutti::diagnosis {
namespace {

constexpr int kFewestOperations = 8;         // of a stretch
constexpr int kWithoutPeriod = 32;           // operations of a stretch where calls do not recur
constexpr std::size_t kFewestStretches = 3;  // before one believes them
constexpr std::uint32_t kNoticeable = 50;    // microseconds; who leaves first does so by less

int length_of_stretch(const RhythmFacts& rhythm) {
  if (rhythm.length <= 0) return kWithoutPeriod;
  return (kFewestOperations + rhythm.length - 1) / rhythm.length * rhythm.length;
}

std::uint32_t microseconds_of(double seconds) {
  constexpr double kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(std::clamp(std::round(1e6 * seconds), 0.0, kMost));
}

/// Stretches from `first` to before `end`.
struct StretchRange {
  std::uint64_t first = 0, end = std::numeric_limits<std::uint64_t>::max();

  void narrow(std::uint64_t other_first, std::uint64_t other_end) {
    first = std::max(first, other_first);
    end = std::min(end, other_end);
  }
  std::size_t count() const { return end > first ? static_cast<std::size_t>(end - first) : 0; }
};

/// Those that all ranks have behind them, all operations of which they remember.
StretchRange whole_stretches(std::span<const RankHistory> ranks, std::uint64_t length) {
  StretchRange range;
  for (const RankHistory& rank : ranks) {
    if (rank.operations.empty()) return {0, 0};
    const std::uint64_t first = rank.operations.front().number, last = rank.operations.back().number;
    if (last - first + 1 != rank.operations.size()) return {0, 0};
    range.narrow((first + length - 1) / length, (last + 1) / length);
  }
  return range;
}

class StretchTable {
 public:
  StretchTable(std::span<const CommunicatorFacts* const> hosts, StretchRange range) : range_(range) {
    lasted_.resize(range.count());
    for (const CommunicatorFacts* host : hosts) {
      const auto skipped = static_cast<std::size_t>(range.first - host->first_stretch);
      for (std::size_t i = 0; i < lasted_.size(); ++i)
        if (lasted_[i] == 0) lasted_[i] = host->stretches[skipped + i];
      for (const StayFacts& stay : host->stays)
        rows_.push_back({stay.rank, std::span(stay.microseconds).subspan(skipped, lasted_.size())});
    }
  }

  std::vector<WaitFacts> waits() const {
    if (rows_.size() < 2) return {};
    const std::vector<std::uint32_t> shortest = shortest_stays();
    const int last = last_to_come(shortest, -1), before_last = last_to_come(shortest, last);
    std::vector<WaitFacts> waits;
    for (const StayRow& row : rows_) {
      WaitFacts wait{row.rank, row.rank == last ? before_last : last, 0, 0};
      std::vector<double> shares;
      for (std::size_t i = 0; i < lasted_.size(); ++i) {
        const std::uint32_t waited = row.stays[i] - shortest[i];
        const double counted = waited >= kNoticeable ? waited : 0;
        wait.seconds += 1e-6 * counted;
        if (lasted_[i] > 0) shares.push_back(std::min(1.0, counted / lasted_[i]));
      }
      if (shares.size() + 1 < kFewestStretches) return {};
      wait.share = median_of(shares);
      if (wait.seconds > 0) waits.push_back(wait);
    }
    return waits;
  }

 private:
  struct StayRow {
    int rank;
    std::span<const std::uint32_t> stays;
  };

  std::vector<std::uint32_t> shortest_stays() const {
    std::vector<std::uint32_t> shortest(lasted_.size(), std::numeric_limits<std::uint32_t>::max());
    for (const StayRow& row : rows_)
      for (std::size_t i = 0; i < shortest.size(); ++i) shortest[i] = std::min(shortest[i], row.stays[i]);
    return shortest;
  }

  /// The rank, other than `except`, that was the last in most stretches.
  int last_to_come(const std::vector<std::uint32_t>& shortest, int except) const {
    int last = -1;
    std::size_t most = 0;
    for (const StayRow& row : rows_) {
      std::size_t times = 0;
      for (std::size_t i = 0; i < shortest.size(); ++i) times += row.stays[i] == shortest[i] ? 1 : 0;
      if (row.rank == except || (last >= 0 && times <= most)) continue;
      last = row.rank;
      most = times;
    }
    return last;
  }

  StretchRange range_;
  std::vector<std::uint32_t> lasted_;
  std::vector<StayRow> rows_;
};

}  // namespace

void learn_stretches(std::span<const RankHistory> ranks, CommunicatorFacts& communicator) {
  if (ranks.empty()) return;
  const int length = length_of_stretch(communicator.rhythm);
  const auto operations = static_cast<std::uint64_t>(length);
  const StretchRange range = whole_stretches(ranks, operations);
  if (range.count() == 0) return;
  communicator.stretch_length = length;
  communicator.first_stretch = range.first;
  communicator.stretches.assign(range.count(), 0);
  for (const RankHistory& rank : ranks) {
    std::vector<double> seconds(range.count()), ends(range.count());
    double before = 0;  // the end of the last operation before the first stretch
    for (const PastOperation& each : rank.operations) {
      const std::uint64_t stretch = each.number / operations;
      if (stretch < range.first) before = each.done;
      if (stretch < range.first || stretch >= range.end) continue;
      const auto place = static_cast<std::size_t>(stretch - range.first);
      if (each.together) seconds[place] += each.done - each.entered;
      ends[place] = each.done;
    }
    StayFacts& stay = communicator.stays.emplace_back();
    stay.rank = rank.rank;
    for (std::size_t i = 0; i < range.count(); ++i) {
      stay.microseconds.push_back(microseconds_of(seconds[i]));
      const double begun = i == 0 ? before : ends[i - 1];
      if (begun > 0) communicator.stretches[i] = microseconds_of(ends[i] - begun);
    }
  }
  // Two processes may claim a rank, one of which left its recording behind.
  auto& stays = communicator.stays;
  const auto less = [](const StayFacts& one, const StayFacts& other) { return one.rank < other.rank; };
  const auto same = [](const StayFacts& one, const StayFacts& other) { return one.rank == other.rank; };
  std::stable_sort(stays.begin(), stays.end(), less);
  stays.erase(std::unique(stays.begin(), stays.end(), same), stays.end());
}

std::vector<WaitFacts> waits_across(std::span<const CommunicatorFacts* const> hosts) {
  if (hosts.empty()) return {};
  StretchRange range;
  for (const CommunicatorFacts* host : hosts) {
    if (host->stretch_length == 0 || host->stretch_length != hosts.front()->stretch_length) return {};
    range.narrow(host->first_stretch, host->first_stretch + host->stretches.size());
  }
  if (range.count() < kFewestStretches) return {};
  return StretchTable(hosts, range).waits();
}

}  // namespace tutti::diagnosis
