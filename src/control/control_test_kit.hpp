// For tests of the control plane: worlds of several Controls in this process, and of real child processes.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/wire.hpp"
#include "control/control.hpp"

namespace tutti::testing_support {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

inline constexpr std::uint64_t kTopic = 7;

/// What handlers saw; tests wait for what they expect in it.
template <typename T>
class Record {
 public:
  void add(T item) {
    const std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_all();
  }
  /// True once `fits(items)`; false after `seconds`.
  bool wait(const std::function<bool(const std::vector<T>&)>& fits, double seconds = 20) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return fits(items_); });
  }
  bool wait_for_count(std::size_t count, double seconds = 20) {
    return wait([&](const auto& items) { return items.size() >= count; }, seconds);
  }
  std::vector<T> items() const {
    const std::lock_guard lock(mutex_);
    return items_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<T> items_;
};

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline ControlOptions on_loopback(std::string host = {}, double heartbeat_timeout = 0) {
  ControlOptions options;
  options.host = std::move(host);
  options.heartbeat_timeout = heartbeat_timeout;
  options.listen = {SocketAddress::loopback()};
  return options;
}

/// A child process with a Control of its own, that lives until it is killed or told to end.
class Child {
 public:
  /// `body` runs once it has joined; report() bytes reach the parent's next_report().
  using Body = std::function<void(Control&, const std::function<void(char)>& report)>;

  Child(ControlOptions options, Body body = {}) {
    int down[2];
    int up[2];
    if (::pipe(down) != 0 || ::pipe(up) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ < 0) std::abort();
    if (pid_ == 0) {
      ::close(down[1]);
      ::close(up[0]);
      run(options, body, down[0], up[1]);
      ::_exit(0);
    }
    ::close(down[0]);
    ::close(up[1]);
    to_ = down[1];
    from_ = up[0];
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(to_);
    ::close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  ControlPeer peer() {
    auto decoded = ControlPeer::decode(read_block(from_));
    EXPECT_TRUE(decoded);
    return decoded ? *decoded : ControlPeer{};
  }
  void tell_world(const std::vector<ControlPeer>& all, int self) {
    WireWriter out;
    out.put(self);
    out.put(static_cast<std::uint32_t>(all.size()));
    for (const ControlPeer& peer : all) out.put_bytes(peer.encode());
    write_block(to_, out.take());
  }
  void signal(int number) const { ::kill(pid_, number); }
  pid_t pid() const { return pid_; }
  char next_report() {
    char byte = 0;
    return ::read(from_, &byte, 1) == 1 ? byte : '\0';
  }
  /// Ends it in good order.
  void let_go() { write_block(to_, {}); }

 private:
  static void run(const ControlOptions& options, const Body& body, int from, int to) {
    auto control = Control::start("secret", options);
    if (!control) ::_exit(1);
    write_block(to, (*control)->self().encode());
    const auto bytes = read_block(from);
    WireReader in(bytes);
    const int self = in.get<int>();
    std::vector<ControlPeer> all(in.get<std::uint32_t>());
    for (ControlPeer& peer : all) peer = ControlPeer::decode(in.get_bytes()).value();
    if (!(*control)->join(all, self, Deadline::in(20))) ::_exit(2);
    if (body) body(**control, [to](char byte) { (void)!::write(to, &byte, 1); });
    read_block(from);
  }
  static void write_block(int descriptor, const std::vector<std::byte>& bytes) {
    WireWriter out;
    out.put_bytes(bytes);
    const auto block = out.take();
    (void)!::write(descriptor, block.data(), block.size());
  }
  static std::vector<std::byte> read_block(int descriptor) {
    std::uint32_t size = 0;
    if (::read(descriptor, &size, sizeof size) != sizeof size) return {};
    std::vector<std::byte> bytes(size);
    std::size_t got = 0;
    while (got < size) {
      const ssize_t now = ::read(descriptor, bytes.data() + got, size - got);
      if (now <= 0) return {};
      got += static_cast<std::size_t>(now);
    }
    return bytes;
  }

  pid_t pid_ = 0;
  int to_ = -1;
  int from_ = -1;
};

/// Controls of this process, first, and then children, joined into one world.
class Cast {
 public:
  using Message = std::pair<int, std::string>;  // from, text

  /// Children must have been made before: no thread may run when they fork.
  explicit Cast(int own, const std::vector<Child*>& children = {}, const ControlOptions& options = on_loopback()) {
    std::vector<ControlPeer> all;
    for (int process = 0; process < own; ++process) {
      ControlOptions each = options;
      each.id = ProcessId::random();
      auto control = Control::start("secret", each);
      EXPECT_TRUE(control) << control.error().message;
      all.push_back((*control)->self());
      controls.push_back(std::move(*control));
    }
    for (Child* child : children) all.push_back(child->peer());
    for (std::size_t at = 0; at < children.size(); ++at) children[at]->tell_world(all, own + static_cast<int>(at));
    std::vector<std::thread> joining;
    for (int process = 0; process < own; ++process)
      joining.emplace_back([&, process] {
        const Status joined = controls[process]->join(all, process, Deadline::in(20));
        EXPECT_TRUE(joined) << joined.error().message;
      });
    for (auto& thread : joining) thread.join();
    deaths = std::vector<Record<int>>(own);
    leaves = std::vector<Record<int>>(own);
    messages = std::vector<Record<Message>>(own);
    for (int process = 0; process < own; ++process) {
      controls[process]->on_death([this, process](int who, const Death&) { deaths[process].add(who); });
      controls[process]->on_leave([this, process](int who) { leaves[process].add(who); });
    }
  }
  ~Cast() {
    std::vector<std::thread> leaving;
    for (auto& control : controls)
      if (control) leaving.emplace_back([&control] { control.reset(); });
    for (auto& thread : leaving) thread.join();
  }
  Cast(const Cast&) = delete;
  Cast& operator=(const Cast&) = delete;

  void listen() {
    for (std::size_t process = 0; process < controls.size(); ++process)
      controls[process]->on_message(kTopic, [this, process](int from, std::span<const std::byte> bytes) {
        messages[process].add({from, text_of(bytes)});
      });
  }

  std::vector<Record<int>> deaths, leaves;
  std::vector<Record<Message>> messages;
  std::vector<std::unique_ptr<Control>> controls;
};

}  // namespace tutti::testing_support
