// The lengths of links that prove most of an all-to-all: the dual of the maximum concurrent flow, solved nearly or
// exactly. Links that a symmetry maps to one another have the same length, so a symmetric topology of any size has a
// handful of unknowns and one source.
#pragma once

#include <cstdint>
#include <vector>

#include "bound/network.hpp"
#include "topology/symmetry.hpp"

namespace tutti {

struct FoundLengths {
  std::vector<std::int64_t> of_links;  // 0 to kLongest
  double rate_limit = 0;               // seconds per byte of a rank's buffer; 0: not known (certificate.hpp)
};

/// `symmetries` without generators: every link has its own length.
FoundLengths find_lengths(const Network& network, const Symmetries& symmetries, double seconds);

}  // namespace tutti
