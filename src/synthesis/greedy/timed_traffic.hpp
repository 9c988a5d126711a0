// What happens when on a timed network: chunks under way, links that become free, and which inlets these give a chance.
//
// The one who decides starts transfers, goes on to the next moment at which something happens, and gets the inlets for
// which it could matter, once each: those behind a link that became free, and those that a rank with a new chunk can
// send to. Refers to the network, which must outlive it.
#pragma once

#include <queue>
#include <vector>

#include "synthesis/greedy/timed_network.hpp"

namespace tutti {

class TimedTraffic {
 public:
  explicit TimedTraffic(TimedNetwork& network) : network_(network), is_touched_(network.inlets().size()) {}

  Ticks now() const { return now_; }
  /// The links of the way must be open. The number comes back when the chunk arrives, after the time returned.
  Ticks start(int way, int flight);
  bool is_quiet() const { return events_.empty(); }
  /// To the next event; the flights that have arrived then. Must not be quiet.
  const std::vector<int>& advance();

  /// The rank has something new to send.
  void offer(int rank);
  void touch_all();
  /// Inlets to look at now, ascending; forgets them. Valid until the next call.
  const std::vector<int>& take_touched();

 private:
  struct TrafficEvent {
    Ticks at;
    int what;  // a flight that arrives, or ~way: some of its links are free
    bool operator>(const TrafficEvent& other) const { return at > other.at; }
  };

  void touch(int inlet);
  void touch_behind(int link);

  TimedNetwork& network_;
  Ticks now_ = 0;
  std::priority_queue<TrafficEvent, std::vector<TrafficEvent>, std::greater<>> events_;
  std::vector<bool> is_touched_;
  bool touches_broad_ = false;
  std::vector<int> touched_, taken_;
  std::vector<int> arrived_;
  std::vector<Ticks> free_again_;
  std::vector<int> open_links_;
};

}  // namespace tutti
