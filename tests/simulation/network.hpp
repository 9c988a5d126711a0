// A simulated network: hosts with a port on each of several rails, and TCP between them.
//
// Each direction between two hosts on a rail can be cut, slowed down and delayed by itself. What is sent while it is
// cut is lost, and sent again later, as TCP does: a cut is silent unless a port is taken down, which its own host hears
// of. TCP here has a send and a receive buffer, a window, acknowledgements, retransmission with a growing pause,
// resets, half-closed connections, keepalive and the user time-out, since the code under test looks at all of them.
#pragma once

#include <netinet/in.h>
#include <sys/un.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernel.hpp"

struct tcp_info;

namespace tutti::simulated {

/// Where a socket is: a host's address on a rail, or a path of a host's own (rail -1).
struct Address {
  int host = -1;
  int rail = -1;
  std::uint16_t port = 0;
  std::string path;
  auto operator<=>(const Address&) const = default;
};

class Socket;

/// One direction of a connection: what one end has sent, and what the other has of it.
struct Stream {
  std::string unacknowledged;  // from `acknowledged` on
  std::uint64_t acknowledged = 0;
  std::uint64_t sent = 0;  // up to here, at least once
  bool ends = false;       // nothing follows
  bool end_acknowledged = false;
  bool window_closed = false;
  int probes = 0;    // of a closed window, unanswered
  Time arrives = 0;  // the last that is under way
  std::uint64_t timer = 0;
  Time pause = 0;                // before it is sent again
  Time silent_since = kForever;  // nothing of what was sent was acknowledged since

  std::string inbox;
  std::size_t taken = 0;  // of the inbox
  std::uint64_t received = 0;
  bool ended = false;
  std::uint64_t total() const { return acknowledged + unacknowledged.size(); }
  std::size_t unread() const { return inbox.size() - taken; }
};

/// A connection. End 0 connected, end 1 was accepted.
struct Connection {
  Address address[2];
  Socket* socket[2] = {nullptr, nullptr};  // null: closed, or not accepted yet
  bool exists[2] = {false, false};         // the kernel of that host knows it
  Stream stream[2];                        // from end i
  bool made = false;
};

class Socket final : public File {
 public:
  enum class State : std::uint8_t { idle, listening, connecting, connected, broken };

  explicit Socket(int of) : domain(of) {}
  std::uint32_t ready() const override;
  void closed() override;

  int domain;
  State state = State::idle;
  Address address;
  bool bound = false;
  std::shared_ptr<Connection> connection;
  int end = 0;
  int error = 0;
  bool resets = false;  // when closed: SO_LINGER of 0
  bool cannot_send = false;
  Time user_timeout = 0;
  bool keepalive = false;
  Time keep_idle = 7200 * kSecond;
  Time keep_interval = 75 * kSecond;
  int keep_probes = 9;
  int unanswered = 0;  // keepalive probes
  Time heard = 0;
  std::deque<std::shared_ptr<Connection>> waiting;  // of a listener
};

/// Tells a process of changed ports.
class PortNews final : public File {
 public:
  std::uint32_t ready() const override;
  int messages = 0;
};

class Network {
 public:
  Network(Kernel& kernel, int hosts, int rails);
  static Network& get() { return *instance_; }

  int hosts() const { return hosts_; }
  int rails() const { return rails_; }

  // Faults:
  /// What `from` sends to `to` on the rail is lost, or arrives again.
  void cut(int from, int to, int rail, bool is_cut) { path(from, to, rail).cut = is_cut; }
  void slow_down(int from, int to, int rail, double factor) { path(from, to, rail).slowness = factor; }
  void delay(int from, int to, int rail, Time extra) { path(from, to, rail).extra = extra; }
  void set_port(int host, int rail, bool up);
  bool is_up(int host, int rail) const { return ports_up_[static_cast<std::size_t>(host * rails_ + rail)]; }
  void mend();
  /// Resets connections of a process: of all `share` of them, by chance. Returns how many.
  int reset_some(const Process& process, double share);

  // Calls:
  int bind(Socket& socket, Address address);
  int listen(Socket& socket);
  int connect(const std::shared_ptr<Socket>& socket, Address remote);
  std::shared_ptr<Socket> accept(Socket& listener);
  /// Bytes, or -errno.
  long send(Socket& socket, const char* bytes, std::size_t count);
  long receive(Socket& socket, char* bytes, std::size_t count, bool peek);
  void shut_down_sending(Socket& socket);
  void watch_keepalive(const std::shared_ptr<Socket>& socket);
  void fill(const Socket& socket, tcp_info& info) const;

  void close(Socket& socket);
  void add_listener_of_news(const std::shared_ptr<PortNews>& news, int host) { news_.push_back({news, host}); }

  static Address address_of(const sockaddr_in& address);
  static sockaddr_in raw(const Address& address);

  struct Counts {
    std::uint64_t connections = 0, resets = 0, lost = 0, refused = 0, timeouts = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  struct Path {
    bool cut = false;
    double slowness = 1;
    Time extra = 0;
  };
  using Link = std::shared_ptr<Connection>;

  Path& path(int from, int to, int rail) {
    return paths_[static_cast<std::size_t>((from * hosts_ + to) * rails_ + rail)];
  }
  bool passes(const Address& from, const Address& to);
  Time latency(const Address& from, const Address& to, std::size_t bytes);
  std::uint16_t free_port(int host);

  void begin_connecting(const std::weak_ptr<Socket>& socket, Link connection, Time pause);
  void syn_arrives(const Link& connection);
  void connected(const Link& connection);
  void enqueue(const Link& connection);
  void transmit(const Link& connection, int end);
  void start_timer(const Link& connection, int end);
  void timer_fires(const Link& connection, int end, std::uint64_t number);
  void arrives(const Link& connection, int end, std::uint64_t from, std::uint64_t to, bool last);
  void acknowledge(const Link& connection, int end);
  void acknowledged(const Link& connection, int end, std::uint64_t up_to, bool last, bool closed);
  void send_reset(const Link& connection, int end);
  void reset_arrives(const Link& connection, int end, int error);
  void keep_alive(const std::weak_ptr<Socket>& socket);

  static Network* instance_;
  Kernel& kernel_;
  int hosts_;
  int rails_;
  Time base_latency_;
  std::vector<Path> paths_;
  std::vector<bool> ports_up_;
  std::vector<std::uint16_t> next_port_;
  std::map<std::pair<int, std::uint16_t>, Socket*> listeners_;
  std::map<std::string, Socket*> local_listeners_;
  std::vector<std::weak_ptr<Connection>> connections_;
  std::vector<std::pair<std::weak_ptr<PortNews>, int>> news_;
  Counts counts_;
};

}  // namespace tutti::simulated
