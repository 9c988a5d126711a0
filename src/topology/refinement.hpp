// Two copies of a topology, left and right, cut into ever smaller cells of vertices that look alike; when every cell
// holds one vertex of each copy, the cells are a candidate for a symmetry.
//
// This is colour refinement (as in nauty) on both copies at once: vertices of a cell that have different links into
// another cell are put into different cells. A cell holds as many vertices of the left as of the right, else no
// symmetry agrees with what was matched, and refine() says so. Looks are compared by 64-bit sums of random labels: a
// collision can only miss a distinction, which the verification of the candidate then finds.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "topology/topology.hpp"

namespace tutti {

class Refinement {
 public:
  /// Cells by kind and skills, refined.
  explicit Refinement(const Topology& topology);

  /// Puts the two vertices, of one cell, into a cell of their own, and refines. False: no symmetry maps `left` to
  /// `right` and agrees with earlier matches; the object is then of no further use.
  bool match(int left, int right);

  bool settled(int left) const { return cells_[cell_of(left)].size == 1; }
  /// The right vertices that may be the image of a left one.
  std::pair<const int*, const int*> candidates(int left) const;
  std::uint32_t cell_of(int left) const { return left_.cell[static_cast<std::size_t>(left)]; }
  std::uint32_t cell_of_right(int right) const { return right_.cell[static_cast<std::size_t>(right)]; }
  /// [left] = right; once all are settled.
  std::vector<int> matching() const;

 private:
  struct VertexCell {
    std::uint32_t start, size;
    bool waits;  // in the list of cells whose neighbours are to be looked at
  };
  struct RefinedSide {
    std::vector<int> order;            // vertices, cell by cell
    std::vector<std::uint32_t> place;  // [vertex] in `order`
    std::vector<std::uint32_t> cell;   // [vertex]
    std::vector<std::uint64_t> look;   // [vertex] links into the cell being looked at, as a sum; 0 between turns
    std::vector<int> touched;          // vertices with a look
  };
  struct LabelledNeighbour {
    int vertex;
    std::uint64_t label;  // of the link and its direction
  };

  bool refine();
  void gather_looks(RefinedSide& side, const VertexCell& splitter);
  bool split_touched();
  bool split_cell(std::uint32_t cell, std::vector<int>& left, std::vector<int>& right);
  /// The last `count` places of the cell become a cell of their own.
  std::uint32_t cut_off_end(std::uint32_t cell, std::uint32_t count);
  static void move(RefinedSide& side, int vertex, std::uint32_t place);
  void wait_for(std::uint32_t cell);

  std::vector<std::uint32_t> first_neighbour_;  // [vertex], into neighbours_
  std::vector<LabelledNeighbour> neighbours_;
  RefinedSide left_, right_;
  std::vector<VertexCell> cells_;
  std::vector<std::uint32_t> waiting_;
};

}  // namespace tutti
