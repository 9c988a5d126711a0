// What tests of Tcp have in common: two transports in one process, a link between them, and data passed over it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/wire.hpp"
#include "net/socket.hpp"
#include "transport/frame.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {

inline constexpr OperationTag kTag{7, 0xabcd};
// The process with the lower id dials.
inline constexpr ProcessId kLowest{0, 1};
inline constexpr ProcessId kHighest{~std::uint64_t{0}, ~std::uint64_t{0}};
inline const std::string kSecret = "the secret of this job";

inline std::shared_ptr<Tcp> start(const std::string& secret = kSecret, TcpOptions options = {}) {
  if (options.listen.empty()) options.listen = {SocketAddress::loopback()};
  auto tcp = Tcp::start(secret, options);
  EXPECT_TRUE(tcp.has_value()) << (tcp ? "" : tcp.error().message);
  return tcp ? *tcp : nullptr;
}

inline std::vector<std::byte> pattern(std::size_t bytes, unsigned seed) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 31 + i / 251 + seed) & 0xff);
  return data;
}

inline FrameHeader data_header(const LinkId& link, std::uint64_t sequence, std::size_t bytes) {
  FrameHeader header;
  header.link = link;
  header.sequence = sequence;
  header.bytes = static_cast<std::uint32_t>(bytes);
  return header;
}

// What the ends of a lane say first goes after its length; see net/pending_connection.hpp.
inline void send_greeting(int socket, const LaneGreeting& greeting) {
  WireWriter out;
  out.put_bytes(encode(greeting));
  EXPECT_TRUE(send_all(socket, out.take(), Deadline::in(10)));
}

inline Result<LaneGreeting> recv_greeting(int socket) {
  std::vector<std::byte> bytes(sizeof(std::uint32_t) + kFrameHeaderBytes);
  if (auto received = recv_all(socket, bytes, Deadline::in(10)); !received) return tl::unexpected(received.error());
  return parse_greeting(std::span<const std::byte>(bytes).last<kFrameHeaderBytes>());
}

// Two processes in one: A sends, B receives.
struct Pair {
  std::shared_ptr<Tcp> a;
  std::shared_ptr<Tcp> b;

  Pair(std::shared_ptr<Tcp> sender, std::shared_ptr<Tcp> receiver) : a(std::move(sender)), b(std::move(receiver)) {}
  explicit Pair(TcpOptions options = {}) : a(start(kSecret, options)), b(start(kSecret, options)) {}

  // Drives both until `done` or ten seconds are over.
  bool until(const std::function<bool()>& done) const {
    const Deadline deadline = Deadline::in(10);
    while (!done()) {
      if (deadline.passed()) return false;
      const bool moved = (a && a->progress()) | (b && b->progress());
      if (!moved) std::this_thread::yield();
    }
    return true;
  }
};

struct Ends {
  std::unique_ptr<SendLink> send;
  std::unique_ptr<RecvLink> recv;
};

inline Ends open(const Pair& pair, std::uint32_t channel = 0) {
  const LinkId id{0x1234, 0, 1, channel};
  return {pair.a->open_send(pair.b->endpoint(), id), pair.b->open_recv(pair.a->endpoint(), id)};
}

// Sends `data` in chunks of `chunk` bytes, and returns what arrived, through landings or staging.
inline std::vector<std::byte> pass(const Pair& pair, Ends& ends, const std::vector<std::byte>& data, std::size_t chunk,
                                   bool land) {
  std::vector<std::byte> received(data.size());
  const std::size_t chunks = (data.size() + chunk - 1) / chunk;
  const auto size_of = [&](std::size_t i) { return std::min(chunk, data.size() - i * chunk); };
  for (std::size_t i = 0; i < chunks; ++i)
    ends.recv->expect(land ? received.data() + i * chunk : nullptr, size_of(i), kTag);
  std::size_t sent = 0;
  std::size_t taken = 0;
  const std::uint64_t before = ends.send->sent();
  EXPECT_TRUE(pair.until([&] {
    while (sent < chunks && ends.send->send(data.data() + sent * chunk, size_of(sent), kTag)) ++sent;
    while (const auto arrival = ends.recv->poll()) {
      if (arrival->data == nullptr) return true;
      if (!land) std::memcpy(received.data() + taken * chunk, arrival->data, arrival->bytes);
      EXPECT_EQ(arrival->tag, kTag);
      ends.recv->release();
      ++taken;
    }
    return taken == chunks && ends.send->released() == before + chunks;
  }));
  return received;
}

}  // namespace tutti
