// The frames that wait to be written to a connection, in the order in which they leave. Does no I/O itself: gather()
// returns what is to be written next, and wrote() is told how much of it was. Payloads are read where they lie, until
// their frame has left or forget() copied them. The owner's mutex guards it.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>

#include "transport/frame.hpp"

namespace tutti {

struct OutgoingFrame {
  FrameHeader header;
  FrameBytes encoded;
  const std::byte* payload = nullptr;
  std::unique_ptr<std::byte[]> owned;
  std::size_t sent = 0;  // of header and payload together
  bool keep = false;     // it is sent even if its link is forgotten before

  std::size_t total() const { return kFrameHeaderBytes + header.bytes; }
  /// Sets the parts that have not been sent. Returns how many there are: two at most.
  int gather(iovec* parts) const {
    int used = 0;
    if (sent < kFrameHeaderBytes)
      parts[used++] = {const_cast<std::byte*>(encoded.data()) + sent, kFrameHeaderBytes - sent};
    const std::size_t of_payload = sent > kFrameHeaderBytes ? sent - kFrameHeaderBytes : 0;
    if (of_payload < header.bytes)
      parts[used++] = {const_cast<std::byte*>(payload) + of_payload, header.bytes - of_payload};
    return used;
  }
};

class OutgoingFrames {
 public:
  bool empty() const { return frames_.empty(); }
  /// Acknowledgements overtake data that has not begun to leave: the sender over there waits for them.
  void add(OutgoingFrame frame);
  /// Sets the parts that leave next, as many as fit. Returns how many there are.
  int gather(std::span<iovec> parts) const;
  /// Takes note of bytes that were written. Calls `left` with each frame that has left with them.
  template <typename Left>
  void wrote(std::size_t bytes, const Left& left) {
    while (bytes != 0) {
      OutgoingFrame& frame = frames_.front();
      const std::size_t taken = std::min(bytes, frame.total() - frame.sent);
      frame.sent += taken;
      bytes -= taken;
      if (frame.sent != frame.total()) return;
      left(frame);
      frames_.pop_front();
    }
  }
  /// The memory of a link's chunks goes away: reads nothing of it after this. Copies what must still be sent: what is
  /// to be kept, and frames that are half sent.
  void forget(const LinkId& link);
  void clear() { frames_.clear(); }

 private:
  std::deque<OutgoingFrame> frames_;
};

}  // namespace tutti
