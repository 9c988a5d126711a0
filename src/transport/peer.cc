#include "transport/peer.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace tutti {

std::unique_ptr<SendLink> Peer::open_send(const LinkId& id) { return outbound_.open(id); }

std::unique_ptr<RecvLink> Peer::open_recv(const LinkId& id) { return inbound_.open(id); }

bool Peer::lane_up(std::shared_ptr<Lane> lane) {
  // Chunks remember their lane by its index: an incarnation may begin only when nothing is open on the one before.
  const auto same =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& each) { return each->index() == lane->index(); });
  if (same != lanes_.end()) {
    const std::shared_ptr<Lane> before = *same;
    if (before->epoch() < lane->epoch())
      lane_down(*before, tutti::fail(ErrorCode::system, "the peer dialed it anew").value(), false);
    return false;
  }
  if (error_ || outbound_.waits_for_fence(lane->index())) return false;
  lanes_.push_back(lane);
  outbound_.lane_up(*lane);
  return true;
}

void Peer::lane_down(Lane& lane, const Error& why, bool orderly) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& each) { return each.get() == &lane; });
  if (found == lanes_.end()) return lane.close();
  const std::shared_ptr<Lane> lost = *found;
  lanes_.erase(found);
  lost->close();
  inbound_.lane_lost(*lost);
  if (error_) return;
  if (lanes_.empty()) return fail(why, orderly);
  if (orderly) return;
  log::warn("lane {} to {} is lost ({}); {} left", lost->index(), name_, why.message, lanes_.size());
  outbound_.lane_lost(*lost);
}

void Peer::fail(const Error& why, bool orderly) {
  if (error_) return;
  error_ = why;
  left_in_order_ = orderly;
  if (!orderly) log::warn("connection to {} failed: {}", name_, why.message);
  const auto lanes = std::exchange(lanes_, {});
  for (const auto& lane : lanes) {
    lane->close();
    inbound_.lane_lost(*lane);
  }
}

Result<std::byte*> Peer::begin(Lane& lane, const FrameHeader& header) { return inbound_.begin(lane, header); }

Status Peer::complete(Lane& lane, const FrameHeader& header) {
  switch (header.type) {
    case FrameType::data:
      inbound_.on_data(lane, header);
      return {};
    case FrameType::open:
      return inbound_.on_open(lane, header.link);
    case FrameType::close:
      inbound_.on_close(header.link);
      return {};
    case FrameType::fence:
      return inbound_.on_fence(lane, header);
    case FrameType::ack:
      return outbound_.on_ack(header);
    case FrameType::fenced:
      outbound_.on_fenced(header);
      return {};
    case FrameType::hello:
    case FrameType::welcome:
    case FrameType::bye:
      break;
  }
  return tutti::fail(ErrorCode::refused, "a frame out of place");
}

void Peer::transmitted(Lane&, const FrameHeader& header) {
  if (header.type == FrameType::data) outbound_.transmitted(header);
}

void Peer::pause(Lane&, bool settled) { inbound_.pause(settled); }

}  // namespace tutti
