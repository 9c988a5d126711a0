// Measures TCP links between two processes: a ping-pong of 8 bytes beside the same over a bare socket, and a one-way
// stream. Both sides share a folder through which they find each other.
//
//   tcp_probe ping FOLDER ADDRESS [megabytes] [chunk_kilobytes] [lanes]     prints one line per figure
//   tcp_probe pong FOLDER ADDRESS [megabytes] [chunk_kilobytes] [lanes]
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "transport/tcp/tcp.hpp"

using namespace tutti;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int kBatches = 40;           // of which the best counts: other work on the cores only ever adds
constexpr int kRounds = 100;           // in a batch
constexpr std::size_t kInFlight = 32;  // landings announced ahead in the stream
constexpr OperationTag kTag{1, 1};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

[[noreturn]] void die(const std::string& why) {
  fmt::print(stderr, "tcp_probe: {}\n", why);
  std::exit(1);
}

template <typename T>
T must(Result<T> result) {
  if (!result) die(result.error().message);
  return std::move(*result);
}

void publish(const std::string& path, const std::string& line) {
  std::ofstream(path + ".new") << line << "\n";
  std::rename((path + ".new").c_str(), path.c_str());
}

std::string await(const std::string& path) {
  for (const Deadline deadline = Deadline::in(20); !deadline.passed(); ::usleep(1000)) {
    std::ifstream file(path);
    std::string line;
    if (std::getline(file, line)) return line;
  }
  die("nothing came at " + path);
}

// Spins for a while, then lets others run: the two sides may share a core.
class Spinner {
 public:
  void nothing_moved() {
    if (++spins_ > 500) std::this_thread::yield();
  }

 private:
  int spins_ = 0;
};

void send_one(Tcp& tcp, SendLink& link, const std::byte* data, std::size_t bytes) {
  for (Spinner spinner; !link.send(data, bytes, kTag);) {
    if (link.error() != nullptr) die(link.error()->message);
    if (!tcp.progress()) spinner.nothing_moved();
  }
}

void take_one(Tcp& tcp, RecvLink& link) {
  for (Spinner spinner; !link.poll();) {
    if (link.error() != nullptr) die(link.error()->message);
    if (!tcp.progress()) spinner.nothing_moved();
  }
  link.release();
}

// Microseconds one way.
template <typename Round>
double best_batch(Round round) {
  double best = 1e9;
  for (int batch = 0; batch < kBatches; ++batch) {
    const auto start = Clock::now();
    for (int i = 0; i < kRounds; ++i) round();
    best = std::min(best, seconds_since(start) / kRounds / 2 * 1e6);
  }
  return best;
}

double ping_pong(Tcp& tcp, SendLink& send, RecvLink& recv, bool first) {
  std::uint64_t out = 0;
  std::uint64_t in = 0;
  return best_batch([&] {
    recv.expect(reinterpret_cast<std::byte*>(&in), sizeof in, kTag);
    if (first) send_one(tcp, send, reinterpret_cast<std::byte*>(&out), sizeof out);
    take_one(tcp, recv);
    if (!first) send_one(tcp, send, reinterpret_cast<std::byte*>(&out), sizeof out);
  });
}

double bare_ping_pong(int socket, bool first) {
  std::byte message[8]{};
  const auto send = [&] { must<std::size_t>(send_some(socket, message)); };
  const auto receive = [&] {
    Spinner spinner;
    for (std::size_t got = 0; got < sizeof message; spinner.nothing_moved())
      got += must<std::size_t>(recv_some(socket, std::span(message).subspan(got)));
  };
  return best_batch([&] {
    if (first) send();
    receive();
    if (!first) send();
  });
}

void stream_out(Tcp& tcp, SendLink& link, std::size_t total) {
  const std::vector<std::byte> data(16 << 20);
  const std::size_t chunk = link.chunk_limit();
  for (std::size_t sent = 0; sent < total; sent += chunk) send_one(tcp, link, data.data() + sent % data.size(), chunk);
  for (Spinner spinner; link.released() != link.sent();)
    if (!tcp.progress()) spinner.nothing_moved();
}

double stream_in(Tcp& tcp, RecvLink& link, std::size_t total) {
  std::vector<std::byte> landing(16 << 20);
  const std::size_t chunk = link.chunk_limit();
  std::size_t expected = 0;
  Clock::time_point start;
  for (std::size_t taken = 0; taken < total; taken += chunk) {
    for (; expected < total && expected < taken + kInFlight * chunk; expected += chunk)
      link.expect(landing.data() + expected % landing.size(), chunk, kTag);
    take_one(tcp, link);
    if (taken == 0) start = Clock::now();
  }
  return static_cast<double>(total - chunk) / seconds_since(start) / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) die("usage: tcp_probe ping|pong FOLDER ADDRESS [megabytes] [chunk_kilobytes] [lanes]");
  const bool first = std::string(argv[1]) == "ping";
  const std::string folder = argv[2];
  const auto number = [&](int index, std::size_t fallback) {
    return argc > index ? static_cast<std::size_t>(std::atoll(argv[index])) : fallback;
  };
  const std::string own = folder + (first ? "/ping" : "/pong");
  const std::string other = folder + (first ? "/pong" : "/ping");
  const SocketAddress address = must(SocketAddress::parse(std::string(argv[3]) + ":0"));

  TcpOptions options;
  options.listen = {address};
  options.limits.chunk_limit = number(5, options.limits.chunk_limit >> 10) << 10;
  options.limits.window = std::max(options.limits.window, 4 * options.limits.chunk_limit);
  options.lanes = static_cast<int>(number(6, 0));
  const std::size_t chunks = (number(4, 4000) << 20) / options.limits.chunk_limit;
  const std::size_t total = chunks * options.limits.chunk_limit;

  const auto tcp = must(Tcp::start("probe", options));
  publish(own, tcp->endpoint().to_string());
  const Endpoint peer = must(Endpoint::parse(await(other)));
  const auto send = tcp->open_send(peer, {1, first ? 0u : 1u, first ? 1u : 0u, 0});
  const auto recv = tcp->open_recv(peer, {1, first ? 1u : 0u, first ? 0u : 1u, 0});

  Fd bare;
  if (first) {
    const auto target = must(SocketAddress::parse(await(other + ".bare")));
    bare = must(connect_to(target, Deadline::in(20)));
  } else {
    const Fd listener = must(listen_on(address));
    publish(own + ".bare", must(local_address(listener.get())).to_string());
    bare = must(accept_before(listener.get(), Deadline::in(20))).connection;
  }

  ping_pong(*tcp, *send, *recv, first);
  for (int round = 0; round < 3; ++round) {
    const double bare_us = bare_ping_pong(bare.get(), first);
    const double link_us = ping_pong(*tcp, *send, *recv, first);
    if (first) fmt::print("one_way_us bare {:.2f} link {:.2f}\n", bare_us, link_us);
  }
  // Pong sends, so that ping, which prints, knows the rate.
  for (int round = 0; round < 3; ++round) {
    if (!first) stream_out(*tcp, *send, total);
    if (first) fmt::print("stream_GBps {:.3f}\n", stream_in(*tcp, *recv, total));
  }
  // Each waits for the other before it leaves.
  ping_pong(*tcp, *send, *recv, first);
  return 0;
}
