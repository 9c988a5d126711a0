// Measures for how long what was written to a connection has not been answered: by the kernel at the other end, not by
// the process there. Whatever that process does, its kernel answers as long as there is a way both ways. When nothing
// was answered for a while, a WayProbe asks beside the connection. The owner's mutex guards it.
#pragma once

#include <cstdint>
#include <utility>

#include "transport/lane_slot.hpp"
#include "transport/tcp/way_probe.hpp"

struct tcp_info;

namespace tutti {

class SilenceMeter {
 public:
  explicit SilenceMeter(WayProbe way) : way_(std::move(way)) {}

  /// Takes note that something was written. Returns whether nothing waited for an answer before.
  bool wrote() { return std::exchange(settled_, false); }
  /// Returns whether all that was written is known to be acknowledged by the kernel over there.
  bool is_settled() const { return settled_; }
  /// Returns the silence so far. `info`: what the kernel here says of the connection now; `queued`: more waits to be
  /// written; `now`: seconds, on the same clock each time.
  Silence measure(const tcp_info& info, bool queued, double now);
  /// Asks nobody any more.
  void stop() { way_.reset(); }

 private:
  bool settled_ = true;
  std::uint64_t answered_ = 0;  // bytes that were acknowledged, and packets that came at all, when last measured
  double silent_ = 0;           // seconds between measurements in which these did not become more
  double measured_at_ = 0;      // 0: nothing waited then
  WayProbe way_;
};

}  // namespace tutti
