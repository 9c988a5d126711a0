// The best programs for a collective on a topology, by size: bound first, then generators, cheapest first, until what
// they make is near enough to the bound, or time is up. Every program is priced by the simulator, and the one kept for
// a size is the fastest there; so no size is ever slower than the library's own algorithms, which are tried first.
//
// Runs on the caller's thread. `progress` is called with every improvement and at least between generators; when it
// answers false, the search ends with the best so far. Nothing here needs the checker: who writes files runs it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bound/bound.hpp"
#include "program/program.hpp"
#include "topology/formats/format_taccl.hpp"
#include "topology/sketch/sketch.hpp"
#include "topology/topology.hpp"

namespace tutti {

/// How far a search is.
struct SynthesisProgress {
  std::string stage;        // the generator at work
  std::uint64_t bytes = 0;  // the size whose best changed; 0: none did
  double seconds = 0;       // simulated, of its best
  double gap = 0;           // of its best, above the bound
  double worst_gap = 0;     // over all sizes
  double elapsed = 0;
};

/// What a topology was sketched from (apply_sketch).
struct SketchedNode {
  NodeProfile profile;
  Sketch sketch;
  SketchPlan plan;
};

/// Channels between two ranks.
enum class ChannelPolicy {
  one,             // and so one route, where there are several
  match_topology,  // one for every route, and for every tree that would wait for another
  most,            // chunks take turns on four times as many
};

/// How schedules become programs (lower.hpp). What is left open is chosen by the cost model.
struct LoweringWishes {
  std::optional<int> instances;           // copies side by side; else trees are tried with one and with four
  std::optional<ChannelPolicy> channels;  // else as the topology has it
  bool merges = true;
  bool reuses_scratch = true;
};

/// Above, programs are not put through the checker, which would take longer than the search.
inline constexpr int kMostRanksToCheck = 256;

struct SynthesisRequest {
  Collective collective = Collective::all_gather;
  int root = 0;
  std::vector<std::uint64_t> sizes = {};  // bytes of the whole vector, ascending
  double seconds = 60;
  double enough = 0.03;                  // a gap to be content with
  const SketchedNode* sketch = nullptr;  // what the topology was made of, and what is demanded beyond it; may be null
  LoweringWishes lowering = {};
  std::vector<std::string> methods = {};  // generators to use, by name; none: all
  std::function<bool(const SynthesisProgress&)> progress = {};
};

/// What is best for one size.
struct Synthesized {
  std::uint64_t bytes = 0;
  std::string generator;
  double simulated = 0;  // seconds
  double bound = 0;      // seconds
  int program = -1;      // index into Synthesis::programs
  double found_after = 0;

  /// Above the bound, as a share; a bound that is met is met, whatever the last bit says.
  double gap() const {
    const double above = bound > 0 ? simulated / bound - 1 : 0;
    return above < 0 && above > -1e-12 ? 0 : above;
  }
};

/// The simulated time of something the best can be held against; 0 where it cannot run there.
struct Rival {
  std::string name;
  std::vector<double> simulated;  // seconds, by size
};

struct Synthesis {
  Bound bound;
  std::vector<Synthesized> sizes;
  std::vector<Program> programs;  // each with the range of sizes it wins, and the tile
  std::vector<Rival> rivals;      // the library's algorithms, and up to 64 ranks what NCCL would run
  std::vector<double> link_busy;  // [link] seconds, at the largest size
  double seconds = 0;             // the search took
  bool interrupted = false;
};

/// Fails for an invalid topology, root or size, an unknown method (the message lists the known ones), and where nothing
/// was found in the time given.
Result<Synthesis> synthesize(const Topology& topology, const SynthesisRequest& request);

/// The last size of the smaller's range: the middle, as sizes are stepped by factors.
std::uint64_t end_of_range(std::uint64_t smaller, std::uint64_t larger);

/// The generators there are, for help texts.
std::vector<std::string> synthesis_methods();

}  // namespace tutti
