#include "diagnosis/delay_fit.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>

#include "diagnosis/robust.hpp"

namespace tutti::diagnosis {
namespace {

using Kind = SlowPart::Kind;
using Index = std::uint32_t;

// Standard errors. A job of 100,000 ranks has a million of delays, and noise has heavier tails than a normal
// distribution.
constexpr double kSignificant = 10;
constexpr double kMistakes = 0.0003;      // delays of a job that noise alone may take beyond what is called slow
constexpr std::size_t kEnoughTail = 200;  // delays, of which it is learned how far noise goes
constexpr double kLeastNoise = 0.01;      // no measurement is better than a percent
constexpr double kNearlyAll = 0.15;       // of what a part carries may be otherwise; of few, none
constexpr double kAlike = 0.5;            // of the typical excess, which nearly all have at least
constexpr double kWarm = 2;               // standard errors above which a delay may be part of something slow

/// Entries by a key, in one list.
class EntriesByKey {
 public:
  template <typename KeyOf>
  EntriesByKey(std::size_t entries, std::size_t keys, const KeyOf& key_of) : begins_(keys + 1), entries_(entries) {
    for (std::size_t i = 0; i < entries; ++i) ++begins_[key_of(i) + 1];
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    std::vector<Index> next(begins_.begin(), begins_.end() - 1);
    for (std::size_t i = 0; i < entries; ++i) entries_[next[key_of(i)]++] = static_cast<Index>(i);
  }
  std::span<const Index> of(std::size_t key) const {
    return std::span(entries_).subspan(begins_[key], begins_[key + 1] - begins_[key]);
  }

 private:
  std::vector<Index> begins_, entries_;
};

struct SlowCandidate {
  Index entry = 0;  // one that belongs to it
  double significance = 0;

  bool operator<(const SlowCandidate& other) const {
    return significance != other.significance ? significance < other.significance : entry > other.entry;
  }
};

class DelayFit {
 public:
  DelayFit(std::span<const DelayFacts> delays, int processes, double least_slowdown);

  std::vector<SlowPart> parts();

 private:
  void take_off_usual();
  void find(Kind kind);
  /// One entry for each part of the kind that has a warm one.
  std::vector<Index> candidates(Kind kind) const;
  /// A number for the part of this kind that the entry belongs to.
  std::uint64_t key_of(Kind kind, const DelayFacts& delay) const;
  /// Fills `members_`: the entries of the part of this kind that this entry belongs to.
  void collect(Kind kind, Index entry);
  /// Nothing where the part is not slow. Collects its entries.
  std::optional<SlowPart> judge(Kind kind, Index entry);
  bool is_more_than_a_smaller_part(Kind kind) const;
  /// Whether this end does well on what does not belong to the part.
  bool is_cleared(const SlowPart& part, const EntriesByKey& groups, int process) const;

  double noise(Index entry) const { return std::max(noise_[delays_[entry].local ? 1 : 0], delays_[entry].error); }

