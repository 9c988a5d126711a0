#include "transport/tcp/connection.hpp"

#include <fmt/core.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "net/socket.hpp"

namespace tutti {
namespace {

constexpr std::size_t kInline = 448;  // payloads up to this are cheaper to copy than to point to
constexpr int kReadsUntilAnswer = 4;  // fewer than the packets TCP sends at first without an answer
constexpr int kPartsPerWrite = 64;    // two per frame
constexpr double kIdleSeconds = 6;    // without an answer of the peer's kernel while nothing is said
constexpr int kUnsent = 256 << 10;    // bytes that the kernel takes beyond what it sends at once
constexpr std::size_t kBytesPerPass = 1 << 20;

bool read_info(int socket, tcp_info& info) {
  socklen_t bytes = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0;
}

}  // namespace

Connection::Connection(Fd socket, std::uint32_t index, std::uint32_t epoch, std::shared_ptr<Poller> poller,
                       LaneOwner& owner, WayProbe::Target listens, Sockets& sockets)
    : Lane(index, epoch),
      socket_(std::move(socket)),
      name_(peer_name(socket_.get())),
      local_(local_address(socket_.get()).value_or(SocketAddress())),
      poller_(std::move(poller)),
      owner_(owner),
      id_(poller_->new_id()),
      silence_(WayProbe(local_, std::move(listens), sockets)) {
  // What waits is to wait here rather than in the kernel, where nothing can overtake it.
  const int unsent = kUnsent;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  // The peer may have lost the lane with what it had not read. If it is not its part to dial and this end waits for
  // nothing, nobody else would notice.
  (void)watch_idle(socket_.get(), kIdleSeconds);
  poller_->add(socket_.get(), id_);
}

void Connection::close() {
  if (!socket_) return;
  poller_->remove(socket_.get(), id_);
  socket_.reset();
  silence_.stop();
  outgoing_.clear();
}

void Connection::break_off(Error why) {
  if (!failure_) failure_ = write_error_ ? *write_error_ : std::move(why);
}

ssize_t Connection::write_some(const iovec* parts, int count_of_parts) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = static_cast<std::size_t>(count_of_parts);
  constexpr int kFlags = MSG_NOSIGNAL | MSG_DONTWAIT;
  while (true) {
    const ssize_t sent = count_of_parts == 1 ? ::send(socket_.get(), parts->iov_base, parts->iov_len, kFlags)
                                             : ::sendmsg(socket_.get(), &message, kFlags);
    if (sent >= 0) {
      unanswered_reads_ = 0;
      if (silence_.wrote()) owner_.unsettled();
      written_ += static_cast<std::uint64_t>(sent);
      count(poller_->counters().bytes_sent, static_cast<std::uint64_t>(sent));
      return sent;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    // What the peer had sent before it went away is still to be read. Not every error is seen by reading: the driver
    // is to come here in any case.
    write_error_ = system_error(fmt::format("sending to {}", name_)).value();
    outgoing_.clear();
    watch_writable(true);
    return 0;
  }
}

void Connection::finished(const OutgoingFrame& frame) {
  count(poller_->counters().frames_sent, 1);
  if (frame.header.type == FrameType::data) count(poller_->counters().payload_sent, frame.header.bytes);
  owner_.transmitted(*this, frame.header);
}

void Connection::post(const FrameHeader& header, const std::byte* payload, bool keep) {
  if (!socket_ || failure_ || write_error_) return;
  OutgoingFrame frame{header, encode(header), payload, nullptr, 0, keep};
  if (outgoing_.empty()) {
    iovec parts[2];
    int used = 0;
    std::array<std::byte, kFrameHeaderBytes + kInline> small;
    if (header.bytes <= kInline) {
      std::memcpy(small.data(), frame.encoded.data(), kFrameHeaderBytes);
      if (header.bytes != 0) std::memcpy(small.data() + kFrameHeaderBytes, payload, header.bytes);
      parts[used++] = {small.data(), frame.total()};
    } else {
      used = frame.gather(parts);
    }
    frame.sent = static_cast<std::size_t>(write_some(parts, used));
    if (frame.sent == frame.total()) return finished(frame);
    if (write_error_) return;
  }
  outgoing_.add(std::move(frame));
  watch_writable(true);
}

bool Connection::flush() {
  bool moved = false;
  while (!outgoing_.empty() && socket_) {
    iovec parts[kPartsPerWrite];
    const auto sent = static_cast<std::size_t>(write_some(parts, outgoing_.gather(parts)));
    if (sent == 0) break;
    moved = true;
    outgoing_.wrote(sent, [this](const OutgoingFrame& frame) { finished(frame); });
  }
  watch_writable(!outgoing_.empty() || write_error_);
  return moved;
}

void Connection::watch_writable(bool wanted) {
  if (!socket_ || wanted == watching_writable_) return;
  watching_writable_ = wanted;
  poller_->change(socket_.get(), id_, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

Silence Connection::silence(double now) {
  if (silence_.is_settled() || !socket_) return {};
  tcp_info info{};
  if (!read_info(socket_.get(), info)) return {};
  return silence_.measure(info, !outgoing_.empty(), now);
}

// Bytes in the socket are those that the kernel over there has not acknowledged. Where none of them are under way, it
// has no room for them.
monitor::PathView Connection::look() {
  monitor::PathView view;
  view.delivered = written_;
  if (!socket_) return view;
  int unacknowledged = 0;
  tcp_info info{};
  if (::ioctl(socket_.get(), SIOCOUTQ, &unacknowledged) != 0 || !read_info(socket_.get(), info)) return view;
  const auto in_socket = static_cast<std::uint64_t>(std::max(unacknowledged, 0));
  view.delivered = written_ - std::min(written_, in_socket);
  view.in_path = info.tcpi_unacked != 0 ? in_socket : 0;
  view.lost = info.tcpi_total_retrans - std::min(info.tcpi_total_retrans, info.tcpi_dsack_dups);
  view.is_held = in_socket == 0 && !outgoing_.empty();
  view.receiver_full = static_cast<double>(info.tcpi_rwnd_limited) * 1e-6;
  view.unread = static_cast<double>(info.tcpi_last_data_recv) * 1e-3;
  return view;
}

void Connection::say_bye() {
  FrameHeader bye;
  bye.type = FrameType::bye;
  bye.epoch = epoch();
  post(bye, nullptr, true);
}

bool Connection::receive() {
  std::size_t moved = 0;
  bool drained = false;
  while (socket_ && !failure_ && !drained && moved < kBytesPerPass) {
    std::size_t asked = 0;
    const std::size_t received = read_some(asked);
    drained = received < asked;
    if (received == 0) break;
    moved += received;
    incoming_.took(received);
    while (socket_ && !failure_ && take_frame()) {
    }
  }
  if (write_error_ && !failure_ && (drained || --last_passes_ == 0)) break_off(*write_error_);
  if (moved != 0) count(poller_->counters().bytes_received, moved);
  if (moved != 0 && socket_ && !failure_) answer_reads();
  if (moved != 0 && socket_ && !failure_) owner_.pause(*this, incoming_.is_between_frames());
  return moved != 0;
}

// Where data went both ways, the kernel holds acknowledgements back for up to 40 ms, to send them with data. A sender
// of small frames only, with ten packets under way, would stand still for that long: tell the kernel that nothing goes
// back.
void Connection::answer_reads() {
  if (++unanswered_reads_ < kReadsUntilAnswer) return;
  unanswered_reads_ = 0;
  const int at_once = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_QUICKACK, &at_once, sizeof at_once);
}

std::size_t Connection::read_some(std::size_t& asked) {
  iovec parts[2];
  const int used = incoming_.places(parts);
  for (int part = 0; part < used; ++part) asked += parts[part].iov_len;
  while (true) {
    const ssize_t received = used == 1 ? ::recv(socket_.get(), parts->iov_base, parts->iov_len, MSG_DONTWAIT)
                                       : ::readv(socket_.get(), parts, used);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (received == 0)
      break_off(fail(ErrorCode::system, fmt::format("{} closed the connection", name_)).value());
    else
      break_off(system_error(fmt::format("receiving from {}", name_)).value());
    return 0;
  }
}

// Passes on one frame, or begins the one that is coming. False: more bytes are needed, or the connection is of no use.
bool Connection::take_frame() {
  if (!incoming_.is_in_frame() && !(incoming_.has_header() && begin_frame())) return false;
  return incoming_.is_whole() && complete_frame();
}

bool Connection::begin_frame() {
  const auto header = incoming_.begin();
  if (!header) {
    break_off(header.error());
    return false;
  }
  if (header->epoch != epoch()) {
    break_off(fail(ErrorCode::refused, fmt::format("a frame of incarnation {} on incarnation {} of a lane from {}",
                                                   header->epoch, epoch(), name_))
                  .value());
    return false;
  }
  const auto place = header->type == FrameType::bye ? Result<std::byte*>(nullptr) : owner_.begin(*this, *header);
  if (!place) {
    break_off(place.error());
    return false;
  }
  incoming_.land(*place);
  return true;
}

bool Connection::complete_frame() {
  const FrameHeader header = incoming_.end();
  count(poller_->counters().frames_received, 1);
  if (header.type == FrameType::data) count(poller_->counters().payload_received, header.bytes);
  if (header.type == FrameType::bye) {
    peer_said_bye_ = true;
    return true;
  }
  const auto accepted = owner_.complete(*this, header);
  if (!accepted) break_off(accepted.error());
  return accepted.has_value();
}

}  // namespace tutti
