// The event loop behind a Store. Owned and run by the store's thread alone; only StoreProgress is shared.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/fd.hpp"
#include "base/rate_limited_log.hpp"
#include "bootstrap/attendance.hpp"
#include "bootstrap/wire.hpp"
#include "net/handshake.hpp"
#include "net/socket.hpp"

namespace tutti {

struct StoreProgress {
  std::mutex mutex;
  std::condition_variable changed;
  bool answered = false;  // the join is decided, and all ranks that have come have been told
  bool over = false;      // the loop has ended
  int newcomers = 0;
};

class StoreLoop {
 public:
  static constexpr double kStrangerSeconds = 5;  // to prove the secret and ask to join
  static constexpr double kFairSeconds = 0.3;    // of that, which everybody has
  static constexpr double kAnswerSeconds = 30;   // to take the answer
  /// How many connections may be open that have not asked to join: a quarter of the process's descriptors, which the
  /// application needs as well.
  static std::size_t stranger_limit();

  static Result<std::unique_ptr<StoreLoop>> make(std::vector<Fd> listeners, const JobKey& key, int doorbell,
                                                 std::shared_ptr<StoreProgress> progress);
  ~StoreLoop();
  /// Until all ranks have their answer, or the doorbell rings.
  void run();

 private:
  enum class Phase {
    handshake,    // a stranger
    request,      // knows the secret, has not asked yet
    introducing,  // a newcomer that has been told the size
    waiting,      // joined; the others have not
    answering,    // the answer is on its way
    answered,     // waiting for the rank to hang up
  };
  struct Connection {
    Fd socket;
    SocketAddress peer;
    Handshake handshake;
    Deadline deadline;  // dropped then; never while waiting
    Phase phase = Phase::handshake;
    Blob incoming;
    std::size_t received = 0;
    std::shared_ptr<const Blob> answer;
    std::size_t sent = 0;
    int rank = -1;
    bool newcomer = false;
    bool tells_size = false;    // the answer does
    std::uint32_t watched = 0;  // epoll events asked for

    /// It awaits what becomes of the join.
    bool undecided() const {
      return phase == Phase::waiting || phase == Phase::introducing || (phase == Phase::answering && tells_size);
    }
  };
  using Id = std::uint64_t;

  StoreLoop(std::vector<Fd> listeners, const JobKey& key, int doorbell, std::shared_ptr<StoreProgress> progress);
  Status watch_listeners();

  bool over() const;
  int milliseconds_to_wait() const;
  void handle(Id id);
  void accept_all(int listener);
  void welcome(Accepted accepted);
  bool make_room();
  std::map<Id, Connection>::iterator oldest_stranger();
  bool drop_oldest_stranger(const std::string& why);
  void serve(Id id);
  Result<std::optional<JoinRequest>> read_request(Connection& connection);
  void admit(Id id, Connection& connection, JoinRequest request);
  void admit_newcomer(Id id, Connection& connection, JoinRequest request);
  void tell_size(Connection& connection);
  void answer(Connection& connection, std::shared_ptr<const Blob> with);
  void flush(Id id, Connection& connection);
  void complete();
  void answer_newcomers(const std::vector<Blob>& blobs);
  void fail_all(Error error);
  void left(Id id);
  void drop(Id id, const std::string& why);
  void erase(Id id);
  void watch(Id id, Connection& connection);
  void expire();
  void publish();

  std::vector<Fd> listeners_;
  JobKey key_;
  int doorbell_;
  std::shared_ptr<StoreProgress> progress_;
  Fd epoll_;
  bool stopped_ = false;
  Id next_id_;
  std::map<Id, Connection> connections_;  // in the order they came
  std::size_t strangers_ = 0;             // in phase handshake or request
  const std::size_t stranger_limit_ = stranger_limit();
  Deadline next_expiry_;
  Deadline next_log_line_;
  Attendance attendance_;
  Deadline patience_;  // the least of those who wait
  double patience_was_ = 0;
  Deadline late_warning_;
  bool complete_ = false;
  std::shared_ptr<const Blob> failure_;
  std::set<int> told_;  // ranks that were sent the failure
  RateLimitedLog log_;
};

}  // namespace tutti
