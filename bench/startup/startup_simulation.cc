// How long a job takes to start, event by event, on simulated hosts. Who says what to whom comes from the bootstrap
// code itself: requests and answers are those of bootstrap/wire.hpp, byte for byte, the store's book is Attendance, and
// control connections are those of overlay_neighbours(). Simulated are cores, the network and the clock.
//
//   startup_simulation RANKS RANKS_PER_HOST CORES PROCESS CONNECTION ENTRY [LATENCY BANDWIDTH FAN_OUT]
//
// Costs are seconds of a core, as bench/startup.py finds them in runs: PROCESS for each process, CONNECTION for each
// end of a connection, ENTRY for each rank in the table that a process gets. A host serves what its processes have to
// do in the order in which it comes up, on CORES cores; the store is one thread. LATENCY in seconds, BANDWIDTH in bytes
// per second of a host's port, between hosts only. With FAN_OUT the answer does not come from the store, but goes from
// host to host along a tree of that fan-out, once to each host; and the store is asked once by each host. The library
// does not do that: it shows what it would bring. Prints the seconds from the start to the end of the first barrier.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "bootstrap/attendance.hpp"
#include "bootstrap/wire.hpp"
#include "control/world/overlay.hpp"

namespace {

using tutti::Blob;

struct Setting {
  int ranks = 0;
  int ranks_per_host = 1;
  int cores = 1;
  double process = 0, connection = 0, entry = 0;
  double latency = 50e-6, bandwidth = 12.5e9;
  int fan_out = 0;  // 0: the store answers every rank itself
};

constexpr std::size_t kBlobBytes = 421;  // what a rank brings, with two addresses

/// Calls things at simulated times.
class Clock {
 public:
  double now() const { return now_; }
  void at(double time, std::function<void()> what) { events_.push({time, order_++, std::move(what)}); }
  void run() {
    while (!events_.empty()) {
      Event next = std::move(const_cast<Event&>(events_.top()));
      events_.pop();
      now_ = next.time;
      next.what();
    }
  }

 private:
  struct Event {
    double time;
    std::uint64_t order;
    std::function<void()> what;
    bool operator<(const Event& other) const { return time != other.time ? time > other.time : order > other.order; }
  };
  double now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event> events_;
};

/// Servers that take work in the order in which it comes: the cores of a host, a thread, a port.
class Servers {
 public:
  Servers(Clock& clock, int count) : clock_(clock), free_at_(static_cast<std::size_t>(count)) {}

  void work(double seconds, std::function<void()> then) {
    std::size_t first = 0;
    for (std::size_t each = 1; each < free_at_.size(); ++each)
      if (free_at_[each] < free_at_[first]) first = each;
    free_at_[first] = std::max(free_at_[first], clock_.now()) + seconds;
    clock_.at(free_at_[first], std::move(then));
  }

 private:
  Clock& clock_;
  std::vector<double> free_at_;
};

class StartUp {
 public:
  explicit StartUp(const Setting& setting)
      : setting_(setting),
        store_(clock_, 1),
        port_(clock_, 1),
        ranks_(static_cast<std::size_t>(setting.ranks)),
        living_(static_cast<std::size_t>(setting.ranks), true) {
    const int hosts = (setting.ranks + setting.ranks_per_host - 1) / setting.ranks_per_host;
    for (int host = 0; host < hosts; ++host) hosts_.emplace_back(clock_, setting.cores);
  }

  double run() {
    for (int rank = 0; rank < setting_.ranks; ++rank)
      host_of(rank).work(setting_.process + setting_.connection, [this, rank] { ask(rank); });
    clock_.run();
    return ended_;
  }

 private:
  struct Rank {
    bool has_table = false;
    int missing = 0;           // neighbours without a connection
    std::vector<int> waiting;  // those who dialed before this rank had the table
    int reports = 0;           // of children in the barrier
    bool joined = false;
  };

  int host_number(int rank) const { return rank / setting_.ranks_per_host; }
  Servers& host_of(int rank) { return hosts_[static_cast<std::size_t>(host_number(rank))]; }
  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  double way(int from, int to) const { return host_number(from) == host_number(to) ? 5e-6 : setting_.latency; }

  // To the store, which rank 0 hosts.
  void ask(int rank) {
    tutti::JoinRequest request;
    request.rank = rank;
    request.size = setting_.ranks;
    request.patience = request.patience_was = 60;
    request.settings = {{"TUTTI_SELECT", ""}};
    request.blob = Blob(kBlobBytes);
    const Blob frame = tutti::encode_request(request);
    const auto bytes = std::span(frame).subspan(tutti::kLengthBytes);
    auto came = tutti::decode_request(bytes);
    if (!came) std::abort();
    // By a tree each host asks once, for all its ranks.
    const bool asks = setting_.fan_out == 0 || rank % setting_.ranks_per_host == 0;
    clock_.at(clock_.now() + way(rank, 0), [this, asks, came = std::make_shared<tutti::JoinRequest>(std::move(*came))] {
      const auto admit = [this, came] {
        if (attendance_.add(std::move(*came), "").admission != tutti::Attendance::Admission::joined) std::abort();
        if (attendance_.complete()) answer();
      };
      if (!asks) return admit();
      // On the store's host its thread takes a core from the ranks.
      store_.work(setting_.connection, admit);
      hosts_.front().work(setting_.connection, [] {});
    });
  }

