// One connection of the control plane: dialed or accepted, proven by the job's secret, then greeted, then open for
// frames.
//
// Passive: its owner watches descriptor() for events() and calls advance(); nothing here blocks or logs. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/process_id.hpp"
#include "control/frame.hpp"
#include "control/session.hpp"
#include "net/handshake.hpp"
#include "net/socket.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Where to connect: to an address, or to a door of this host.
struct ControlWay {
  SocketAddress address;
  std::string door;  // empty: the address counts

  bool by_door() const { return !door.empty(); }
  std::string to_string() const { return by_door() ? door : address.to_string(); }
};

struct Greeting {
  ProcessId from;
  ProcessId to;
  bool lifeline = false;  // nothing will be said on the connection: only its end tells something

  static constexpr std::size_t kBytes = 33;
};

class ControlConnection {
 public:
  enum class State {
    connecting,
    proving,
    greeting,  // waits for the peer's greeting
    open,
    draining,  // we have said the last word; what still comes is thrown away
  };
  using Receive = std::function<void(ControlFrame kind, std::span<const std::byte> payload)>;

  static Result<ControlConnection> dial(const ControlWay& way, const JobKey& key, const Greeting& greeting);
  /// For another process, whose greeting it is: once forwarded(), the rest is between that one and the peer.
  static Result<ControlConnection> forward(const ControlWay& way, const JobKey& key, const Greeting& greeting);
  static ControlConnection accepted(Accepted accepted, const JobKey& key);

  int descriptor() const { return socket_.get(); }
  std::uint32_t events() const;
  State state() const { return state_; }
  /// Where it leads to or comes from. Processes at a door have no address.
  const SocketAddress& remote() const { return remote_; }
  bool by_door() const { return by_door_; }
  /// For messages.
  const std::string& name() const { return name_; }
  /// What the peer said, once it has.
  const std::optional<Greeting>& greeting() const { return greeting_; }

  /// Moves as far as the socket allows, handing over whole frames; refusals, broken rules and the end of the
  /// connection are errors. Returns how many bytes came.
  Result<std::size_t> advance(const Receive& receive);

  /// For accepted connections that have been greeted: greets back, and is open.
  void welcome(const Greeting& own);
  /// Until the owner can tell whether the greeting is right, what follows stays in the socket.
  bool awaits_welcome() const { return state_ == State::greeting && greeting_.has_value(); }

  bool forwarded() const { return forwards_ && state_ == State::greeting && idle(); }
  /// Of a connection that awaits welcome, or has forwarded: nothing that follows was read. The rest is of no use then.
  Fd take() { return std::move(socket_); }

  /// Queues an encoded frame; false where the peer has not taken kQueueLimit bytes. Since nothing may be left out, the
  /// connection is then over: the next advance() fails.
  bool queue(std::span<const std::byte> frame);
  bool idle() const { return queued_ == 0; }
  /// Sends what is queued, then only our end of the stream: close() with unread input would reset the connection and
  /// could take our last words with it.
  void drain();
  /// When the owner gives up on a connection that is not open.
  double deadline = 0;

  /// The connection was refused: the host lives, but nobody listens at that address.
  bool nobody_listens() const { return nobody_listens_; }
  /// The peer's kernel ended the stream. A reset may come from anyone on the way, or from whoever has its address now;
  /// the end of a stream comes from the host that it was opened with.
  bool ended_in_order() const { return ended_in_order_; }

  static constexpr std::size_t kQueueLimit = 2 * Session::kLimit;

 private:
  ControlConnection(Fd socket, const ControlWay& way, Side side, const JobKey& key);

  Status prove();
  Result<std::size_t> read(const Receive& receive);
  Status parse(const Receive& receive);
  Status take_greeting(std::span<const std::byte> payload);
  Status flush();

  Fd socket_;
  SocketAddress remote_;
  bool by_door_;
  std::string name_;
  State state_;
  std::optional<Handshake> handshake_;
  std::optional<Greeting> own_greeting_;  // dialed: goes out once proven
  std::optional<Greeting> greeting_;
  std::vector<std::byte> input_;
  std::deque<std::vector<std::byte>> output_;
  std::size_t sent_of_front_ = 0;
  std::size_t queued_ = 0;
  bool ended_output_ = false;
  bool overflowed_ = false;
  bool nobody_listens_ = false;
  bool ended_in_order_ = false;
  bool forwards_ = false;
};

}  // namespace tutti
