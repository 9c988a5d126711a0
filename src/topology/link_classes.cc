#include "topology/link_classes.hpp"

#include <map>
#include <numeric>
#include <tuple>

namespace tutti {

namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class Classes {
 public:
  explicit Classes(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  std::size_t find(std::size_t item) {
    while (parent_[item] != item) item = parent_[item] = parent_[parent_[item]];
    return item;
  }
  void unite(std::size_t a, std::size_t b) { parent_[find(a)] = find(b); }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace

/// Each link is put with its image; links with equal ends and figures are one to a symmetry.
std::vector<int> classes_of_links(const Topology& topology, const std::vector<Permutation>& symmetries) {
  using Looks = std::tuple<int, int, Rational, Rational>;
  std::map<Looks, std::size_t> index;
  Classes classes(topology.links().size());
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const Link& link = topology.links()[i];
    const auto [same, fresh] = index.emplace(Looks{link.from, link.to, link.capacity, link.latency}, i);
    if (!fresh) classes.unite(i, same->second);
  }
  for (const Permutation& image : symmetries)
    for (std::size_t i = 0; i < topology.links().size(); ++i) {
      const Link& link = topology.links()[i];
      classes.unite(i, index.at({image[at(link.from)], image[at(link.to)], link.capacity, link.latency}));
    }
  std::map<std::size_t, int> number;
  std::vector<int> class_of;
  for (std::size_t i = 0; i < topology.links().size(); ++i)
    class_of.push_back(number.emplace(classes.find(i), static_cast<int>(number.size())).first->second);
  return class_of;
}

}  // namespace tutti
