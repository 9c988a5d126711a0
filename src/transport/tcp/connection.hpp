// A TCP connection in use as a lane: frames in and out, without copies where payloads are large. Outgoing payloads are
// read where they lie; incoming ones are read by the kernel's copy straight into their landing, together with the
// beginning of the frame that follows.
//
// Guarded by the mutex of the Peer it belongs to. Its descriptor is watched by the Poller from
// construction until close().
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "base/fd.hpp"
#include "net/socket.hpp"
#include "transport/lane.hpp"
#include "transport/tcp/poller.hpp"
#include "transport/tcp/way_probe.hpp"

namespace tutti {

class Connection final : public Lane {
 public:
  /// `listens`: where the peer can be asked whether there is a way to it.
  Connection(Fd socket, std::uint32_t index, std::uint32_t epoch, std::shared_ptr<Poller> poller, LaneOwner& owner,
             WayProbe::Target listens, Sockets& sockets);
  ~Connection() override { close(); }

  void post(const FrameHeader& header, const std::byte* payload, bool keep) override;
  void forget_outgoing(const LinkId& link) override;
  void forget_incoming(const LinkId& link) override;
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
  bool is_unsettled() const { return !settled_ || !outgoing_.empty(); }
  std::uint64_t id() const { return id_; }

 private:
  struct Outgoing {
    FrameHeader header;
    FrameBytes encoded;
    const std::byte* payload = nullptr;
    std::unique_ptr<std::byte[]> owned;
    std::size_t sent = 0;  // of header and payload together
    bool keep = false;

    std::size_t total() const { return kFrameHeaderBytes + header.bytes; }
  };
  static constexpr std::size_t kBuffer = 16 << 10;

  ssize_t write_some(const iovec* parts, int count);
  void enqueue(Outgoing frame);
  void append_parts(const Outgoing& frame, iovec* parts, int& count) const;
  void finished(const Outgoing& frame);
  void watch_writable(bool wanted);
  std::size_t read_some(std::size_t& asked);
  void took(std::size_t bytes);
  bool parse_buffer();
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

  std::deque<Outgoing> outgoing_;
  std::uint64_t written_ = 0;  // bytes
  bool watching_writable_ = false;
  int unanswered_reads_ = 0;  // since anything was written

  std::array<std::byte, kBuffer> buffer_;
  std::size_t buffer_begin_ = 0;
  std::size_t buffer_end_ = 0;
  std::optional<FrameHeader> incoming_;  // whose payload is being read
  std::byte* landing_ = nullptr;         // null: thrown away
  std::size_t missing_ = 0;              // bytes of the payload not here yet

  bool settled_ = true;         // all that was written is known to be acknowledged by the peer's kernel
  std::uint64_t answered_ = 0;  // bytes of it that were, and packets that came at all, when last asked
  double silent_ = 0;           // seconds in which there were looks and that did not become more
  double looked_at_ = 0;        // when last asked; 0: nothing waited
  WayProbe way_;

  bool peer_said_bye_ = false;
  std::optional<Error> write_error_;
  int last_passes_ = 8;  // of receive(), once sending has failed
  std::optional<Error> failure_;
};

}  // namespace tutti