  std::span<const DelayFacts> delays_;
  double least_;
  int paths_ = 1;
  std::array<double, 2> noise_{kLeastNoise, kLeastNoise};    // of the network, and within hosts
  std::array<double, 2> reach_{kSignificant, kSignificant};  // how far it may take one delay, in standard deviations
  std::vector<double> excess_;                               // logarithm of what is not explained yet
  EntriesByKey by_source_, by_destination_, by_path_;
  std::vector<Index> members_;
  std::vector<double> values_;
  std::vector<SlowPart> found_;
};

int paths_of(std::span<const DelayFacts> delays) {
  int paths = 1;
  for (const DelayFacts& delay : delays) paths = std::max(paths, delay.path + 1);
  return paths;
}

DelayFit::DelayFit(std::span<const DelayFacts> delays, int processes, double least_slowdown)
    : delays_(delays),
      least_(std::log(least_slowdown)),
      paths_(paths_of(delays)),
      excess_(delays.size()),
      by_source_(delays.size(), static_cast<std::size_t>(processes),
                 [&](std::size_t i) { return static_cast<std::size_t>(delays[i].source); }),
      by_destination_(delays.size(), static_cast<std::size_t>(processes),
                      [&](std::size_t i) { return static_cast<std::size_t>(delays[i].destination); }),
      by_path_(delays.size(), static_cast<std::size_t>(paths_),
               [&](std::size_t i) { return static_cast<std::size_t>(delays[i].path); }) {
  take_off_usual();
}

/// How far noise may take a delay, from those that are too short: nothing but noise makes a transfer fast, and noise is
/// taken to be alike on both sides. By Hill's estimate of how heavy the tail is. Reorders the values.
double reach_of(std::vector<double>& values) {
  if (values.size() < 20) return 0;
  const std::size_t count = std::clamp<std::size_t>(values.size() / 200, 10, values.size() - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count), values.end(), std::greater<>());
  const double least = values[count];
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += std::log(values[i] / least);
  const double inverse_index = sum / static_cast<double>(count);
  return least * std::pow(static_cast<double>(count) / kMistakes, inverse_index);
}

void DelayFit::take_off_usual() {
  for (std::size_t i = 0; i < delays_.size(); ++i) excess_[i] = std::log(std::max(1e-9, delays_[i].relative));
  for (const bool local : {false, true}) {
    values_.clear();
    for (std::size_t i = 0; i < delays_.size(); ++i)
      if (delays_[i].local == local) values_.push_back(excess_[i]);
    if (values_.empty()) continue;
    const Center center = center_of(values_);
    const double noise = std::max(kLeastNoise, center.spread);
    std::vector<double> short_ones;
    for (std::size_t i = 0; i < delays_.size(); ++i) {
      if (delays_[i].local != local) continue;
      excess_[i] -= center.median;
      if (excess_[i] < -noise) short_ones.push_back(-excess_[i] / noise);
    }
    noise_[local ? 1 : 0] = noise;
    if (values_.size() >= kEnoughTail) reach_[local ? 1 : 0] = std::max(kSignificant, reach_of(short_ones));
  }
}

std::uint64_t DelayFit::key_of(Kind kind, const DelayFacts& delay) const {
  const auto source = static_cast<std::uint64_t>(delay.source);
  const auto destination = static_cast<std::uint64_t>(delay.destination);
  const auto path = static_cast<std::uint64_t>(delay.path);
  const std::uint64_t medium = delay.local ? 1 : 0;
  switch (kind) {
    case Kind::path:
      return path << 1 | medium;
    case Kind::sender:
      return source << 1 | medium;
    case Kind::receiver:
      return destination << 1 | medium;
    case Kind::sender_port:
      return (source * static_cast<std::uint64_t>(paths_) + path) << 1 | medium;
    case Kind::receiver_port:
      return (destination * static_cast<std::uint64_t>(paths_) + path) << 1 | medium;
    case Kind::link:
    case Kind::path_of_link:
      return (source << 32 | destination) << 1 | medium;
  }
  return 0;
}

std::vector<Index> DelayFit::candidates(Kind kind) const {
  std::vector<std::pair<std::uint64_t, Index>> keyed;
  for (std::size_t i = 0; i < delays_.size(); ++i) {
    const auto entry = static_cast<Index>(i);
    if (excess_[i] < std::max(0.5 * least_, kWarm * noise(entry) * 0.5)) continue;
    keyed.emplace_back(kind == Kind::path_of_link ? i : key_of(kind, delays_[i]), entry);
  }
  std::sort(keyed.begin(), keyed.end());
  const auto end = std::unique(keyed.begin(), keyed.end(),
                               [](const auto& one, const auto& other) { return one.first == other.first; });
  std::vector<Index> entries;
  for (auto each = keyed.begin(); each != end; ++each) entries.push_back(each->second);
  return entries;
}

void DelayFit::collect(Kind kind, Index entry) {
  members_.clear();
  const DelayFacts& delay = delays_[entry];
  if (kind == Kind::path_of_link) {
    members_.push_back(entry);
    return;
  }
  std::span<const Index> among = by_source_.of(static_cast<std::size_t>(delay.source));
  if (kind == Kind::receiver || kind == Kind::receiver_port)
    among = by_destination_.of(static_cast<std::size_t>(delay.destination));
  if (kind == Kind::path) among = by_path_.of(static_cast<std::size_t>(delay.path));
  const std::uint64_t key = key_of(kind, delay);
  for (const Index each : among)
    if (key_of(kind, delays_[each]) == key) members_.push_back(each);
}

bool DelayFit::is_more_than_a_smaller_part(Kind kind) const {
  const auto differs = [&](int DelayFacts::*member) {
    return std::any_of(members_.begin(), members_.end(),
                       [&](Index each) { return delays_[each].*member != delays_[members_.front()].*member; });
  };
  switch (kind) {
    case Kind::path:
      return differs(&DelayFacts::source) && differs(&DelayFacts::destination);
    case Kind::sender:
      return differs(&DelayFacts::destination) && (paths_ == 1 || differs(&DelayFacts::path));
    case Kind::sender_port:
      return differs(&DelayFacts::destination);
    case Kind::receiver:
      return differs(&DelayFacts::source) && (paths_ == 1 || differs(&DelayFacts::path));
    case Kind::receiver_port:
      return differs(&DelayFacts::source);
    case Kind::link:
      return differs(&DelayFacts::path);
    case Kind::path_of_link:
      return true;
  }
  return true;
}

std::optional<SlowPart> DelayFit::judge(Kind kind, Index entry) {
  collect(kind, entry);
  if (!is_more_than_a_smaller_part(kind)) return std::nullopt;
  values_.clear();
  for (const Index each : members_) values_.push_back(excess_[each]);
  const double typical = 0.5 * (quantile_of(values_, 0.5) + upper_median_of(values_));
  const double low = quantile_of(values_, kNearlyAll);
  const double root = std::sqrt(static_cast<double>(members_.size()));
  const double error = noise(entry) / root;
  const DelayFacts& delay = delays_[entry];
  // That noise takes several far at once is much less likely than that it takes one: of two, as far as a quarter of
  // that is as rare, where tails fall with the sixth power.
  const double significant = std::max(kSignificant, reach_[delay.local ? 1 : 0] / (root * root * root));
  if (typical < least_ || low < kAlike * typical || typical < significant * error) return std::nullopt;
  SlowPart part;
  part.kind = kind;
  if (kind != Kind::path && kind != Kind::receiver && kind != Kind::receiver_port) part.source = delay.source;
  if (kind != Kind::path && kind != Kind::sender && kind != Kind::sender_port) part.destination = delay.destination;
  if (kind != Kind::sender && kind != Kind::receiver && kind != Kind::link) part.path = delay.path;
  part.local = delay.local;
  part.factor = std::exp(typical);
  part.entries = static_cast<int>(members_.size());
  part.significance = typical / error;
  return part;
}

void DelayFit::find(Kind kind) {
  std::priority_queue<SlowCandidate> queue;
  for (const Index entry : candidates(kind))
    if (const auto part = judge(kind, entry)) queue.push({entry, part->significance});
  while (!queue.empty()) {
    const SlowCandidate best = queue.top();
    queue.pop();
    // What was found since may explain part of it.
    const auto part = judge(kind, best.entry);
    if (!part) continue;
    if (part->significance < 0.999 * best.significance) {
      queue.push({best.entry, part->significance});
      continue;
    }
    const double explained = std::log(part->factor);
    for (const Index each : members_) excess_[each] -= explained;
    found_.push_back(*part);
  }
}

bool DelayFit::is_cleared(const SlowPart& part, const EntriesByKey& groups, int process) const {
  int others = 0, slow = 0;
  for (const Index each : groups.of(static_cast<std::size_t>(process))) {
    const DelayFacts& delay = delays_[each];
    if (delay.local != part.local) continue;
    if (delay.source == part.source && delay.destination == part.destination) continue;
    ++others;
    slow += excess_[each] > std::max(least_, 3 * noise(each)) ? 1 : 0;
  }
  return others > 0 && 2 * slow < others;
}

std::vector<SlowPart> DelayFit::parts() {
  for (const Kind kind : {Kind::path, Kind::sender, Kind::receiver, Kind::sender_port, Kind::receiver_port, Kind::link,
                          Kind::path_of_link})
    find(kind);
  for (SlowPart& part : found_) {
    if (part.kind != Kind::link && part.kind != Kind::path_of_link) continue;
    part.sender_cleared = is_cleared(part, by_source_, part.source);
    part.receiver_cleared = is_cleared(part, by_destination_, part.destination);
  }
  return std::move(found_);
}

}  // namespace

std::vector<SlowPart> fit_delays(std::span<const DelayFacts> delays, int processes, double least_slowdown) {
  if (delays.empty()) return {};
  return DelayFit(delays, processes, least_slowdown).parts();
}

}  // namespace tutti::diagnosis
