#include "algorithm/algorithm.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "algorithm/families.hpp"

namespace tutti {
namespace {

using namespace generate;

constexpr int kMaxInstances = 16;  // what the checker's 64 channels hold of the widest algorithm, with room to spare

constexpr Algorithm kAlgorithms[] = {
    {.name = "oneshot",
     .help = "everybody sends straight to everybody; small messages",
     .supports = oneshot_supports,
     .make = make_oneshot,
     .rank_order = true,
     .ordered_operands = true},
    {.name = "direct_pull",
     .help = "ranks of one host read each other's memory",
     .supports = direct_pull_supports,
     .make = make_direct_pull,
     .rank_order = true,
     .ordered_operands = true},
    {.name = "direct_push",
     .help = "ranks of one host write results into each other's memory",
     .supports = direct_push_supports,
     .make = make_direct_push,
     .rank_order = true,
     .ordered_operands = true},
    {.name = "direct_split",
     .help = "ranks of one host read a share of the root's memory each, then each other's",
     .supports = direct_split_supports,
     .make = make_direct_split},
    {.name = "direct_oneshot",
     .help = "ranks of one host read all inputs and reduce for themselves; small messages",
     .supports = direct_oneshot_supports,
     .make = make_direct_oneshot,
     .rank_order = true,
     .ordered_operands = true},
    {.name = "staged",
     .help = "ranks of one host read what each has copied into shared memory once; memory that cannot be mapped",
     .supports = staged_supports,
     .make = make_staged,
     .rank_order = true,
     .ordered_operands = true},
    {.name = "ring", .help = "chunks go around a ring; large messages", .supports = ring_supports, .make = make_ring},
    {.name = "recursive_doubling",
     .help = "whole vectors between partners at doubling distance; small messages",
     .supports = recursive_doubling_supports,
     .make = make_recursive_doubling,
     .ordered_operands = true},
    {.name = "halving_doubling",
     .help = "halves of halves between partners, there and back; middle to large messages",
     .supports = halving_doubling_supports,
     .make = make_halving_doubling,
     .ordered_operands = true},
    {.name = "recursive_halving",
     .help = "halves of halves between partners at halving distance; middle-sized messages",
     .supports = recursive_halving_supports,
     .make = make_recursive_halving},
    {.name = "bruck",
     .help = "log2(ranks) rounds of packed blocks; small messages",
     .supports = bruck_supports,
     .make = make_bruck},
    {.name = "binomial",
     .help = "a binomial tree over consecutive ranks; small messages",
     .supports = binomial_supports,
     .make = make_binomial,
     .ordered_operands = true},
    {.name = "double_tree",
     .help = "two binary trees, each rank inner in at most one; large messages at scale",
     .supports = double_tree_supports,
     .make = make_double_tree},
    {.name = "two_level",
     .help = "within each host, then along rails between hosts, then within each host",
     .supports = two_level_supports,
     .make = make_two_level},
};

std::string known_names() {
  std::string names;
  for (const Algorithm& algorithm : kAlgorithms) names.append(names.empty() ? "" : ", ").append(algorithm.name);
  return names;
}

/// Rank 0 and the root have the most workers.
Status check_workers(const Program& program, std::string_view algorithm, int instances) {
  for (int rank : {0, program.shape.root}) {
    const auto workers = static_cast<int>(program.part(rank).workers.size());
    if (workers > kMaxWorkers)
      return fail(ErrorCode::unsupported,
                  fmt::format("{} instances of {} over {} ranks need {} workers on rank {}, more than {}", instances,
                              algorithm, program.shape.ranks, workers, rank, kMaxWorkers));
  }
  return {};
}

}  // namespace

std::span<const Algorithm> algorithms() { return kAlgorithms; }

const Algorithm* find_algorithm(std::string_view name) {
  const auto found = std::find_if(std::begin(kAlgorithms), std::end(kAlgorithms),
                                  [&](const Algorithm& algorithm) { return algorithm.name == name; });
  return found == std::end(kAlgorithms) ? nullptr : found;
}

Result<Program> make_program(std::string_view algorithm, Collective collective, const Layout& layout,
                             const AlgorithmOptions& options) {
  const Algorithm* found = find_algorithm(algorithm);
  if (!found)
    return fail(ErrorCode::invalid_argument,
                fmt::format("no algorithm is named \"{}\"; there are {}", algorithm, known_names()));
  if (auto valid = layout.validate(); !valid) return tl::unexpected(valid.error());
  if (has_root(collective) && (options.root < 0 || options.root >= layout.ranks()))
    return fail(ErrorCode::invalid_argument,
                fmt::format("root is {}, expected 0 to {}", options.root, layout.ranks() - 1));
  if (options.instances < 1 || options.instances > kMaxInstances)
    return fail(ErrorCode::invalid_argument,
                fmt::format("instances is {}, expected 1 to {}", options.instances, kMaxInstances));
  if (!found->supports(collective, layout))
    return fail(ErrorCode::unsupported, fmt::format("{} does no {} over {} ranks on {} hosts", algorithm,
                                                    name_of(collective), layout.ranks(), layout.hosts()));
  Result<Program> program = found->make(collective, layout, options);
  if (program && options.instances > 1)
    if (auto fits = check_workers(*program, algorithm, options.instances); !fits) return tl::unexpected(fits.error());
  return program;
}

}  // namespace tutti
