// The judge of certificates: recomputes what the evidence proves, from the topology alone.
//
// Shares nothing with what finds bounds but the Topology and Certificate types: it adds up capacities as fractions and
// finds shortest paths with code of its own. Why each rule holds is written where it is applied. Pure; for an
// all-to-all it takes a shortest-path search for every rank, for others a few in all.
#pragma once

#include "bound/certificate.hpp"
#include "topology/topology.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Passes where the evidence is well-formed and proves exactly what is claimed; else says what is wrong.
Status check_certificate(const Topology& topology, const Certificate& certificate);

}  // namespace tutti
