#include "transport/tcp/connection.hpp"

#include <fmt/core.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/socket.hpp"

namespace tutti {
namespace {

constexpr std::size_t kInline = 448;  // payloads up to this are cheaper to copy than to point to
constexpr int kReadsUntilAnswer = 4;  // fewer than the packets TCP sends at first without an answer
constexpr int kPartsPerWrite = 64;    // two per frame
constexpr int kUnsent = 256 << 10;    // bytes that the kernel takes beyond what it sends at once
constexpr std::size_t kBytesPerPass = 1 << 20;
constexpr std::size_t kReadAhead = 4 << 10;  // past the end of a payload: small, because it is copied once more

// Where payloads go that nobody wants. Never read.
std::byte* bin() {
  static thread_local std::array<std::byte, 64 << 10> bytes;
  return bytes.data();
}
constexpr std::size_t kBin = 64 << 10;

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
      way_(local_, std::move(listens), sockets) {
  // What waits is to wait here rather than in the kernel, where nothing can overtake it.
  const int unsent = kUnsent;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  poller_->add(socket_.get(), id_);
}

void Connection::close() {
  if (!socket_) return;
  poller_->remove(socket_.get(), id_);
  socket_.reset();
  way_.reset();
  outgoing_.clear();
  incoming_.reset();
  landing_ = nullptr;
}

void Connection::break_off(Error why) {
  if (!failure_) failure_ = write_error_ ? *write_error_ : std::move(why);
}

void Connection::append_parts(const Outgoing& frame, iovec* parts, int& count) const {
  if (frame.sent < kFrameHeaderBytes)
    parts[count++] = {const_cast<std::byte*>(frame.encoded.data()) + frame.sent, kFrameHeaderBytes - frame.sent};
  const std::size_t of_payload = frame.sent > kFrameHeaderBytes ? frame.sent - kFrameHeaderBytes : 0;
  if (of_payload < frame.header.bytes)
    parts[count++] = {const_cast<std::byte*>(frame.payload) + of_payload, frame.header.bytes - of_payload};
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
      if (std::exchange(settled_, false)) owner_.unsettled();
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

void Connection::finished(const Outgoing& frame) {
  count(poller_->counters().frames_sent, 1);
  if (frame.header.type == FrameType::data) count(poller_->counters().payload_sent, frame.header.bytes);
  owner_.transmitted(*this, frame.header);
}

void Connection::post(const FrameHeader& header, const std::byte* payload, bool keep) {
  if (!socket_ || failure_ || write_error_) return;
  Outgoing frame{header, encode(header), payload, nullptr, 0, keep};
  if (outgoing_.empty()) {
    iovec parts[2];
    int used = 0;
    std::array<std::byte, kFrameHeaderBytes + kInline> small;
    if (header.bytes <= kInline) {
      std::memcpy(small.data(), frame.encoded.data(), kFrameHeaderBytes);
      if (header.bytes != 0) std::memcpy(small.data() + kFrameHeaderBytes, payload, header.bytes);
      parts[used++] = {small.data(), frame.total()};
    } else {
      append_parts(frame, parts, used);
    }
    frame.sent = static_cast<std::size_t>(write_some(parts, used));
    if (frame.sent == frame.total()) return finished(frame);
    if (write_error_) return;
  }
  enqueue(std::move(frame));
  watch_writable(true);
}

// Acknowledgements overtake data that has not begun to leave: the sender over there waits for them.
void Connection::enqueue(Outgoing frame) {
  auto at = outgoing_.end();
  if (frame.header.type == FrameType::ack || frame.header.type == FrameType::tried)
    at = std::find_if(outgoing_.begin(), outgoing_.end(),
                      [](const Outgoing& each) { return each.sent == 0 && each.header.type == FrameType::data; });
  outgoing_.insert(at, std::move(frame));
}

bool Connection::flush() {
  bool moved = false;
  while (!outgoing_.empty() && socket_) {
    iovec parts[kPartsPerWrite];
    int used = 0;
    for (const Outgoing& frame : outgoing_) {
      if (used + 2 > kPartsPerWrite) break;
      append_parts(frame, parts, used);
    }
    auto sent = static_cast<std::size_t>(write_some(parts, used));
    if (sent == 0) break;
    moved = true;
    while (sent != 0) {
      Outgoing& frame = outgoing_.front();
      const std::size_t taken = std::min(sent, frame.total() - frame.sent);
      frame.sent += taken;
      sent -= taken;
      if (frame.sent != frame.total()) break;
      finished(frame);
      outgoing_.pop_front();
    }
  }
  watch_writable(!outgoing_.empty() || write_error_);
  return moved;
}

void Connection::watch_writable(bool wanted) {
  if (!socket_ || wanted == watching_writable_) return;
  watching_writable_ = wanted;
  poller_->change(socket_.get(), id_, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void Connection::forget_incoming(const LinkId& link) {
  if (incoming_ && incoming_->type == FrameType::data && incoming_->link == link) landing_ = nullptr;
}

void Connection::forget_outgoing(const LinkId& link) {
  std::deque<Outgoing> left;
  for (Outgoing& frame : outgoing_) {
    const bool has_memory = frame.header.type == FrameType::data && frame.header.link == link && !frame.owned;
    if (has_memory && frame.sent == 0 && !frame.keep) continue;
    if (has_memory && frame.header.bytes != 0) {
      frame.owned = std::make_unique_for_overwrite<std::byte[]>(frame.header.bytes);
      std::memcpy(frame.owned.get(), frame.payload, frame.header.bytes);
      frame.payload = frame.owned.get();
    }
    left.push_back(std::move(frame));
  }
  outgoing_ = std::move(left);
}

// By the kernel's acknowledgements, not the peer's: whatever the process there does, its kernel answers as long as
// there is a way both ways. A window that is closed is asked about by the kernel itself; those probes are answered,
// too. What came out of order counts as answered: after a loss nothing else moves for a while. Answers may take as long
// as they took of late. A look that comes late counts for little: this process, or its host, may have stood still.
Silence Connection::silence(double now) {
  constexpr double kJustNow = 1e-9;
  constexpr double kLongestLook = 0.03;
  constexpr double kLongestAnswer = 0.3;
  if (settled_ || !socket_) return {};
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  const bool waits = info.tcpi_unacked > 0 || info.tcpi_probes > 1;
  settled_ = !waits && info.tcpi_notsent_bytes == 0 && outgoing_.empty();
  const std::uint64_t answered = info.tcpi_bytes_acked + info.tcpi_delivered;
  const bool is_heard = !waits || looked_at_ == 0 || answered != answered_;
  silent_ = is_heard ? 0 : silent_ + std::min(now - looked_at_, kLongestLook);
  answered_ = answered;
  looked_at_ = waits ? now : 0;
  if (is_heard) way_.reset();
  if (settled_) return {};
  const double beyond = silent_ - std::min(info.tcpi_rtt * 1e-6, kLongestAnswer);
  return beyond <= 0 ? Silence{kJustNow} : Silence{beyond, way_.ask(beyond)};
}

// Bytes in the socket are those that the kernel over there has not acknowledged. Where none of them are under way, it
// has no room for them.
monitor::PathView Connection::look() {
  monitor::PathView view;
  view.delivered = written_;
  if (!socket_) return view;
  int unacknowledged = 0;
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::ioctl(socket_.get(), SIOCOUTQ, &unacknowledged) != 0 ||
      ::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0)
    return view;
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
    took(received);
  }
  if (write_error_ && !failure_ && (drained || --last_passes_ == 0)) break_off(*write_error_);
  if (moved != 0) count(poller_->counters().bytes_received, moved);
  if (moved != 0 && socket_ && !failure_) answer_reads();
  if (moved != 0 && socket_ && !failure_) owner_.pause(*this, !incoming_ && buffer_begin_ == buffer_end_);
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

// Into the payload that is being read, then into the buffer; the buffer is empty while a payload is incomplete.
std::size_t Connection::read_some(std::size_t& asked) {
  iovec parts[2];
  int used = 0;
  if (missing_ != 0)
    parts[used++] = landing_ != nullptr ? iovec{landing_, missing_} : iovec{bin(), std::min(missing_, kBin)};
  if (missing_ == 0 || parts[0].iov_len == missing_) {
    const std::size_t space = kBuffer - buffer_end_;
    parts[used++] = {buffer_.data() + buffer_end_, missing_ == 0 ? space : std::min(space, kReadAhead)};
  }
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

void Connection::took(std::size_t bytes) {
  const std::size_t of_payload = std::min(bytes, missing_);
  if (landing_ != nullptr) landing_ += of_payload;
  missing_ -= of_payload;
  buffer_end_ += bytes - of_payload;
  if (missing_ == 0 && incoming_ && !complete_frame()) return;
  while (parse_buffer()) {
  }
  if (buffer_begin_ == buffer_end_) buffer_begin_ = buffer_end_ = 0;
  if (buffer_begin_ != 0) {
    std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, buffer_end_ - buffer_begin_);
    buffer_end_ -= buffer_begin_;
    buffer_begin_ = 0;
  }
}

// Takes one frame, or the part of it that is here, from the buffer. False: nothing more can be taken.
bool Connection::parse_buffer() {
  if (!socket_ || failure_ || incoming_ || buffer_end_ - buffer_begin_ < kFrameHeaderBytes) return false;
  if (!begin_frame()) return false;
  const std::size_t here = std::min(missing_, buffer_end_ - buffer_begin_);
  if (landing_ != nullptr && here != 0) {
    std::memcpy(landing_, buffer_.data() + buffer_begin_, here);
    landing_ += here;
  }
  buffer_begin_ += here;
  missing_ -= here;
  return missing_ == 0 && complete_frame();
}

bool Connection::begin_frame() {
  const auto header =
      parse_frame(std::span<const std::byte, kFrameHeaderBytes>(buffer_.data() + buffer_begin_, kFrameHeaderBytes));
  if (!header) {
    break_off(header.error());
    return false;
  }
  buffer_begin_ += kFrameHeaderBytes;
  if (header->epoch != epoch()) {
    break_off(fail(ErrorCode::refused, fmt::format("a frame of incarnation {} on incarnation {} of a lane from {}",
                                                   header->epoch, epoch(), name_))
                  .value());
    return false;
  }
  missing_ = header->bytes;
  landing_ = nullptr;
  incoming_ = *header;
  if (header->type == FrameType::bye) return true;
  const auto place = owner_.begin(*this, *header);
  if (!place) {
    break_off(place.error());
    return false;
  }
  landing_ = *place;
  return true;
}

bool Connection::complete_frame() {
  const FrameHeader header = *incoming_;
  incoming_.reset();
  landing_ = nullptr;
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
