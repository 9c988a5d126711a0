// A network of socket pairs, for tests. Hosts are addresses; whoever listens is told by a byte in a socket pair, and a
// connection is a socket pair of which each side gets an end. Nothing leaves the process, and nothing takes time.
// Connections can be kept unanswered, and cut after some bytes. Any thread.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/sockets.hpp"

namespace tutti {

class SocketPairNetwork {
 public:
  /// Connections to the address get no answer until answer().
  void silence(const SocketAddress& address) {
    const std::lock_guard lock(mutex_);
    silent_[address.to_string()];
  }
  /// All that were begun meanwhile are made, or refused if nobody listens.
  void answer(const SocketAddress& address) {
    const std::lock_guard lock(mutex_);
    const auto begun = silent_.extract(address.to_string());
    for (Begun& each : begun.mapped()) {
      std::array<char, 4096> filling;
      while (::recv(each.theirs.get(), filling.data(), filling.size(), 0) > 0) {
      }
      hand_over(address.to_string(), std::move(each));
    }
  }
  /// The next connection passes so many bytes, both ways together, and is reset when there are more.
  void cut_next_after(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    cut_next_after_ = bytes;
  }
  /// The next accept() fails, as it does when descriptors run out.
  void fail_next_accept() {
    const std::lock_guard lock(mutex_);
    fails_next_accept_ = true;
  }
  /// Passes on what waits in connections that will be cut. To be called until they have what they wait for.
  void deliver() {
    const std::lock_guard lock(mutex_);
    std::erase_if(wires_, [](Wire& wire) { return !move(wire, 0) || !move(wire, 1); });
  }
  int connections() const {
    const std::lock_guard lock(mutex_);
    return connections_;
  }

 private:
  friend class FakeSockets;
  using Ends = std::array<Fd, 2>;
  struct Begun {
    int descriptor;  // of who connects
    Fd theirs;
    SocketAddress from;
  };
  struct Listener {
    int descriptor;  // of who listens
    Fd bell;
    std::deque<Accepted> waiting;
  };
  struct Wire {
    Ends ends;
    std::size_t left;
  };

  static Ends make_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    return {Fd(ends[0]), Fd(ends[1])};
  }

