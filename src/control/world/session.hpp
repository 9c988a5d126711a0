// What two processes have said to each other and what of it has arrived, whatever connections come and go between them.
//
// Each side numbers its frames from 1 and keeps them until the other acknowledges them. Every connection begins with
// all that is kept, in order: so no connection has a gap, and the receiver takes each number once. No sockets, no
// clock. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace tutti {

class Session {
 public:
  using Frame = std::vector<std::byte>;

  /// Numbers an encoded frame, and keeps it. The peer may be more than kLimit bytes behind then: see overflowed().
  const Frame& push(Frame frame);
  /// The peer has not taken kLimit bytes. No frame may be left out of a session, so it is to be ended.
  bool overflowed() const { return kept_bytes_ > kLimit; }
  /// What the peer may not have.
  const std::deque<Frame>& kept() const { return kept_; }
  /// The peer has all up to `number`; false where that was never sent.
  [[nodiscard]] bool acknowledged(std::uint64_t number);
  /// Nobody is going to ask for them any more.
  void forget_kept();

  enum class Arrival {
    next,  // to be taken
    seen,  // to be dropped
    gap,   // the connection breaks the rules
  };
  Arrival arrived(std::uint64_t number, std::size_t bytes);

  /// Much has come since the last acknowledgement.
  bool owes_acknowledgement() const { return owed_frames_ >= kOwedFrames || owed_bytes_ >= kOwedBytes; }
  /// The number to acknowledge now.
  std::uint64_t acknowledge();

  static constexpr std::size_t kLimit = 64u << 20;
  static constexpr std::size_t kOwedFrames = 32;
  static constexpr std::size_t kOwedBytes = 64u << 10;

 private:
  std::deque<Frame> kept_;
  std::size_t kept_bytes_ = 0;
  std::uint64_t sent_ = 0;  // the last number given
  std::uint64_t received_ = 0;
  std::size_t owed_frames_ = 0;
  std::size_t owed_bytes_ = 0;
};

}  // namespace tutti
