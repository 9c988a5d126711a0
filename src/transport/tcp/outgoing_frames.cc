#include "transport/tcp/outgoing_frames.hpp"

#include <cstring>
#include <utility>

namespace tutti {

void OutgoingFrames::add(OutgoingFrame frame) {
  auto at = frames_.end();
  if (frame.header.type == FrameType::ack || frame.header.type == FrameType::tried)
    at = std::find_if(frames_.begin(), frames_.end(),
                      [](const OutgoingFrame& each) { return each.sent == 0 && each.header.type == FrameType::data; });
  frames_.insert(at, std::move(frame));
}

int OutgoingFrames::gather(std::span<iovec> parts) const {
  std::size_t used = 0;
  for (const OutgoingFrame& frame : frames_) {
    if (used + 2 > parts.size()) break;
    used += static_cast<std::size_t>(frame.gather(&parts[used]));
  }
  return static_cast<int>(used);
}

void OutgoingFrames::forget(const LinkId& link) {
  std::deque<OutgoingFrame> left;
  for (OutgoingFrame& frame : frames_) {
    const bool has_memory = frame.header.type == FrameType::data && frame.header.link == link && !frame.owned;
    if (has_memory && frame.sent == 0 && !frame.keep) continue;
    if (has_memory && frame.header.bytes != 0) {
      frame.owned = std::make_unique_for_overwrite<std::byte[]>(frame.header.bytes);
      std::memcpy(frame.owned.get(), frame.payload, frame.header.bytes);
      frame.payload = frame.owned.get();
    }
    left.push_back(std::move(frame));
  }
  frames_ = std::move(left);
}

}  // namespace tutti