  void answer() {
    const std::size_t bytes = tutti::encode_gathered({tutti::kNewcomer, attendance_.blobs()}).size();
    const double transfer = static_cast<double>(bytes) / setting_.bandwidth;
    if (setting_.fan_out > 0) return answer_by_tree(transfer);
    for (int rank = 0; rank < setting_.ranks; ++rank) {
      const bool is_here = host_number(rank) == 0;
      port_.work(is_here ? 0 : transfer,
                 [this, rank] { clock_.at(clock_.now() + way(0, rank), [this, rank] { take_table(rank); }); });
    }
  }

  /// A host has the table when all hosts on the way from the first one have sent it to their children, one by one.
  void answer_by_tree(double transfer) {
    std::vector<double> has(hosts_.size(), clock_.now());
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
      const auto fan_out = static_cast<std::size_t>(setting_.fan_out);
      const std::size_t child = (host - 1) % fan_out;
      has[host] = has[(host - 1) / fan_out] + static_cast<double>(child + 1) * transfer + setting_.latency;
    }
    for (int rank = 0; rank < setting_.ranks; ++rank)
      clock_.at(has[static_cast<std::size_t>(host_number(rank))], [this, rank] { take_table(rank); });
  }

  void take_table(int rank) {
    host_of(rank).work(setting_.entry * setting_.ranks, [this, rank] {
      Rank& self = rank_at(rank);
      self.has_table = true;
      const std::vector<int> neighbours = tutti::overlay_neighbours(rank, living_);
      self.missing = static_cast<int>(neighbours.size());
      if (self.missing == 0) join(rank);
      for (const int other : neighbours)
        if (rank < other)  // the lower one dials
          host_of(rank).work(setting_.connection, [this, rank, other] {
            clock_.at(clock_.now() + 3 * way(rank, other), [this, rank, other] { greet(rank, other); });
          });
      for (const int other : std::exchange(self.waiting, {})) accept(other, rank);
    });
  }

  void greet(int from, int to) {
    if (!rank_at(to).has_table) return rank_at(to).waiting.push_back(from);
    accept(from, to);
  }

  void accept(int from, int to) {
    host_of(to).work(setting_.connection, [this, from, to] {
      connected(to);
      clock_.at(clock_.now() + way(to, from), [this, from] { connected(from); });
    });
  }

  void connected(int rank) {
    if (--rank_at(rank).missing == 0) join(rank);
  }

  // The first operation and the barrier: twice up and down a tree of consecutive ranks. What it costs to run them is in
  // the costs of processes and connections.
  void join(int rank) {
    rank_at(rank).joined = true;
    report(rank);
  }

  int children(int rank) const {
    int count = 0;
    for (int bit = 1; (rank & bit) == 0 && rank + bit < setting_.ranks && bit < setting_.ranks; bit *= 2) ++count;
    return count;
  }

  void report(int rank) {
    Rank& self = rank_at(rank);
    if (!self.joined || self.reports < children(rank)) return;
    if (rank != 0) {
      const int parent = rank & (rank - 1);
      clock_.at(clock_.now() + way(rank, parent), [this, parent] {
        ++rank_at(parent).reports;
        report(parent);
      });
      return;
    }
    const double depth = std::ceil(std::log2(setting_.ranks));
    ended_ = clock_.now() + 3 * depth * way(0, setting_.ranks - 1);
  }

  const Setting setting_;
  Clock clock_;
  std::vector<Servers> hosts_;
  Servers store_;  // its thread
  Servers port_;   // of the store's host
  tutti::Attendance attendance_;
  std::vector<Rank> ranks_;
  const std::vector<bool> living_;
  double ended_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::fprintf(stderr, "expected RANKS RANKS_PER_HOST CORES PROCESS CONNECTION ENTRY [LATENCY BANDWIDTH FAN_OUT]\n");
    return 2;
  }
  Setting setting;
  setting.ranks = std::atoi(argv[1]);
  setting.ranks_per_host = std::atoi(argv[2]);
  setting.cores = std::atoi(argv[3]);
  setting.process = std::atof(argv[4]);
  setting.connection = std::atof(argv[5]);
  setting.entry = std::atof(argv[6]);
  if (argc > 7) setting.latency = std::atof(argv[7]);
  if (argc > 8) setting.bandwidth = std::atof(argv[8]);
  if (argc > 9) setting.fan_out = std::atoi(argv[9]);
  if (setting.ranks < 1 || setting.ranks_per_host < 1 || setting.cores < 1) return 2;
  std::printf("%.6f\n", StartUp(setting).run());
}
