// What the time of a lane went into while it completed chunks: the value that the parts of a LaneMonitor exchange, and
// its reading as blame. Seconds. Pure.
#pragma once

#include "monitor/layout.hpp"
#include "monitor/usual_cost.hpp"

namespace tutti::monitor {

/// Time beyond the usual that chunks took, by where they were held up. A part may be below 0: bytes are counted when
/// they are there, not as they come.
struct LostTime {
  double in_path = 0;
  double at_receiver = 0;
  double at_sender = 0;  // this process did not read, or did not send

  void add(const LostTime& other, double sign);
};

/// Chunks that were done at the same time, or the sum of several such samples.
struct LaneSample {
  double begin = 0;  // with the idle time before it that counts
  double end = 0;
  double chunks = 0;
  double bytes = 0;
  double busy = 0;
  double late = 0;     // idle because the receiver gave no credit
  double starved = 0;  // idle because nothing was offered
  LostTime lost;       // part of `busy`, as far as there is evidence

  double seconds() const { return busy + late + starved; }
  /// Adds or, with sign -1, takes away everything but `begin` and `end`.
  void add(const LaneSample& other, double sign = 1);
};

/// Who caused a drop: parts of the time beyond the usual.
struct Shares {
  double sender = 0;
  double receiver = 0;
  double path = 0;

  Cause cause() const;
};

/// Divides what `sum` took beyond the usual. Time of chunks for which there is no evidence is the path's.
Shares shares_of(const LaneSample& sum, const Cost& usual);

}  // namespace tutti::monitor
