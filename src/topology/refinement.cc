#include "topology/refinement.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <tuple>

namespace tutti {
namespace {

using Character = std::tuple<VertexKind, bool, bool>;

Character character_of(const Vertex& vertex) { return {vertex.kind, vertex.skills.multicasts, vertex.skills.reduces}; }

}  // namespace

Refinement::Refinement(const Topology& topology) {
  // Labels are random and not consecutive, so that different sets of links have different sums.
  std::mt19937_64 random(1);
  std::map<std::pair<Rational, Rational>, std::pair<std::uint64_t, std::uint64_t>> labels;
  const auto count = static_cast<std::size_t>(topology.vertex_count());
  std::vector<std::vector<LabelledNeighbour>> lists(count);
  for (const Link& link : topology.links()) {
    const auto [label, fresh] = labels.try_emplace({link.capacity, link.latency});
    if (fresh) label->second = {random(), random()};
    lists[static_cast<std::size_t>(link.from)].push_back({link.to, label->second.first});
    lists[static_cast<std::size_t>(link.to)].push_back({link.from, label->second.second});
  }
  for (const auto& list : lists) {
    first_neighbour_.push_back(static_cast<std::uint32_t>(neighbours_.size()));
    neighbours_.insert(neighbours_.end(), list.begin(), list.end());
  }
  first_neighbour_.push_back(static_cast<std::uint32_t>(neighbours_.size()));

  std::map<Character, std::vector<int>> alike;
  for (int v = 0; v < topology.vertex_count(); ++v) alike[character_of(topology.vertex(v))].push_back(v);
  left_.place.resize(count);
  left_.cell.resize(count);
  left_.look.assign(count, 0);
  for (const auto& [character, members] : alike) {
    const auto cell = static_cast<std::uint32_t>(cells_.size());
    cells_.push_back(
        {static_cast<std::uint32_t>(left_.order.size()), static_cast<std::uint32_t>(members.size()), false});
    for (const int v : members) {
      left_.cell[static_cast<std::size_t>(v)] = cell;
      left_.place[static_cast<std::size_t>(v)] = static_cast<std::uint32_t>(left_.order.size());
      left_.order.push_back(v);
    }
    wait_for(cell);
  }
  right_ = left_;
  refine();
}

std::pair<const int*, const int*> Refinement::candidates(int left) const {
  const VertexCell& cell = cells_[cell_of(left)];
  const int* first = right_.order.data() + cell.start;
  return {first, first + cell.size};
}

std::vector<int> Refinement::matching() const {
  std::vector<int> image(left_.order.size());
  for (std::size_t i = 0; i < image.size(); ++i) image[static_cast<std::size_t>(left_.order[i])] = right_.order[i];
  return image;
}

void Refinement::wait_for(std::uint32_t cell) {
  if (cells_[cell].waits) return;
  cells_[cell].waits = true;
  waiting_.push_back(cell);
}

void Refinement::move(RefinedSide& side, int vertex, std::uint32_t place) {
  const std::uint32_t old = side.place[static_cast<std::size_t>(vertex)];
  const int other = side.order[place];
  std::swap(side.order[old], side.order[place]);
  side.place[static_cast<std::size_t>(vertex)] = place;
  side.place[static_cast<std::size_t>(other)] = old;
}

std::uint32_t Refinement::cut_off_end(std::uint32_t cell, std::uint32_t count) {
  VertexCell& old = cells_[cell];
  old.size -= count;
  const auto fresh = static_cast<std::uint32_t>(cells_.size());
  const std::uint32_t start = old.start + old.size;
  cells_.push_back({start, count, false});
  for (RefinedSide* side : {&left_, &right_})
    for (std::uint32_t i = start; i < start + count; ++i) side->cell[static_cast<std::size_t>(side->order[i])] = fresh;
  // Looking at one of two halves tells as much as looking at both, unless the whole was still to be looked at.
  wait_for(cells_[cell].waits || count <= cells_[cell].size ? fresh : cell);
  return fresh;
}

bool Refinement::match(int left, int right) {
  const std::uint32_t cell = cell_of(left);
  if (cell != cell_of_right(right)) return false;
  const std::uint32_t last = cells_[cell].start + cells_[cell].size - 1;
  if (cells_[cell].size == 1) return true;
  move(left_, left, last);
  move(right_, right, last);
  cut_off_end(cell, 1);
  return refine();
}

bool Refinement::refine() {
  while (!waiting_.empty()) {
    const std::uint32_t splitter = waiting_.back();
    waiting_.pop_back();
    cells_[splitter].waits = false;
    const VertexCell cell = cells_[splitter];
    gather_looks(left_, cell);
    gather_looks(right_, cell);
    if (!split_touched()) return false;
  }
  return true;
}

void Refinement::gather_looks(RefinedSide& side, const VertexCell& splitter) {
  for (std::uint32_t i = splitter.start; i < splitter.start + splitter.size; ++i) {
    const auto member = static_cast<std::size_t>(side.order[i]);
    for (std::uint32_t n = first_neighbour_[member]; n < first_neighbour_[member + 1]; ++n) {
      std::uint64_t& look = side.look[static_cast<std::size_t>(neighbours_[n].vertex)];
      if (look == 0) side.touched.push_back(neighbours_[n].vertex);
      look += neighbours_[n].label;
    }
  }
}

bool Refinement::split_touched() {
  std::map<std::uint32_t, std::pair<std::vector<int>, std::vector<int>>> by_cell;
  for (const int v : left_.touched) by_cell[left_.cell[static_cast<std::size_t>(v)]].first.push_back(v);
  for (const int v : right_.touched) by_cell[right_.cell[static_cast<std::size_t>(v)]].second.push_back(v);
  bool balanced = true;
  for (auto& [cell, members] : by_cell) balanced = balanced && split_cell(cell, members.first, members.second);
  for (RefinedSide* side : {&left_, &right_}) {
    for (const int v : side->touched) side->look[static_cast<std::size_t>(v)] = 0;
    side->touched.clear();
  }
  return balanced;
}

bool Refinement::split_cell(std::uint32_t cell, std::vector<int>& left, std::vector<int>& right) {
  if (left.size() != right.size()) return false;
  const auto by_look = [](const RefinedSide& side) {
    return [&side](int a, int b) {
      return side.look[static_cast<std::size_t>(a)] < side.look[static_cast<std::size_t>(b)];
    };
  };
  std::sort(left.begin(), left.end(), by_look(left_));
  std::sort(right.begin(), right.end(), by_look(right_));
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left_.look[static_cast<std::size_t>(left[i])] != right_.look[static_cast<std::size_t>(right[i])]) return false;
  for (std::size_t first = 0; first < left.size();) {
    std::size_t last = first;
    while (last < left.size() &&
           left_.look[static_cast<std::size_t>(left[last])] == left_.look[static_cast<std::size_t>(left[first])])
      ++last;
    const auto count = static_cast<std::uint32_t>(last - first);
    if (count == cells_[cell].size) break;  // all that is left of the cell looks the same
    const std::uint32_t end = cells_[cell].start + cells_[cell].size;
    for (std::size_t i = first; i < last; ++i) {
      move(left_, left[i], end - 1 - static_cast<std::uint32_t>(i - first));
      move(right_, right[i], end - 1 - static_cast<std::uint32_t>(i - first));
    }
    cut_off_end(cell, count);
    first = last;
  }
  return true;
}

}  // namespace tutti