  // False: it is over. Closing an end in which something lies unread resets the other one.
  static bool move(Wire& wire, std::size_t from) {
    std::array<char, 4096> bytes;
    const int source = wire.ends[from].get();
    if (wire.left == 0) return ::recv(source, bytes.data(), 1, MSG_PEEK) < 0 && errno == EAGAIN;
    const ssize_t got = ::recv(source, bytes.data(), std::min(bytes.size(), wire.left), 0);
    if (got <= 0) return got < 0 && errno == EAGAIN;
    wire.left -= static_cast<std::size_t>(got);
    return ::send(wire.ends[1 - from].get(), bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
  }

  Fd connect(const std::string& to, const SocketAddress& from) {
    const std::lock_guard lock(mutex_);
    Ends ends = make_pair();
    Begun begun{ends[0].get(), std::move(ends[1]), from};
    const auto silent = silent_.find(to);
    if (silent == silent_.end()) {
      hand_over(to, std::move(begun));
      return std::move(ends[0]);
    }
    // Full, it is not writable: it is not connected yet.
    const std::array<char, 4096> filling{};
    while (::send(begun.descriptor, filling.data(), filling.size(), MSG_NOSIGNAL) > 0) {
    }
    silent->second.push_back(std::move(begun));
    return std::move(ends[0]);
  }

  void hand_over(const std::string& to, Begun begun) {
    const auto found = listeners_.find(to);
    const char one = 1;
    const bool is_heard = found != listeners_.end() && ::send(found->second.bell.get(), &one, 1, MSG_NOSIGNAL) == 1;
    results_[begun.descriptor] = is_heard ? 0 : ECONNREFUSED;
    if (!is_heard) return;
    ++connections_;
    if (cut_next_after_) {
      Ends far = make_pair();
      wires_.push_back({{std::move(begun.theirs), std::move(far[0])}, *std::exchange(cut_next_after_, std::nullopt)});
      begun.theirs = std::move(far[1]);
    }
    found->second.waiting.push_back({std::move(begun.theirs), begun.from});
  }

  Fd listen(const std::string& at) {
    const std::lock_guard lock(mutex_);
    Ends ends = make_pair();
    listeners_.insert_or_assign(at, Listener{ends[0].get(), std::move(ends[1]), {}});
    return std::move(ends[0]);
  }

  Result<std::optional<Accepted>> accept(int descriptor) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(fails_next_accept_, false)) return fail(ErrorCode::system, "accepting: no descriptor is left");
    char rung;
    if (::recv(descriptor, &rung, 1, 0) != 1) return std::optional<Accepted>();
    for (auto& [at, listener] : listeners_) {
      if (listener.descriptor != descriptor || listener.waiting.empty()) continue;
      Accepted accepted = std::move(listener.waiting.front());
      listener.waiting.pop_front();
      return std::optional(std::move(accepted));
    }
    return std::optional<Accepted>();
  }

  int result(int descriptor) {
    const std::lock_guard lock(mutex_);
    return results_.at(descriptor);
  }
  int next_number() {
    const std::lock_guard lock(mutex_);
    return next_number_++;
  }

  mutable std::mutex mutex_;
  std::map<std::string, Listener> listeners_;  // by address or path
  std::map<std::string, std::vector<Begun>> silent_;
  std::map<int, int> results_;  // errno of each descriptor that was connected
  std::vector<Wire> wires_;
  std::optional<std::size_t> cut_next_after_;
  bool fails_next_accept_ = false;
  int connections_ = 0;
  int next_number_ = 20000;
};

/// The sockets of one host in such a network.
class FakeSockets final : public Sockets {
 public:
  /// `host`: its address, such as "10.0.0.1".
  FakeSockets(SocketPairNetwork& network, const std::string& host)
      : network_(network), host_(SocketAddress::parse(host + ":0").value()) {}

  Result<Fd> connect(const SocketAddress& remote, const SocketAddress*) override {
    return network_.connect(remote.to_string(), host_.with_port(new_port()));
  }
  int connect_result(int descriptor) override { return network_.result(descriptor); }
  Result<Fd> connect_local(const std::string& path) override {
    SocketAddress from;
    from.storage.ss_family = AF_UNIX;
    Fd socket = network_.connect(path, from);
    if (network_.result(socket.get()) != 0) return fail(ErrorCode::system, "connecting to " + path);
    return socket;
  }

  Result<Listening> listen(const SocketAddress& address) override {
    const std::uint16_t port = address.port() != 0 ? address.port() : new_port();
    return Listening{network_.listen(host_.with_port(port).to_string()), address.with_port(port)};
  }
  Result<LocalListener> listen_locally(const ProcessId&) override {
    const std::string path = "/fake/" + std::to_string(network_.next_number());
    return LocalListener(path, network_.listen(path));
  }
  Result<std::optional<Accepted>> accept(int listener) override { return network_.accept(listener); }

  Result<std::vector<SocketAddress>> resolve(const std::string& host, std::uint16_t port, Deadline) override {
    auto address = SocketAddress::parse(host + ":" + std::to_string(port));
    if (!address) return tl::unexpected(address.error());
    return std::vector{*address};
  }
  Result<std::vector<Interface>> interfaces() override {
    return std::vector{Interface{"fake0", {host_}, true, true, false, -1, 0}};
  }
  std::vector<OwnAddress> own_addresses() override { return {{host_, 24}}; }

 private:
  std::uint16_t new_port() { return static_cast<std::uint16_t>(network_.next_number()); }

  SocketPairNetwork& network_;
  SocketAddress host_;
};

}  // namespace tutti
