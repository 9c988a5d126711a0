#include "topology/symmetry.hpp"

#include <algorithm>
#include <random>
#include <tuple>

#include "topology/disjoint_sets.hpp"
#include "topology/refinement.hpp"

namespace tutti {
namespace {

constexpr int kMostFailures = 32;  // a topology that is not symmetric costs no more attempts than that
constexpr int kMostForCare = 4096;

struct LinkEnd {
  int vertex;
  const Link* link;
};

bool before(const LinkEnd& a, const LinkEnd& b) {
  return std::tie(a.vertex, a.link->capacity, a.link->latency) < std::tie(b.vertex, b.link->capacity, b.link->latency);
}

/// Ends of the links that leave `vertex`, each vertex replaced by its image, in order.
std::vector<LinkEnd> ends_of(const Topology& topology, int vertex, const Permutation* image) {
  std::vector<LinkEnd> ends;
  for (const int index : topology.out_links(vertex)) {
    const Link& link = topology.link(index);
    ends.push_back({image == nullptr ? link.to : (*image)[static_cast<std::size_t>(link.to)], &link});
  }
  std::sort(ends.begin(), ends.end(), before);
  return ends;
}

bool is_permutation_of(const Permutation& images, int count) {
  std::vector<bool> hit(static_cast<std::size_t>(count), false);
  if (images.size() != hit.size()) return false;
  for (const int image : images) {
    if (image < 0 || image >= count || hit[static_cast<std::size_t>(image)]) return false;
    hit[static_cast<std::size_t>(image)] = true;
  }
  return true;
}

/// Matches `left` with one of its candidates at random: random symmetries join orbits fast, where cautious ones would
/// move as little as possible. `careful`: where one does not fit, others are tried.
bool settle(Refinement& refinement, int left, bool careful, std::mt19937& random) {
  const auto [first, last] = refinement.candidates(left);
  if (!careful) {
    const int right = first[std::uniform_int_distribution<std::ptrdiff_t>(0, last - first - 1)(random)];
    return refinement.match(left, right);
  }
  std::vector<int> candidates(first, last);
  std::shuffle(candidates.begin(), candidates.end(), random);
  for (const int right : candidates) {
    Refinement attempt = refinement;
    if (!attempt.match(left, right)) continue;
    refinement = std::move(attempt);
    return true;
  }
  return false;
}

std::optional<Permutation> complete(const Topology& topology, Refinement refinement, bool careful,
                                    std::mt19937& random) {
  for (int left = 0; left < topology.vertex_count(); ++left)
    if (!refinement.settled(left) && !settle(refinement, left, careful, random)) return std::nullopt;
  Permutation candidate = refinement.matching();
  if (!is_symmetry(topology, candidate)) return std::nullopt;
  return candidate;
}

/// Care copies the refinement for every choice, so it comes second, and only while copies are small.
std::optional<Permutation> complete(const Topology& topology, const Refinement& refinement, std::mt19937& random) {
  auto symmetry = complete(topology, refinement, false, random);
  if (!symmetry && topology.vertex_count() <= kMostForCare) symmetry = complete(topology, refinement, true, random);
  return symmetry;
}

}  // namespace

bool is_symmetry(const Topology& topology, const Permutation& vertices) {
  if (!is_permutation_of(vertices, topology.vertex_count())) return false;
  for (int v = 0; v < topology.vertex_count(); ++v) {
    const int image = vertices[static_cast<std::size_t>(v)];
    const Vertex& one = topology.vertex(v);
    const Vertex& other = topology.vertex(image);
    if (one.kind != other.kind || one.skills != other.skills) return false;
    const auto mapped = ends_of(topology, v, &vertices), own = ends_of(topology, image, nullptr);
    const auto same = [](const LinkEnd& a, const LinkEnd& b) { return !before(a, b) && !before(b, a); };
    if (!std::equal(mapped.begin(), mapped.end(), own.begin(), own.end(), same)) return false;
  }
  return true;
}

std::vector<int> Symmetries::representatives() const {
  std::vector<int> representatives;
  for (std::size_t rank = 0; rank < orbit_of.size(); ++rank)
    if (orbit_of[rank] == static_cast<int>(rank)) representatives.push_back(static_cast<int>(rank));
  return representatives;
}

Symmetries find_symmetries(const Topology& topology) {
  Symmetries found;
  DisjointSets orbits(topology.ranks());
  const Refinement refinement(topology);
  std::mt19937 random(1);
  std::vector<int> roots;  // of orbits that are not known to be one
  int failures = 0;
  for (int rank = 0; rank < topology.ranks(); ++rank) {
    for (const int root : roots) {
      if (orbits.find(rank) != rank || failures >= kMostFailures) break;
      const int from = topology.gpu(root), to = topology.gpu(rank);
      if (refinement.cell_of(from) != refinement.cell_of_right(to)) continue;
      Refinement attempt = refinement;
      auto symmetry = attempt.match(from, to) ? complete(topology, attempt, random) : std::nullopt;
      if (!symmetry) {
        ++failures;
        continue;
      }
      for (int r = 0; r < topology.ranks(); ++r)
        orbits.unite(r, topology.vertex((*symmetry)[static_cast<std::size_t>(topology.gpu(r))]).rank);
      found.generators.push_back(std::move(*symmetry));
    }
    if (orbits.find(rank) == rank) roots.push_back(rank);
  }
  for (int rank = 0; rank < topology.ranks(); ++rank) found.orbit_of.push_back(orbits.find(rank));
  return found;
}

std::optional<Permutation> extend_to_symmetry(const Topology& topology, const Permutation& ranks) {
  if (!is_permutation_of(ranks, topology.ranks())) return std::nullopt;
  Refinement refinement(topology);
  for (int rank = 0; rank < topology.ranks(); ++rank)
    if (!refinement.match(topology.gpu(rank), topology.gpu(ranks[static_cast<std::size_t>(rank)]))) return std::nullopt;
  std::mt19937 random(1);
  return complete(topology, refinement, random);
}

}  // namespace tutti
