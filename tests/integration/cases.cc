#include "cases.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "elements.hpp"
#include "random.hpp"

namespace tutti::integration {
namespace {

// A case as one value per property, which is what a pairwise cover is made of.
enum Property { kKind, kType, kOp, kCount, kPlace, kMemory, kMode, kRoot, kProperties };
using Values = std::array<int, kProperties>;
constexpr Values kLimits = {kKinds, kDataTypes, kOperators, 6, 3, 3, 3, 3};

bool has_root(Kind kind) {
  return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter ||
         kind == Kind::gather_v || kind == Kind::scatter_v;
}

/// Whether the property says anything for the kind.
bool matters(Kind kind, int property) {
  if (kind == Kind::barrier) return property == kKind || property == kMode;
  if (property == kOp) return reduces(kind);
  if (property == kRoot) return has_root(kind);
  if (property == kPlace) return kind != Kind::messages;
  return true;
}

bool possible(const Values& values) {
  const Kind kind = static_cast<Kind>(values[kKind]);
  if (reduces(kind) && !applies(static_cast<Operator>(values[kOp]), static_cast<DataType>(values[kType]))) return false;
  return !(is_uneven(kind) && static_cast<Mode>(values[kMode]) == Mode::async);  // v-forms have no async form
}

Values draw_values(Random& random) {
  Values values{};
  do {
    for (int property = 0; property < kProperties; ++property)
      values[static_cast<std::size_t>(property)] =
          static_cast<int>(random.below(static_cast<std::size_t>(kLimits[static_cast<std::size_t>(property)])));
  } while (!possible(values));
  return values;
}

using Pair = std::uint32_t;

/// The pairs a case covers.
std::vector<Pair> pairs_of(const Values& values) {
  const Kind kind = static_cast<Kind>(values[kKind]);
  std::vector<Pair> pairs;
  for (int a = 0; a < kProperties; ++a)
    for (int b = a + 1; b < kProperties; ++b)
      if (matters(kind, a) && matters(kind, b))
        pairs.push_back(static_cast<Pair>(a << 24 | values[static_cast<std::size_t>(a)] << 16 | b << 8 |
                                          values[static_cast<std::size_t>(b)]));
  return pairs;
}

/// Every pair some case can cover. Drawing often enough finds them all: the rarest has a chance of about 1 in 200.
std::set<Pair> all_pairs(Random& random) {
  std::set<Pair> pairs;
  for (int draws = 0; draws < 6000; ++draws)
    for (const Pair pair : pairs_of(draw_values(random))) pairs.insert(pair);
  return pairs;
}

/// Greedy: of some random cases, the one that covers most that is not covered yet.
std::vector<Values> pairwise_cover(Random& random) {
  std::set<Pair> missing = all_pairs(random);
  std::vector<Values> cover;
  while (!missing.empty()) {
    Values best{};
    std::size_t most = 0;
    for (int tries = 0; tries < 20 || most == 0; ++tries) {
      const Values values = draw_values(random);
      std::size_t gain = 0;
      for (const Pair pair : pairs_of(values)) gain += missing.count(pair);
      if (gain > most) {
        most = gain;
        best = values;
      }
    }
    for (const Pair pair : pairs_of(best)) missing.erase(pair);
    cover.push_back(best);
  }
  return cover;
}

std::size_t draw_count(CountClass count_class, std::size_t most, Random& random) {
  static constexpr std::size_t kPrimes[] = {2, 3, 13, 61, 127, 509, 1009, 4099, 10007, 32771};
  switch (count_class) {
    case CountClass::zero:
      return 0;
    case CountClass::one:
      return 1;
    case CountClass::odd:
      return random.below(1000) | 1;
    case CountClass::prime:
      return std::min(kPrimes[random.below(std::size(kPrimes))], most);
    case CountClass::middle:
      return std::min(random.between(4 << 10, 64 << 10), most);
    case CountClass::large:
      return random.between(most / 4, most);
  }
  return 0;
}

Case make_case(const Values& values, const CaseOptions& options, Random& random) {
  Case made;
  made.kind = static_cast<Kind>(values[kKind]);
  made.type = static_cast<DataType>(values[kType]);
  made.op = static_cast<Operator>(values[kOp]);
  made.count_class = static_cast<CountClass>(values[kCount]);
  made.place = static_cast<Place>(values[kPlace]);
  made.memory = static_cast<Memory>(values[kMemory]);
  made.mode = static_cast<Mode>(values[kMode]);
  made.root_class = static_cast<RootClass>(values[kRoot]);
  const bool whole = made.kind == Kind::all_reduce || made.kind == Kind::reduce || made.kind == Kind::broadcast;
  const std::size_t blocks = whole ? 1 : static_cast<std::size_t>(options.ranks);
  made.count = draw_count(made.count_class, options.most_bytes / size_of(made.type) / blocks, random);
  made.root = made.root_class == RootClass::first  ? 0
              : made.root_class == RootClass::last ? options.ranks - 1
                                                   : options.ranks / 2;
  made.salt = random.next();
  return made;
}

constexpr const char* kKindNames[kKinds] = {"all_reduce",     "reduce",       "broadcast",        "all_gather",
                                            "reduce_scatter", "all_to_all",   "gather",           "scatter",
                                            "barrier",        "all_gather_v", "reduce_scatter_v", "all_to_all_v",
                                            "gather_v",       "scatter_v",    "messages"};

}  // namespace

bool reduces(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter ||
         kind == Kind::reduce_scatter_v;
}

bool is_uneven(Kind kind) { return kind >= Kind::all_gather_v && kind <= Kind::scatter_v; }

std::string describe(const Case& one) {
  constexpr const char* kPlaces[] = {"out of place", "in place", "in place on some ranks"};
  constexpr const char* kMemories[] = {"ordinary memory", "allocated memory", "mixed memory"};
  constexpr const char* kModes[] = {"blocking", "async", "in a group"};
  std::string text = fmt::format("{}({} x {}", kKindNames[static_cast<int>(one.kind)], one.count, name_of(one.type));
  if (reduces(one.kind)) text += fmt::format(", {}", name_of(one.op));
  if (has_root(one.kind)) text += fmt::format(", root {}", one.root);
  return text + fmt::format("), {}, {}, {}", kPlaces[static_cast<int>(one.place)],
                            kMemories[static_cast<int>(one.memory)], kModes[static_cast<int>(one.mode)]);
}

std::vector<Case> make_cases(const CaseOptions& options) {
  Random random(hash(options.seed, options.ranks));
  std::vector<Values> chosen = pairwise_cover(random);
  if (options.cases != 0 && options.cases < chosen.size()) {
    random.shuffle(chosen);
    chosen.resize(options.cases);
  }
  while (chosen.size() < options.cases) chosen.push_back(draw_values(random));
  std::vector<Case> cases;
  for (const Values& values : chosen) cases.push_back(make_case(values, options, random));
  return cases;
}

std::vector<std::vector<Case>> make_batches(const std::vector<Case>& cases, std::uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<Case>> batches;
  std::vector<Case> waiting[3];
  const auto flush = [&](std::vector<Case>& together) {
    if (!together.empty()) batches.push_back(std::exchange(together, {}));
  };
  for (const Case& one : cases) {
    std::vector<Case>& together = waiting[static_cast<int>(one.mode)];
    together.push_back(one);
    if (one.mode == Mode::blocking || random.one_in(2) || together.size() == 4) flush(together);
  }
  for (std::vector<Case>& together : waiting) flush(together);
  return batches;
}

}  // namespace tutti::integration
