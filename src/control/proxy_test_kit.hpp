// A rail that a test can break: a TCP proxy with one thread, in front of one address.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "net/socket.hpp"

namespace tutti::testing_support {

class Proxy {
 public:
  /// Listens at a port of `at`, which is a loopback address.
  explicit Proxy(const SocketAddress& at) {
    auto listener = listen_on(at);
    if (!listener) std::abort();
    listener_ = std::move(*listener);
    address_ = local_address(listener_.get()).value();
    thread_ = std::thread([this] { run(); });
  }
  ~Proxy() {
    stopped_ = true;
    thread_.join();
  }
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  const SocketAddress& address() const { return address_; }
  void lead_to(const SocketAddress& target) {
    const std::lock_guard lock(mutex_);
    target_ = target;
  }
  /// Carries nothing more, on connections that are and will be, and tells nobody; or again.
  void set_silent(bool silent) { silent_ = silent; }
  /// Resets all connections. New ones are let through.
  void cut() {
    const std::lock_guard lock(mutex_);
    for (Pipe& pipe : pipes_)
      for (const Fd* end : {&pipe.near, &pipe.far}) reset(end->get());
    pipes_.clear();
  }
  /// Resets all connections, and lets nobody in any more, as a firewall that rejects.
  void refuse() {
    const std::lock_guard lock(mutex_);
    for (Pipe& pipe : pipes_)
      for (const Fd* end : {&pipe.near, &pipe.far}) reset(end->get());
    pipes_.clear();
    listener_.reset();
  }
  int carried() const { return carried_; }  // connections, so far

 private:
  struct Pipe {
    Fd near;
    Fd far;
  };

  static void reset(int descriptor) {
    const linger at_once{1, 0};
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  }

  void run() {
    while (!stopped_) {
      std::vector<pollfd> waits;
      {
        const std::lock_guard lock(mutex_);
        waits.push_back({listener_.get(), POLLIN, 0});  // once it is closed, poll() passes over it
        for (const Pipe& pipe : pipes_)
          for (const Fd* end : {&pipe.near, &pipe.far}) waits.push_back({end->get(), POLLIN, 0});
      }
      // Ends that nobody reads while the rail is silent would wake it again and again.
      poll(waits.data(), silent_ ? 1 : waits.size(), 5);
      const std::lock_guard lock(mutex_);
      take_in();
      if (silent_) continue;
      pipes_.remove_if([](const Pipe& pipe) {
        return !pass(pipe.near.get(), pipe.far.get()) || !pass(pipe.far.get(), pipe.near.get());
      });
    }
  }

  void take_in() {
    while (listener_) {
      auto accepted = accept_one(listener_.get());
      if (!accepted || !*accepted) return;
      auto far = connect_once(target_, Deadline::in(5));
      if (!far) continue;  // closes the near end
      pipes_.push_back({std::move((*accepted)->connection), std::move(*far)});
      ++carried_;
    }
  }

  static bool pass(int from, int to) {
    std::array<std::byte, 4096> bytes;
    const auto got = recv_some(from, bytes);
    if (!got) return false;
    return static_cast<bool>(send_all(to, std::span(bytes).first(*got), Deadline::in(5)));
  }

  SocketAddress address_;
  Fd listener_;
  std::mutex mutex_;
  SocketAddress target_;
  std::list<Pipe> pipes_;
  std::atomic<bool> silent_ = false;
  std::atomic<bool> stopped_ = false;
  std::atomic<int> carried_ = 0;
  std::thread thread_;
};

}  // namespace tutti::testing_support
