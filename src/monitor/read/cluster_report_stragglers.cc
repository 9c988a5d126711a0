// Who costs the others time, again and again. Ranks are compared by how long they were in the same collectives, never
// by their clocks: where all leave together, who was in for less time came later, and the others waited for as long.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "monitor/read/cluster_report_parts.hpp"

namespace tutti::monitor {
namespace {

// A rank is named where it costs the others that much of the time. Being late is plain; that others wait within an
// operation has more reasons, such as that programs give ranks more or less to do.
constexpr double kWorthOfLate = 0.05, kWorthOfSlow = 0.25;
// Below so many seconds a collective, on average, cores and caches decide who comes last.
constexpr double kLeastOfLate = 2e-6, kLeastOfSlow = 200e-6;
constexpr double kShortest = 1;     // second: what is said of less does not last
constexpr std::size_t kFewest = 6;  // stretches
constexpr double kSure = 4;         // standard errors, from stretch to stretch, by which it costs more than that
constexpr std::size_t kParts = 8;   // stretches that are made of the collectives remembered one by one

constexpr double kNoticeable = 20e-6;  // seconds by which a rank comes last to a collective
constexpr double kNoticeableOf = 0.1;  // of the most by which it does

/// The median of the values of all others than rank `index`. Taking the higher of two middle ones instead would make
/// everybody a little late.
double median_of_others(const std::vector<double>& values, std::size_t index) {
  std::vector<double> others = values;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(index));
  std::sort(others.begin(), others.end());
  return (others[others.size() / 2] + others[(others.size() - 1) / 2]) / 2;
}

/// A value for each recorded rank. The others' median follows from the order of all values, which is worked out once.
class RankValues {
 public:
  explicit RankValues(std::vector<double> values) : values_(std::move(values)), sorted_(values_) {
    std::sort(sorted_.begin(), sorted_.end());
  }
  /// By how much less this rank has than the median of the others.
  double lack(std::size_t index) const {
    const auto place =
        static_cast<std::size_t>(std::lower_bound(sorted_.begin(), sorted_.end(), values_[index]) - sorted_.begin());
    const auto other = [&](std::size_t at) { return sorted_[at < place ? at : at + 1]; };
    const std::size_t others = values_.size() - 1;
    return (other(others / 2) + other((others - 1) / 2)) / 2 - values_[index];
  }

