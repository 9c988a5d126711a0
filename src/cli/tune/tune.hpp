// The search of `tutti tune`: which program is fastest for each collective and size, on the ranks at hand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "selection/selection.hpp"
#include "tutti/communicator.hpp"

namespace tutti::cli {

struct TuneOptions {
  std::size_t min_bytes = 8;
  std::size_t max_bytes = 64 << 20;
  double seconds = 60;  // for all of it
};

/// One program tried: its rule, and the time all ranks needed; negative where it cannot run here.
struct Trial {
  Collective collective = Collective::all_reduce;
  std::size_t bytes = 0;
  Choice choice;
  double microseconds = 0;
};

/// All ranks call it alike. `tell` hears of every trial on every rank.
Result<std::vector<Trial>> search_programs(Communicator& communicator, const TuneOptions& options,
                                           const std::function<void(const Trial&)>& tell);

/// The fastest of each collective and size as ranges of sizes, neighbours with the same choice merged.
std::vector<SelectionRule> rules_of(const std::vector<Trial>& trials, const HostLayout& hosts);

}  // namespace tutti::cli
