// Where a level changed: the best fit of two constant rates to a run of timed pieces of work. Pure.
#pragma once

#include <cstddef>
#include <span>

namespace tutti::monitor {

struct Piece {
  double bytes = 0;
  double seconds = 0;
};

/// The index at which the second level begins, such that seconds per byte are as constant as can be before it and from
/// it on (least squares, by bytes); 0: no split is better than none. `rises`: only splits after which a byte takes
/// longer count; else only those after which it takes less.
std::size_t fit_step(std::span<const Piece> pieces, bool rises);

}  // namespace tutti::monitor
