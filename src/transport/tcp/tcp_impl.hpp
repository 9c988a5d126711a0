// The inside of a Tcp: brings lanes to its peers up and gives them up (tcp_lanes.cc), and has them driven (tcp.cc). Its
// parts: PeerTable has the peers, WatchedConnections the lanes in use, DrivingCallers those who drive them.
// LaneConnector is the transport's thread, and calls the functions of its Delegate; the rest is for any thread.
//
// The mutexes of PeerTable and WatchedConnections, and its own, are leaves: whoever holds the mutex of a peer may take
// one of them, and whoever holds one of them takes no other.
#pragma once

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "transport/peer.hpp"
#include "transport/tcp/connection.hpp"
#include "transport/tcp/driving_callers.hpp"
#include "transport/tcp/lane_connector.hpp"
#include "transport/tcp/listening_ports.hpp"
#include "transport/tcp/peer_table.hpp"
#include "transport/tcp/ports.hpp"
#include "transport/tcp/tcp.hpp"
#include "transport/tcp/watched_connections.hpp"

namespace tutti {

class Tcp::Impl final : public LaneConnector::Delegate {
 public:
  Impl(const std::string& secret, TcpOptions options)
      : options_(std::move(options)),
        key_(secret, options_.job),
        poller_(std::make_shared<Poller>()),
        process_(::getpid()) {}
  ~Impl() override;

  Status listen(bool has_secret);

  /// The peer at the other end of a link; dialed when it is first asked for, where dialing is on us.
  std::shared_ptr<Peer> peer_for(const Endpoint& endpoint, bool sends);
  /// Returns null if there is none.
  std::shared_ptr<Peer> find(const ProcessId& id) const { return peers_.find(id); }

  bool progress();
  void wait(std::chrono::microseconds at_most);
  void wake() { callers_.wake(); }
  void close_peer(const ProcessId& peer, const Error& why);

  void on_accepted(Fd socket, const LaneGreeting& greeting) override;
  LaneConnector::Reception judge(const LaneGreeting& hello) override;
  std::vector<Route> forward_routes(const LaneGreeting& hello, bool came_locally) override {
    return book_.forward_routes(book_.number_of(hello.from), book_.number_of(hello.to), came_locally);
  }
  void on_dialed(Fd socket, const Dial& dial) override;
  void on_dial_failed(const Dial& dial, const Error& why, DialFailure kind) override;
  void on_ports_changed() override;
  void on_dropped() override { count(poller_->counters().strangers, 1); }
  bool is_driven() override { return callers_.is_driven(); }
  void drive() override { drive_ready(); }
  double tick() override;

  Endpoint endpoint() const { return listening_.endpoint(); }
  void set_processes(std::vector<AddressBook::Process> all) { book_.set_processes(std::move(all), id_); }
  void on_move(std::function<void(const Endpoint&)> moved);
  void update(const Endpoint& endpoint);
  TcpCounters counters() const { return poller_->read_counters(); }

 private:
  int source_ports() const {
    return options_.source_ports.first == 0 ? 0 : options_.source_ports.last - options_.source_ports.first + 1;
  }
  bool drive_ready();
  void check_overdue();
  /// `rails`: the ports of whichever of the two is dialed.
  std::shared_ptr<Peer> find_or_make(const PeerKey& key, const std::string& name, std::size_t rails);
  void dial(const PeerKey& key, const WantedLane& lane);
  void give_up_lanes(const Ports::Change& lost);
  void try_again();
  void open_new_ports();
  void take_lane(Fd socket, std::uint32_t lane, std::uint32_t epoch, const std::shared_ptr<Peer>& peer,
                 WayProbe::Target listens);
  void await_acknowledgements();
  void farewell();

  TcpOptions options_;
  JobKey key_;
  const ProcessId id_ = ProcessId::random();
  ListeningPorts listening_{id_, *options_.sockets};
  AddressBook book_{[this] { return listening_.sources(); }};
  std::shared_ptr<Poller> poller_;
  pid_t process_;

  std::mutex mutex_;  // of moved_
  std::function<void(const Endpoint&)> moved_;
  PeerTable peers_{id_};
  WatchedConnections connections_{poller_};
  DrivingCallers callers_;
  std::atomic<std::uint64_t> overdue_checked_{0};  // ticks, when check_overdue() last looked

  Ports ports_{*options_.sockets};  // the thread's
  bool stopping_ = false;           // there is no thread any more
  std::shared_ptr<NextLook> next_look_ = std::make_shared<NextLook>();
  std::unique_ptr<LaneConnector> connector_;
};

}  // namespace tutti
