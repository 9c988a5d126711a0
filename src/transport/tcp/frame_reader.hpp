// Cuts the bytes of a connection into frames. A payload goes straight to its landing, together with the beginning of
// the frame that follows; only what comes beside a header is copied once more. Does no I/O itself. Its owner reads
// bytes into places() and reports them with took(); then it begins and ends frames until neither is possible:
//
//   has_header() ──begin(), land()──▶ is_in_frame() ──is_whole()──▶ end()
//
// The owner's mutex guards it. After an error of begin() it is of no use any more. All inline, because it is at work
// for every frame.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "transport/frame.hpp"

namespace tutti {

class FrameReader {
 public:
  /// Sets where the next bytes go, in this order. Returns how many places that are.
  int places(iovec (&parts)[2]) {
    if (begin_ == end_) {
      begin_ = end_ = 0;
    } else if (begin_ != 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= std::exchange(begin_, 0);
    }
    int used = 0;
    if (missing_ != 0)
      parts[used++] = landing_ != nullptr ? iovec{landing_, missing_} : iovec{bin(), std::min(missing_, kBin)};
    if (missing_ == 0 || parts[0].iov_len == missing_) {
      const std::size_t space = kBuffer - end_;
      parts[used++] = {buffer_.data() + end_, missing_ == 0 ? space : std::min(space, kReadAhead)};
    }
    return used;
  }
  /// Takes note of bytes that were written to the places.
  void took(std::size_t bytes) {
    const std::size_t of_payload = std::min(bytes, missing_);
    if (landing_ != nullptr) landing_ += of_payload;
    missing_ -= of_payload;
    end_ += bytes - of_payload;
  }

  /// Returns whether a frame can begin: its header is here and the frame before it has ended.
  bool has_header() const { return !frame_ && end_ - begin_ >= kFrameHeaderBytes; }
  /// Begins the frame; land() follows.
  Result<FrameHeader> begin() {
    auto header =
        parse_frame(std::span<const std::byte, kFrameHeaderBytes>(buffer_.data() + begin_, kFrameHeaderBytes));
    if (!header) return header;
    begin_ += kFrameHeaderBytes;
    missing_ = header->bytes;
    frame_ = *header;
    return header;
  }
  /// Sets where the payload of the frame goes, and copies there what has come of it; null: throws it away.
  void land(std::byte* landing) {
    landing_ = landing;
    const std::size_t here = std::min(missing_, end_ - begin_);
    if (landing_ != nullptr && here != 0) {
      std::memcpy(landing_, buffer_.data() + begin_, here);
      landing_ += here;
    }
    begin_ += here;
    missing_ -= here;
  }
  bool is_in_frame() const { return frame_.has_value(); }
  /// Returns whether the frame that began is here whole.
  bool is_whole() const { return missing_ == 0; }
  /// Ends the frame.
  FrameHeader end() {
    const FrameHeader ended = *frame_;
    frame_.reset();
    landing_ = nullptr;
    return ended;
  }

  /// The memory of a link's landings goes away: writes nothing to it after this.
  void forget(const LinkId& link) {
    if (frame_ && frame_->type == FrameType::data && frame_->link == link) landing_ = nullptr;
  }
  /// Returns whether all that has come belongs to frames that have ended.
  bool is_between_frames() const { return !frame_ && begin_ == end_; }

 private:
  static constexpr std::size_t kBuffer = 16 << 10;
  // Read past the end of a payload: few, because they are copied once more.
  static constexpr std::size_t kReadAhead = 4 << 10;
  static constexpr std::size_t kBin = 64 << 10;

  /// Returns where payloads go that nobody wants. Never read.
  static std::byte* bin() {
    static thread_local std::array<std::byte, kBin> bytes;
    return bytes.data();
  }

  std::array<std::byte, kBuffer> buffer_;  // empty while a payload is incomplete
  std::size_t begin_ = 0;                  // of what is in the buffer
  std::size_t end_ = 0;
  std::optional<FrameHeader> frame_;  // that has begun
  std::byte* landing_ = nullptr;      // of the bytes that are missing; null: they are thrown away
  std::size_t missing_ = 0;           // bytes of the payload
};

}  // namespace tutti
