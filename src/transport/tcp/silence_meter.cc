#include "transport/tcp/silence_meter.hpp"

#include <linux/tcp.h>

#include <algorithm>

namespace tutti {
namespace {

constexpr double kJustNow = 1e-9;       // seconds: something waits, but not for long
constexpr double kLongestLook = 0.03;   // seconds between measurements that count
constexpr double kLongestAnswer = 0.3;  // seconds

}  // namespace

// A window that is closed is asked about by the kernel itself; those probes are answered, too. What came out of order
// counts as answered: after a loss nothing else moves for a while. Answers may take as long as they took of late. A
// measurement that comes late counts for little: this process, or its host, may have stood still.
Silence SilenceMeter::measure(const tcp_info& info, bool queued, double now) {
  const bool waits = info.tcpi_unacked > 0 || info.tcpi_probes > 1;
  settled_ = !waits && info.tcpi_notsent_bytes == 0 && !queued;
  const std::uint64_t answered = info.tcpi_bytes_acked + info.tcpi_delivered;
  const bool is_heard = !waits || measured_at_ == 0 || answered != answered_;
  silent_ = is_heard ? 0 : silent_ + std::min(now - measured_at_, kLongestLook);
  answered_ = answered;
  measured_at_ = waits ? now : 0;
  if (is_heard) way_.reset();
  if (settled_) return {};
  const double beyond = silent_ - std::min(info.tcpi_rtt * 1e-6, kLongestAnswer);
  return beyond <= 0 ? Silence{kJustNow} : Silence{beyond, way_.ask(beyond)};
}

}  // namespace tutti
