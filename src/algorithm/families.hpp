// What each family of generators offers to the registry. `make` expects a layout and options that were validated, and
// a collective for which `supports` said true.
#pragma once

#include "algorithm/algorithm.hpp"
#include "algorithm/builder.hpp"

namespace tutti::generate {

bool oneshot_supports(Collective collective, const Layout& layout);
Result<Program> make_oneshot(Collective collective, const Layout& layout, const AlgorithmOptions& options);

bool direct_pull_supports(Collective collective, const Layout& layout);
Result<Program> make_direct_pull(Collective collective, const Layout& layout, const AlgorithmOptions& options);
bool direct_push_supports(Collective collective, const Layout& layout);
Result<Program> make_direct_push(Collective collective, const Layout& layout, const AlgorithmOptions& options);
bool direct_split_supports(Collective collective, const Layout& layout);
Result<Program> make_direct_split(Collective collective, const Layout& layout, const AlgorithmOptions& options);
bool direct_oneshot_supports(Collective collective, const Layout& layout);
Result<Program> make_direct_oneshot(Collective collective, const Layout& layout, const AlgorithmOptions& options);

bool staged_supports(Collective collective, const Layout& layout);
Result<Program> make_staged(Collective collective, const Layout& layout, const AlgorithmOptions& options);

bool ring_supports(Collective collective, const Layout& layout);
Result<Program> make_ring(Collective collective, const Layout& layout, const AlgorithmOptions& options);

bool recursive_doubling_supports(Collective collective, const Layout& layout);
Result<Program> make_recursive_doubling(Collective collective, const Layout& layout, const AlgorithmOptions& options);
bool halving_doubling_supports(Collective collective, const Layout& layout);
Result<Program> make_halving_doubling(Collective collective, const Layout& layout, const AlgorithmOptions& options);
bool recursive_halving_supports(Collective collective, const Layout& layout);
Result<Program> make_recursive_halving(Collective collective, const Layout& layout, const AlgorithmOptions& options);

bool bruck_supports(Collective collective, const Layout& layout);
Result<Program> make_bruck(Collective collective, const Layout& layout, const AlgorithmOptions& options);

bool binomial_supports(Collective collective, const Layout& layout);
Result<Program> make_binomial(Collective collective, const Layout& layout, const AlgorithmOptions& options);
bool double_tree_supports(Collective collective, const Layout& layout);
Result<Program> make_double_tree(Collective collective, const Layout& layout, const AlgorithmOptions& options);

bool two_level_supports(Collective collective, const Layout& layout);
Result<Program> make_two_level(Collective collective, const Layout& layout, const AlgorithmOptions& options);

/// The shape of a collective over the layout's ranks.
inline Shape shape_of(Collective collective, const Layout& layout, const AlgorithmOptions& options, int chunks = 1) {
  return {collective, layout.ranks(), has_root(collective) ? options.root : 0, chunks};
}

/// Workers per rank the checker admits; a generator with a worker per peer stops there.
inline constexpr int kMaxWorkers = 512;

}  // namespace tutti::generate
