#include "synthesis/trees/find_translations.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "topology/disjoint_sets.hpp"
#include "topology/symmetry.hpp"

namespace tutti {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

constexpr std::size_t kMostWays = 64;

using Sizes = std::vector<int>;  // of digits, the finest first

/// Ways to write numbers below `count` that symmetries may have, the simplest first.
std::vector<Sizes> ways_to_write(int count) {
  std::vector<Sizes> ways{{count}};
  Sizes primes;
  for (int rest = count, factor = 2; rest > 1; ++factor)
    for (; rest % factor == 0; rest /= factor) primes.push_back(factor);
  if (primes.size() > 2) ways.push_back(primes);
  for (int fine = 2; fine * 2 <= count; ++fine)
    if (count % fine == 0) ways.push_back({fine, count / fine});
  return ways;
}

/// All ways to write numbers with some of the strides, each a multiple of the one before.
void add_ways(const std::vector<int>& strides, std::size_t next, int below, const Sizes& begun,
              std::vector<Sizes>& ways) {
  if (ways.size() >= kMostWays) return;
  if (below == strides.back()) return ways.push_back(begun);
  for (; next < strides.size(); ++next) {
    if (strides[next] % below != 0) continue;
    Sizes longer = begun;
    longer.push_back(strides[next] / below);
    add_ways(strides, next + 1, strides[next], longer, ways);
  }
}

/// As a grid has them: neighbours of rank 0 are one step away in one digit, or at the other end of it.
std::vector<Sizes> ways_of_neighbours(const Topology& topology) {
  std::set<int> strides{topology.ranks()};
  for (const int link : topology.out_links(topology.gpu(0)))
    if (const Vertex& to = topology.vertex(topology.link(link).to); to.kind == VertexKind::gpu && to.rank > 1)
      if (topology.ranks() % to.rank == 0) strides.insert(to.rank);
  std::vector<Sizes> ways;
  add_ways({strides.begin(), strides.end()}, 0, 1, {}, ways);
  return ways;
}

/// GPUs of each node, where all have as many and ranks go through the nodes in order; else 0.
int gpus_in_each_node(const Topology& topology) {
  if (topology.nodes() < 2 || topology.ranks() % topology.nodes() != 0) return 0;
  const int each = topology.ranks() / topology.nodes();
  for (int rank = 0; rank < topology.ranks(); ++rank)
    if (topology.vertex(topology.gpu(rank)).node != rank / each) return 0;
  return each;
}

class LinkOrbits {
 public:
  explicit LinkOrbits(const Topology& topology) : topology_(topology), sets_(topology.link_count()) {}

  void add(const Permutation& vertices) {
    for (int v = 0; v < topology_.vertex_count(); ++v) {
      const auto own = sorted(v, &vertices), image = sorted(vertices[at(v)], nullptr);
      for (std::size_t i = 0; i < own.size(); ++i) sets_.unite(own[i], image[i]);
    }
  }

  std::vector<int> result() {
    std::vector<int> orbit_of;
    for (int link = 0; link < topology_.link_count(); ++link) orbit_of.push_back(sets_.find(link));
    return orbit_of;
  }

 private:
  /// Links that leave a vertex, in an order that a symmetry keeps.
  std::vector<int> sorted(int vertex, const Permutation* image) const {
    std::vector<int> links = topology_.out_links(vertex);
    const auto key = [&](int index) {
      const Link& link = topology_.link(index);
      return std::tuple(image == nullptr ? link.to : (*image)[at(link.to)], link.capacity, link.latency, index);
    };
    std::sort(links.begin(), links.end(), [&](int a, int b) { return key(a) < key(b); });
    return links;
  }

  const Topology& topology_;
  DisjointSets sets_;
};

class TranslationFinder {
 public:
  explicit TranslationFinder(const Topology& topology) : topology_(topology) {}

  FoundTranslations find() {
    std::vector<Translations::Digit> digits;
    if (const int each = gpus_in_each_node(topology_); each > 0) {
      digits = best_digits(1, ways_to_write(each));
      const auto of_nodes = best_digits(each, ways_to_write(topology_.ranks() / each));
      digits.insert(digits.end(), of_nodes.begin(), of_nodes.end());
    } else {
      std::vector<Sizes> ways = ways_of_neighbours(topology_);
      if (topology_.ranks() <= kMostRanksToGuess)
        for (Sizes& way : ways_to_write(topology_.ranks())) ways.push_back(std::move(way));
      digits = best_digits(1, ways);
    }
    LinkOrbits orbits(topology_);
    for (const auto& digit : digits)
      if (digit.moves) orbits.add(*symmetry_of(digit));
    return {Translations(std::move(digits)), orbits.result()};
  }

 private:
  static constexpr int kMostRanksToGuess = 256;

  /// The way whose digits move most.
  std::vector<Translations::Digit> best_digits(int stride, const std::vector<Sizes>& ways) {
    std::vector<Translations::Digit> best;
    int most = 0;
    for (const Sizes& way : ways) {
      std::vector<Translations::Digit> digits;
      int below = stride, whole = 1;
      for (const int size : way) {
        Translations::Digit digit{below, size, false};
        digit.moves = size > 1 && symmetry_of(digit).has_value();
        digits.push_back(digit);
        below *= size;
        whole *= size;
      }
      const int moved = Translations(digits).order();
      if (moved <= most) continue;
      most = moved;
      best = std::move(digits);
      if (moved == whole) break;
    }
    return best;
  }

  const std::optional<Permutation>& symmetry_of(const Translations::Digit& digit) {
    const auto [known, is_new] = symmetries_.emplace(std::pair(digit.stride, digit.size), std::nullopt);
    if (!is_new) return known->second;
    const Translations alone({{digit.stride, digit.size, true}});
    Permutation ranks;
    for (int rank = 0; rank < topology_.ranks(); ++rank) ranks.push_back(alone.translated(rank, digit.stride));
    return known->second = extend_to_symmetry(topology_, ranks);
  }

  const Topology& topology_;
  std::map<std::pair<int, int>, std::optional<Permutation>> symmetries_;  // by stride and size
};

}  // namespace

FoundTranslations find_translations(const Topology& topology) { return TranslationFinder(topology).find(); }

}  // namespace tutti
