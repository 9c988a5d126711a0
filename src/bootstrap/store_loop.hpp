// The event loop behind a Store. Owned and run by the store's thread alone; only StoreProgress is shared.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "bootstrap/attendance.hpp"
#include "bootstrap/wire.hpp"
#include "net/connector.hpp"
#include "net/event_loop.hpp"

namespace tutti {

struct StoreProgress {
  std::mutex mutex;
  std::condition_variable changed;
  bool answered = false;  // the join is decided, and all ranks that have come have been told
  bool over = false;      // the loop has ended
  int newcomers = 0;
  std::vector<int> joined;  // ranks, in the order they came
  std::function<void(int rank)> on_joined;
};

class StoreLoop final : private Connector::Owner {
 public:
  static constexpr double kRequestSeconds = 5;  // to prove the secret and ask to join
  static constexpr double kAnswerSeconds = 60;  // to take the answer

  static Result<std::unique_ptr<StoreLoop>> make(std::vector<Fd> listeners, const JobKey& key, int doorbell,
                                                 std::shared_ptr<StoreProgress> progress, Sockets& sockets,
                                                 EventLoop::Clock clock);
  ~StoreLoop() override;
  /// Until all ranks have their answer, or the doorbell rings.
  void run();

 private:
  enum class Phase {
    introducing,  // a newcomer that has been told the size
    waiting,      // joined; the others have not
    answering,    // the answer is on its way
    answered,     // waiting for the rank to hang up, or to bring another blob
  };
  // Of a process that has asked to join.
  struct StoreConnection {
    Fd socket;
    SocketAddress peer;
    std::uint64_t watch = 0;
    double deadline;  // dropped then; never while waiting
    Phase phase = Phase::waiting;
    Blob incoming;
    std::size_t received = 0;
    std::shared_ptr<const Blob> answer;
    std::size_t sent = 0;
    int rank = -1;
    bool newcomer = false;
    bool tells_size = false;  // the answer does

    /// It awaits what becomes of the join.
    bool undecided() const {
      return phase == Phase::waiting || phase == Phase::introducing || (phase == Phase::answering && tells_size);
    }
  };
  using Id = Connector::Id;

  StoreLoop(const JobKey& key, std::shared_ptr<StoreProgress> progress, Sockets& sockets, EventLoop::Clock clock);
  Status open(std::vector<Fd> listeners, int doorbell);

  Connector::Answer greeted(Id id, const Connector::Arrival& arrival) override;
  void accepted(Id id, Fd socket, const Connector::Arrival& arrival) override;
  void dialed(Id, Fd, const Blob&) override {}
  void dial_failed(Id, const Error&, ConnectFailure) override {}
  void left(Id) override {}
  void dropped() override {}

  bool over() const;
  void serve(Id id);
  Result<std::optional<JoinRequest>> read_request(StoreConnection& connection);
  void begin_round();
  void admit(Id id, StoreConnection& connection, JoinRequest request);
  void forget_joined();
  void tell_joined(int rank);
  void admit_newcomer(Id id, StoreConnection& connection, JoinRequest request);
  void tell_size(StoreConnection& connection);
  void answer(StoreConnection& connection, std::shared_ptr<const Blob> with);
  void set_deadline(StoreConnection& connection, double seconds);
  void flush(Id id, StoreConnection& connection);
  void complete();
  void answer_newcomers(const std::vector<Blob>& blobs);
  void fail_all(Error error);
  void hung_up(Id id);
  void drop(Id id, const std::string& why);
  void erase(Id id);
  void watch(const StoreConnection& connection);
  double expire();
  void publish();

  EventLoop loop_;
  Connector connector_;
  std::shared_ptr<StoreProgress> progress_;
  bool stopped_ = false;
  std::map<Id, StoreConnection> connections_;  // in the order they came
  double next_expiry_;
  Attendance attendance_;
  double patience_;  // until when those who wait do, the least of them
  double patience_was_ = 0;
  double late_warning_;
  bool complete_ = false;
  std::shared_ptr<const Blob> failure_;
  std::set<int> settled_;  // ranks that were sent the failure, or hung up
};

}  // namespace tutti
