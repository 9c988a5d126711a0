#include "monitor/lane_sample.hpp"

#include <algorithm>

namespace tutti::monitor {

void LostTime::add(const LostTime& other, double sign) {
  in_path += sign * other.in_path;
  at_receiver += sign * other.at_receiver;
  at_sender += sign * other.at_sender;
}

void LaneSample::add(const LaneSample& other, double sign) {
  chunks += sign * other.chunks;
  bytes += sign * other.bytes;
  busy += sign * other.busy;
  late += sign * other.late;
  starved += sign * other.starved;
  lost.add(other.lost, sign);
}

Cause Shares::cause() const {
  if (sender > receiver && sender > path) return Cause::sender_starved;
  return receiver > path ? Cause::receiver_late : Cause::path_congested;
}

Shares shares_of(const LaneSample& sum, const Cost& usual) {
  const double busy = std::max(sum.busy - usual.busy * sum.bytes, 0.0);
  const double at_receiver = std::max(sum.lost.at_receiver, 0.0);
  const double at_sender = std::max(sum.lost.at_sender, 0.0);
  const double seen = std::max(sum.lost.in_path, 0.0) + at_receiver + at_sender;
  Shares shares;
  shares.receiver = seen > 0 ? busy * at_receiver / seen : 0;
  shares.sender = seen > 0 ? busy * at_sender / seen : 0;
  shares.path = busy - shares.receiver - shares.sender;
  shares.receiver += std::max(sum.late - usual.late * sum.bytes, 0.0);
  shares.sender += std::max(sum.starved - usual.starved * sum.bytes, 0.0);
  return shares;
}

}  // namespace tutti::monitor