 private:
  std::vector<double> values_, sorted_;
};

/// The same collectives on all ranks, one after another.
struct Stretch {
  double lasted = 0;  // seconds
  double collectives = 0;
  RankValues in, waited;  // seconds
};

/// What ranks were in up to a collective, by recorded rank: the difference of two is a stretch.
struct SharedMark {
  std::uint32_t number = 0;
  std::vector<MarkView> marks;
};

std::vector<Stretch> stretches_between(const std::vector<SharedMark>& all_marks) {
  std::vector<Stretch> stretches;
  for (std::size_t i = 1; i < all_marks.size(); ++i) {
    double lasted = 0;
    std::vector<double> in, waited;
    for (std::size_t rank = 0; rank < all_marks[i].marks.size(); ++rank) {
      const MarkView &from = all_marks[i - 1].marks[rank], &to = all_marks[i].marks[rank];
      lasted = std::max(lasted, to.at - from.at);
      in.push_back(to.seconds - from.seconds);
      waited.push_back(to.waited - from.waited);
    }
    stretches.push_back({lasted, static_cast<double>(all_marks[i].number - all_marks[i - 1].number),
                         RankValues(std::move(in)), RankValues(std::move(waited))});
  }
  return stretches;
}

/// Those of `marks`, one list for each rank in order of their numbers, that all ranks have.
std::vector<SharedMark> shared(const std::vector<const std::vector<MarkView>*>& marks) {
  std::map<std::uint32_t, SharedMark> all;
  for (const auto* const of_rank : marks)
    for (const MarkView& mark : *of_rank) {
      all[mark.number].number = mark.number;
      all[mark.number].marks.push_back(mark);
    }
  std::vector<SharedMark> all_marks;
  for (auto& [number, mark] : all)
    if (mark.marks.size() == marks.size()) all_marks.push_back(std::move(mark));
  return all_marks;
}

std::vector<Stretch> stretches_of_level(const CommunicatorReport& communicator, std::size_t level) {
  std::vector<const std::vector<MarkView>*> marks;
  for (const RankReport& rank : communicator.ranks) marks.push_back(&rank.marks[level]);
  return stretches_between(shared(marks));
}

bool counts(const OperationView& operation) { return leaves_together(operation.collective) && !operation.failed; }

/// The collectives that are remembered one by one, in a few parts.
std::vector<Stretch> stretches_of_recent(const CommunicatorReport& communicator) {
  std::vector<std::vector<MarkView>> marks(communicator.ranks.size());
  std::vector<const std::vector<MarkView>*> of_ranks;
  std::map<std::uint32_t, std::size_t> ranks_of;
  for (const RankReport& rank : communicator.ranks)
    for (const OperationView& each : rank.recent)
      if (counts(each)) ++ranks_of[each.number];
  for (std::size_t rank = 0; rank < marks.size(); ++rank) {
    MarkView sum;
    for (const OperationView& each : communicator.ranks[rank].recent) {
      if (!counts(each) || ranks_of[each.number] != marks.size()) continue;
      sum.number = each.number;
      sum.at = each.done;
      sum.seconds += each.done - each.entered;
      sum.waited += each.waited;
      marks[rank].push_back(sum);
    }
    of_ranks.push_back(&marks[rank]);
  }
  const std::vector<SharedMark> all = shared(of_ranks);
  if (all.size() < 2) return {};
  const std::size_t apart = std::max<std::size_t>(1, (all.size() - 1) / kParts);
  std::vector<SharedMark> some;
  for (std::size_t i = (all.size() - 1) % apart; i < all.size(); i += apart) some.push_back(all[i]);
  return stretches_between(some);
}

struct Bars {
  double worth;  // of the time
  double least;  // seconds a collective
};

/// What a rank costs the others: by how much less it spends of `what` than their median.
std::optional<Straggler> judge_rank(const std::vector<Stretch>& stretches, RankValues Stretch::*what, std::size_t index,
                                    const Bars& bars) {
  Straggler found;
  double collectives = 0, squares = 0;
  for (const Stretch& stretch : stretches) {
    const double lost = (stretch.*what).lack(index);
    found.lost += lost;
    squares += lost * lost;
    found.seconds += stretch.lasted;
    collectives += stretch.collectives;
  }
  const auto count = static_cast<double>(stretches.size());
  if (count < kFewest || found.seconds < kShortest) return std::nullopt;
  if (found.lost < bars.least * collectives) return std::nullopt;
  // One long pause is no habit: what it costs has to be about the same from stretch to stretch.
  const double mean = found.lost / count;
  const double variance = std::max(0.0, squares / count - mean * mean) * count / (count - 1);
  const double least = mean - kSure * std::sqrt(variance / count);
  return least * count >= bars.worth * found.seconds ? std::optional(found) : std::nullopt;
}

std::optional<Straggler> judge_rank(const std::vector<Stretch>& stretches, std::size_t index) {
  auto found = judge_rank(stretches, &Stretch::in, index, {kWorthOfLate, kLeastOfLate});
  if (found) return found;
  found = judge_rank(stretches, &Stretch::waited, index, {kWorthOfSlow, kLeastOfSlow});
  if (found) found->why = Straggler::Habit::slow;
  return found;
}

/// In how many of the collectives remembered one by one the rank came last, by how much, and how long these took.
void count_times(const CommunicatorReport& communicator, std::size_t index, Straggler& straggler) {
  std::map<std::uint32_t, std::vector<double>> stays;  // by number; seconds by rank
  for (const RankReport& rank : communicator.ranks)
    for (const OperationView& operation : rank.recent)
      if (counts(operation)) stays[operation.number].push_back(operation.done - operation.entered);
  std::erase_if(stays, [&](const auto& each) { return each.second.size() != communicator.ranks.size(); });
  std::vector<double> lates;
  for (const auto& [number, of_ranks] : stays) lates.push_back(median_of_others(of_ranks, index) - of_ranks[index]);
  const double most = lates.empty() ? 0 : *std::max_element(lates.begin(), lates.end());
  for (const double late : lates) {
    if (late < kNoticeable || late < kNoticeableOf * most) continue;
    ++straggler.times;
    straggler.late += late;
  }
  straggler.of = static_cast<int>(stays.size());
  if (straggler.times > 0) straggler.late /= straggler.times;
  double first = 0, last = 0;
  for (const OperationView& operation : communicator.ranks[index].recent) {
    if (!counts(operation) || !stays.contains(operation.number)) continue;
    if (first == 0) first = operation.done;
    last = operation.done;
  }
  // From the end of the first to that of the last is the time of all but one.
  const auto count = static_cast<double>(stays.size());
  straggler.remembered = count > 1 ? (last - first) * count / (count - 1) : 0;
}

}  // namespace

void find_stragglers(CommunicatorReport& communicator) {
  const bool is_over = std::none_of(communicator.ranks.begin(), communicator.ranks.end(),
                                    [](const RankReport& rank) { return rank.alive; });
  if (communicator.ranks.size() < 2 || is_over) return;
  auto levels = static_cast<std::size_t>(kMarkLevels);
  for (const RankReport& rank : communicator.ranks) levels = std::min(levels, rank.marks.size());
  // The finest stretches that show it have the latest news; where a step has many collectives, only coarse ones do.
  std::vector<std::vector<Stretch>> all{stretches_of_recent(communicator)};
  for (std::size_t level = 0; level < levels; ++level) all.push_back(stretches_of_level(communicator, level));
  for (std::size_t index = 0; index < communicator.ranks.size(); ++index) {
    std::optional<Straggler> found;
    for (const std::vector<Stretch>& stretches : all)
      if (!found) found = judge_rank(stretches, index);
    if (!found) continue;
    found->rank = communicator.ranks[index].rank;
    count_times(communicator, index, *found);
    communicator.stragglers.push_back(*found);
  }
}

}  // namespace tutti::monitor
