// Which program runs for a call: a pure function of what all ranks know, so that all choose alike.
// Rules come from the user's override string, else the table of `tutti tune`, else the built-in defaults.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct Choice {
  std::string algorithm = {};    // a built-in algorithm
  std::size_t tile = 0;          // bytes of a chunk run through the program at a time; 0: all
  std::string when_mapped = {};  // to run instead if every rank's buffers can be mapped; may be empty
  std::size_t mapped_tile = 0;

  bool operator==(const Choice&) const = default;
};

/// One line of a table: for this collective, from `first` to `last` bytes (inclusive), take that.
struct SelectionRule {
  Collective collective = Collective::all_reduce;
  std::uint64_t first = 0;
  std::uint64_t last = ~std::uint64_t{0};
  Choice choice;

  bool operator==(const SelectionRule&) const = default;
};

/// "all_reduce:0-32K:oneshot;all_gather:*:ring@256K": collective, size range (or *), program and tile. After them,
/// "|program@tile" is what runs instead where all buffers can be mapped.
/// An error names the part that cannot be read, and what was expected.
Result<std::vector<SelectionRule>> parse_rules(std::string_view text);
std::string to_string(const std::vector<SelectionRule>& rules);

/// What the choice of an algorithm depends on: the call, and the communicator it is made on.
struct CallContext {
  Collective collective = Collective::all_reduce;
  std::size_t bytes = 0;
  int ranks = 1;
  int hosts = 1;
  bool even_hosts = true;   // as many ranks on each
  bool rank_order = false;  // mode `reproducible`
  bool ordered = false;     // a user's function, which need not commute
  bool own_counts = false;  // a v-form whose counts only its rank knows
};

/// The tile for what goes one way only through shared memory. The receiver copies one part out while the next is copied
/// in; but many small parts would use few lines of each slot, over and over, which have to be won back from its cache.
std::size_t one_way_tile(std::size_t bytes);

/// The first rule that fits, else the defaults.
Choice select(const CallContext& context, const std::vector<SelectionRule>& rules);

}  // namespace tutti
