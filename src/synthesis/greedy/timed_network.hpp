// The machine as the greedy generator sees it: the ways between ranks for chunks of one size, with times in whole ticks
// (so that what is symmetric stays so, to the last bit), and until when each link is taken.
//
// A rank is entered through *inlets*, the last links of its ways; a way leaves its sender through its first link, the
// *outlet*. A link is taken for bytes / capacity, from the moment the first byte is there: a way that starts at t takes
// its i-th link at t + the latencies before it. The chunk has arrived after all latencies and the slowest link.
// An *island* is a group of ranks that pass things on among themselves without leaving their node; what leaves the node
// and comes back to the island is no way, unless it is faster than the ways inside.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "topology/routes.hpp"

namespace tutti {

using Ticks = std::int64_t;
inline constexpr Ticks kNever = std::numeric_limits<Ticks>::max();

struct TimedWay {
  int from = 0;
  int to = 0;
  int channel = 0;
  int inlet = 0;
  Ticks time = 0;  // from the start to the arrival
  Ticks hold = 0;  // how long its slowest link is taken
  int first_hop = 0;
  int hops = 0;
};

/// A way into an inlet, with what is asked first.
struct WaySource {
  int outlet = 0;  // a link
  int way = 0;
};

struct Inlet {
  int to = 0;
  int link = 0;
  Ticks latest_offset = 0;         // at which a way takes the link
  std::vector<WaySource> sources;  // fastest first, then those at to + 1, to + 2, ... before others
};

/// Inlets that ways over a link lead to. Where they are many they are not listed: they are among the broad inlets.
struct Fan {
  bool is_broad = false;
  std::vector<int> inlets;
};

class TimedNetwork {
 public:
  /// For at most `transfers` transfers of chunks of `bytes`. What leaves a node and comes back counts as a way where it
  /// has more bandwidth than all ways inside, or is `loop_gain` times as fast. Searches all routes.
  TimedNetwork(Routes& routes, double bytes, double transfers, double loop_gain);

  bool are_on_one_island(const TimedWay& way) const { return island_of(way.from) == island_of(way.to); }
  int ranks() const { return static_cast<int>(island_.size()); }
  /// Those with the fastest ways first.
  const std::vector<Inlet>& inlets() const { return inlets_; }
  int ways() const { return static_cast<int>(ways_.size()); }
  const TimedWay& way(int index) const { return ways_[static_cast<std::size_t>(index)]; }
  const Fan& fan(int link) const { return fans_[static_cast<std::size_t>(link)]; }
  const std::vector<int>& broad_inlets() const { return broad_inlets_; }
  /// First links of a rank's ways.
  const std::vector<int>& outlets(int rank) const { return outlets_[static_cast<std::size_t>(rank)]; }

  int islands() const { return islands_; }
  int island_of(int rank) const { return island_[static_cast<std::size_t>(rank)]; }
  /// Of the fastest way to the rank from its own island; 0 where it is alone there.
  Ticks time_within(int rank) const { return time_within_[static_cast<std::size_t>(rank)]; }

  bool is_open(int link, Ticks now) const { return ready_[static_cast<std::size_t>(link)] <= now; }
  /// Whether any way leads over the link.
  bool is_used(int link) const { return fan(link).is_broad || !fan(link).inlets.empty(); }
  /// How long a chunk takes the link.
  Ticks busy(int link) const { return busy_[static_cast<std::size_t>(link)]; }
  /// Whether some way could begin to use the inlet if it started now.
  bool is_open(const Inlet& inlet, Ticks now) const { return is_open(inlet.link, now + inlet.latest_offset); }
  /// Whether every link of the way is free by the time a start now would need it.
  bool is_open(const TimedWay& way, Ticks now) const;
  /// Takes the links for a start now; adds when they can serve the next start, each time once.
  void take(const TimedWay& way, Ticks now, std::vector<Ticks>& free_again);
  /// Adds those links of the way that can serve a start now.
  void collect_open_links(const TimedWay& way, Ticks now, std::vector<int>& links) const;

 private:
  struct WayDraft;

  std::vector<WayDraft> draft_ways(Routes& routes, double bytes);
  void find_islands(const std::vector<WayDraft>& drafts, const Topology& topology);
  void drop_loops(std::vector<WayDraft>& drafts, double gain) const;
  void set_clock(const Topology& topology, const std::vector<WayDraft>& drafts, double bytes, double transfers);
  void add_ways(const std::vector<WayDraft>& drafts);
  void sort_inlets();
  void find_fans();

  std::vector<Ticks> busy_, latency_, ready_;  // [link]
  std::vector<Ticks> least_offset_;            // [link] of the ways over it
  std::vector<int> hops_;                      // links of all ways
  std::vector<TimedWay> ways_;
  std::vector<Inlet> inlets_;
  std::vector<std::vector<int>> outlets_;
  std::vector<Fan> fans_;
  std::vector<int> broad_inlets_;
  std::vector<int> island_;
  int islands_ = 0;
  std::vector<Ticks> time_within_;
};

}  // namespace tutti
