// The meeting point of a job: an all-gather of one blob per rank over TCP, served by one thread with one event loop.
//
// It ends when every rank has its answer: the blobs of all, or the error that made the join fail (a rank ran out of
// patience, died, or disagrees about the job), which all ranks that have come are told at once, and latecomers too.
// Where the ranks wait for newcomers besides, these are given numbers as they come, and those that leave again, or are
// too many, concern nobody else.
// Nobody is delayed by strangers: a connection that does not prove the secret and ask to join within a few seconds is
// dropped and logged, as is the oldest of them when there are too many. When all have joined the listeners close, so
// that a rank which comes to the same port for the next join is refused and tries again.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.hpp"
#include "net/event_loop.hpp"
#include "net/handshake.hpp"
#include "net/sockets.hpp"
#include "tutti/error.hpp"

namespace tutti {

struct StoreProgress;

class Store {
 public:
  /// Serves on `listeners`, at least one, from a background thread. `sockets` made them, and outlives the store.
  static Result<std::unique_ptr<Store>> start(std::vector<Fd> listeners, const JobKey& key,
                                              Sockets& sockets = kernel_sockets(),
                                              EventLoop::Clock clock = monotonic_seconds);
  /// Stops at once, whoever waits. In a child made by fork: only lets go.
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Calls `joined` for each rank that has come and each that will, one at a time, on this thread or the store's.
  /// Empty: calls the one before no more, once this returns.
  void on_joined(std::function<void(int rank)> joined);
  /// Waits until all ranks that have come have their answer. False at the deadline.
  bool wait_answered(Deadline deadline) const;
  /// That have come, and wait.
  int newcomers() const;
  /// All ranks have theirs and the thread is over.
  bool over() const;

 private:
  Store(std::shared_ptr<StoreProgress> progress, Fd doorbell);

  std::shared_ptr<StoreProgress> progress_;
  Fd doorbell_;
  int owner_;  // process id
  std::thread thread_;
};

}  // namespace tutti
