// What evidence proves, worked out in whole numbers: the finder's side of a certificate. The judge has code of its own
// (check_certificate.hpp); where the two disagree, one of them is wrong.
#pragma once

#include "bound/certificate.hpp"
#include "bound/network.hpp"
#include "topology/symmetry.hpp"

namespace tutti {

/// A collective on a network: what claims are about.
struct Subject {
  const Network* network = nullptr;
  Collective collective = Collective::all_gather;
  int root = 0;
};

/// For lengths, `symmetries` must leave them as they are: distances are then found from one rank of each orbit.
/// `evidence` must be well-formed. Throws RationalOverflow where a claim does not fit.
Certificate claim(const Subject& subject, Cut evidence);
Certificate claim(const Subject& subject, Partition evidence);
Certificate claim(const Subject& subject, Lengths evidence, const Symmetries& symmetries);

}  // namespace tutti
