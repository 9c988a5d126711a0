// The inside of a Tcp: its peers and their lanes (tcp_lanes.cc), and who drives them (tcp.cc).
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/peer.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/lane_connector.hpp"
#include "transport/tcp/listening_ports.hpp"
#include "transport/tcp/ports.hpp"
#include "transport/tcp/tcp.hpp"

namespace tutti {

class Tcp::Impl final : public LaneConnector::Delegate {
 public:
  Impl(const std::string& secret, TcpOptions options)
      : options_(std::move(options)),
        key_(secret, options_.job),
        poller_(std::make_shared<Poller>()),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        process_(::getpid()) {}
  ~Impl() override;

  Status listen(bool has_secret);

  /// The peer at the other end of a link; dialed when it is first asked for, where dialing is on us.
  std::shared_ptr<Peer> peer_for(const Endpoint& endpoint, bool sends);

  bool progress();
  void wait(std::chrono::microseconds at_most);
  void wake();
  void close_peer(const ProcessId& peer, const Error& why);

  void on_accepted(Fd socket, const LaneGreeting& greeting) override;
  LaneConnector::Verdict judge(const LaneGreeting& hello) override;
  std::vector<Route> forward_routes(const LaneGreeting& hello, bool came_locally) override {
    return book_.forward_routes(book_.number_of(hello.from), book_.number_of(hello.to), came_locally);
  }
  void on_dialed(Fd socket, const Dial& dial) override;
  void on_dial_failed(const Dial& dial, const Error& why, DialFailure kind) override;
  void on_ports_changed() override;
  void on_dropped() override { count(poller_->counters().strangers, 1); }
  bool is_driven() override;
  void drive() override { drive_ready(); }
  double tick() override;

  bool has_failed(const ProcessId& peer);
  bool has_delivered(const ProcessId& peer, std::uint64_t communicator);
  std::string describe_lanes(const ProcessId& peer);
  Endpoint endpoint() const { return listening_.endpoint(); }
  void set_processes(std::vector<AddressBook::Process> all) { book_.set_processes(std::move(all), id_); }
  void on_move(std::function<void(const Endpoint&)> moved);
  void update(const Endpoint& endpoint);
  TcpCounters counters() const { return poller_->read_counters(); }

 private:
  /// A process and which end we are of a connection to ourselves; otherwise false.
  using PeerKey = std::pair<ProcessId, bool>;
  struct Watched {
    std::shared_ptr<Connection> connection;
    std::shared_ptr<Peer> peer;
  };
  struct Known {
    std::shared_ptr<Peer> peer;
    std::vector<SocketAddress> addresses;  // to dial; empty: it dials us
    std::vector<SocketAddress> listens;    // where it does, as far as we were told
  };

  int source_ports() const {
    return options_.source_ports.first == 0 ? 0 : options_.source_ports.last - options_.source_ports.first + 1;
  }
  bool drive_ready();
  void glance();
  void drop_removed();
  bool drive_one(std::uint64_t id, std::uint32_t events);
  void watch(const std::shared_ptr<Connection>& connection, std::shared_ptr<Peer> peer);
  /// `rails`: the ports of whichever of the two is dialed.
  Known& find_or_make(const PeerKey& key, const std::string& name, std::size_t rails);
  std::shared_ptr<Peer> find(const ProcessId& id);
  void dial(const PeerKey& key, const WantedLane& lane);
  void give_up_lanes(const Ports::Change& lost);
  void try_again();
  void open_new_ports();
  void take_lane(Fd socket, std::uint32_t lane, std::uint32_t epoch, const std::shared_ptr<Peer>& peer,
                 WayProbe::Target listens);
  /// Where a process listens at this address; none: not known.
  std::optional<SocketAddress> listens_at(const ProcessId& process, const SocketAddress& address);
  void await_acknowledgements();
  void farewell();

  TcpOptions options_;
  JobKey key_;
  const ProcessId id_ = ProcessId::random();
  ListeningPorts listening_{id_, *options_.sockets};
  AddressBook book_{[this] { return listening_.sources(); }};
  std::shared_ptr<Poller> poller_;
  Fd wake_;
  pid_t process_;

  // A leaf: nothing is called and no other mutex taken while it is held.
  std::mutex mutex_;
  std::function<void(const Endpoint&)> moved_;
  std::map<PeerKey, Known> peers_;
  std::unordered_map<std::uint64_t, Watched> watched_;

  std::atomic<std::uint64_t> drives_{0};
  std::atomic<std::uint64_t> turns_{0};    // of progress()
  std::atomic<std::uint64_t> hot_{0};      // the connection that last brought something
  std::atomic<std::uint64_t> glanced_{0};  // ticks, when chunks that are overdue were last looked at
  std::uint64_t drives_seen_ = 0;          // by the thread
  std::atomic<int> sleepers_{0};
  Ports ports_{*options_.sockets};  // the thread's
  bool stopping_ = false;           // there is no thread any more
  std::shared_ptr<NextLook> next_look_ = std::make_shared<NextLook>();
  std::unique_ptr<LaneConnector> connector_;
};

}  // namespace tutti
