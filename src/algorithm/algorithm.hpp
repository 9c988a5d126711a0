// The built-in algorithms: generators of Programs for a collective over a layout of ranks.
//
// A program made here passes check(); its parts are made on demand, one rank at a time, from a shared copy of what the
// layout says. Pure functions of their arguments: every rank that asks with the same ones gets the same program.
// Safe to call from any thread.
//
//   name                 collectives                                  for
//   oneshot              all                                          small messages, any transport: one hop each
//   direct_pull          all but barrier                              one host: read peers' memory in place
//   direct_push          all but barrier and reduce_scatter           one host, memory peers may write: one phase
//   direct_split         broadcast                                    one host, large: shares the reading of the root
//   direct_oneshot       all_reduce, barrier                          one host, small: everybody reads everything
//   ring                 all_reduce, all_gather, reduce_scatter,      large messages; the least traffic per link
//                        broadcast, reduce
//   recursive_doubling   all_reduce, all_gather, barrier              small to middle sizes; log2(ranks) rounds
//   halving_doubling     all_reduce                                   middle to large; log2(ranks) rounds each way
//   recursive_halving    reduce_scatter                               middle sizes
//   bruck                all_gather, all_to_all                       small blocks, many ranks
//   binomial             broadcast, reduce, gather, scatter           small; log2(ranks) depth
//   double_tree          all_reduce, broadcast, reduce                large at scale: log depth, both directions busy
//   two_level            all_reduce, all_gather, reduce_scatter,      several ranks per host, as many on each
//                        broadcast, reduce, all_to_all
#pragma once

#include <span>
#include <string_view>

#include "algorithm/layout.hpp"
#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct AlgorithmOptions {
  int root = 0;       // where has_root(collective)
  int instances = 1;  // parallel copies, each on channels of its own and with its own share of every chunk
};

struct Algorithm {
  std::string_view name;
  std::string_view help;
  bool (*supports)(Collective collective, const Layout& layout);
  /// For what `supports`; make_program() checks arguments first.
  Result<Program> (*make)(Collective collective, const Layout& layout, const AlgorithmOptions& options);
  // What holds for every reduction it makes, on any layout:
  bool rank_order = false;  // strictly in rank order: fit for the mode `reproducible`
  bool ordered_operands =
      false;  // operands keep rank order under some bracketing: fit for functions that do not commute
};

std::span<const Algorithm> algorithms();

/// Null where there is none of that name.
const Algorithm* find_algorithm(std::string_view name);

/// Fails with invalid_argument for an unknown name (the message lists the known ones), a bad layout, root or number of
/// instances, and with unsupported where the algorithm does not do that collective on that layout.
Result<Program> make_program(std::string_view algorithm, Collective collective, const Layout& layout,
                             const AlgorithmOptions& options = {});

}  // namespace tutti
