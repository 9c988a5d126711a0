// What to measure, in which order: first every pair by itself, then flows that may share something. Pure, so that every
// rank of a job makes the same plan. Both lists are in order of use: whatever time is left over after the first entries
// only sharpens the picture.
#pragma once

#include <utility>
#include <vector>

#include "measure/measurements.hpp"
#include "measure/pair_table.hpp"

namespace tutti {

/// Every pair once (a < b), as rounds in which no rank appears twice: a plan that is cut short has seen all ranks
/// alike.
std::vector<std::pair<int, int>> pairs_in_rounds(int ranks);

/// Flows to measure at once, `alone` filled in: every rank to and from all its peers of a kind (same host, other
/// hosts), all ranks of a host to others at once, all ranks of a host among themselves, all pairs of two islands; then
/// ranks with 2, 4, ... peers. A rank talks to its fastest peers, and to no more than 16 at once.
std::vector<Together> plan_together(const PairTable& pairs, const std::vector<std::vector<int>>& islands);

/// The ordered pairs of islands that a trunk's `subject` numbers; none where islands are just the hosts.
std::vector<std::pair<int, int>> trunks_of(const PairTable& pairs, const std::vector<std::vector<int>>& islands);

}  // namespace tutti
