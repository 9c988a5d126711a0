// An open connection of the control plane: frames, both ways.
//
// Passive: its owner watches descriptor() for events() and calls advance(); nothing here blocks or logs. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "control/frame.hpp"
#include "control/world/session.hpp"
#include "tutti/error.hpp"

namespace tutti {

class ControlConnection {
 public:
  using Receive = std::function<void(ControlFrame kind, std::span<const std::byte> payload)>;

  /// `name` is for messages.
  ControlConnection(Fd socket, std::string name);

  int descriptor() const { return socket_.get(); }
  std::uint32_t events() const;
  const std::string& name() const { return name_; }

  /// Moves as far as the socket allows, handing over whole frames; broken rules and the end of the connection are
  /// errors. Returns how many bytes came.
  Result<std::size_t> advance(const Receive& receive);

  /// Queues an encoded frame. Returns false if the peer has not taken kQueueLimit bytes: since nothing may be left out,
  /// the connection is then over, and the next advance() fails.
  bool queue(std::span<const std::byte> frame);
  bool idle() const { return queued_ == 0; }
  /// Sends what is queued, then only our end of the stream, and drops what still comes: close() with unread input would
  /// reset the connection and could take our last words with it.
  void drain();
  bool is_draining() const { return is_draining_; }

  /// The peer's kernel ended the stream. A reset may come from anyone on the way, or from whoever has its address now;
  /// the end of a stream comes from the host that it was opened with.
  bool ended_in_order() const { return ended_in_order_; }

  static constexpr std::size_t kQueueLimit = 2 * Session::kLimit;

 private:
  Result<std::size_t> read(const Receive& receive);
  Status parse(const Receive& receive);
  Status flush();

  Fd socket_;
  std::string name_;
  std::vector<std::byte> input_;
  std::deque<std::vector<std::byte>> output_;
  std::size_t sent_of_front_ = 0;
  std::size_t queued_ = 0;
  bool is_draining_ = false;
  bool ended_output_ = false;
  bool overflowed_ = false;
  bool ended_in_order_ = false;
};

}  // namespace tutti
