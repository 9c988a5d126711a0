// A TCP connection in use as a lane: frames in and out, without copies where payloads are large. It moves bytes between
// its socket and its parts: OutgoingFrames has what waits to leave, FrameReader what is coming, SilenceMeter what was
// answered of late.
//
// Guarded by the mutex of the Peer it belongs to. Its descriptor is watched by the Poller from construction until
// close(). When sending fails, it reads what the peer had sent before, and only then reports failure().
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.hpp"
#include "net/socket.hpp"
#include "transport/lane.hpp"
#include "transport/tcp/frame_reader.hpp"
#include "transport/tcp/outgoing_frames.hpp"
#include "transport/tcp/poller.hpp"
#include "transport/tcp/silence_meter.hpp"

namespace tutti {

class Connection final : public Lane {
 public:
  /// `listens`: where the peer can be asked whether there is a way to it.
  Connection(Fd socket, std::uint32_t index, std::uint32_t epoch, std::shared_ptr<Poller> poller, LaneOwner& owner,
             WayProbe::Target listens, Sockets& sockets);
  ~Connection() override { close(); }

  void post(const FrameHeader& header, const std::byte* payload, bool keep) override;
  void forget_outgoing(const LinkId& link) override { outgoing_.forget(link); }
  void forget_incoming(const LinkId& link) override { incoming_.forget(link); }
  void close() override;
  Silence silence(double now) override;
  monitor::PathView look() override;
  std::uint64_t handed_over() const override { return written_; }
  std::string name() const override { return name_; }
  const SocketAddress& local() const { return local_; }

  /// Reads what is there, up to a bound that keeps one connection from starving the others. True if anything moved.
  bool receive();
  /// Writes what is queued. True if anything moved.
  bool flush();
  /// Says goodbye: the end of this connection is no failure.
  void say_bye();

  /// Why it is of no use any more, once it is.
  const std::optional<Error>& failure() const { return failure_; }
  bool peer_said_bye() const { return peer_said_bye_; }
  /// Sending has failed: receive() takes what is still there, and then fails as well.
  bool cannot_send() const { return write_error_.has_value(); }
  bool is_open() const { return static_cast<bool>(socket_); }
  /// Something is queued, or has not been acknowledged by the peer's kernel when silence() was last asked.
  bool is_unsettled() const { return !silence_.is_settled() || !outgoing_.empty(); }
  std::uint64_t id() const { return id_; }

 private:
  ssize_t write_some(const iovec* parts, int count);
  void finished(const OutgoingFrame& frame);
  void watch_writable(bool wanted);
  std::size_t read_some(std::size_t& asked);
  bool take_frame();
  bool begin_frame();
  bool complete_frame();
  void answer_reads();
  void break_off(Error why);

  Fd socket_;
  std::string name_;
  SocketAddress local_;
  std::shared_ptr<Poller> poller_;
  LaneOwner& owner_;
  std::uint64_t id_;

  OutgoingFrames outgoing_;
  std::uint64_t written_ = 0;  // bytes
  bool watching_writable_ = false;
  int unanswered_reads_ = 0;  // since anything was written
  FrameReader incoming_;
  SilenceMeter silence_;

  bool peer_said_bye_ = false;
  std::optional<Error> write_error_;
  int last_passes_ = 8;  // of receive(), once sending has failed
  std::optional<Error> failure_;
};

}  // namespace tutti
