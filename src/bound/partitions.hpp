// Partitions of the GPUs that may bound an all-reduce: any is valid, these are those that matter in practice.
#pragma once

#include <vector>

#include "bound/certificate.hpp"
#include "bound/network.hpp"
#include "topology/symmetry.hpp"

namespace tutti {

/// By rank, by node, along `cut` (a set and its rest, also with either side in single ranks), and into the images of
/// either side of the cut under the symmetries, where those do not overlap; where GPUs have links to one another only,
/// as what keeps spanning trees from fitting shows. Counting messages sent where no switch multicasts, received where
/// none reduces; none at all where switches do both.
std::vector<Partition> candidate_partitions(const Network& network, const Symmetries& symmetries, const Marks& cut);

}  // namespace tutti
