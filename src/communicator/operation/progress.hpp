// The process's one progress thread: drives communicators that have operations nobody waits for. Started on first use,
// asleep when there are none; a child made by fork has none and starts its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti {

class CommunicatorImpl;

class Progress {
 public:
  static Progress& of_process();

  /// Drives the communicator until it is idle. Thread-safe; never blocks for long.
  void attend(const std::shared_ptr<CommunicatorImpl>& communicator);

 private:
  Progress() = default;
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<CommunicatorImpl>> attended_;  // operations under way keep theirs alive
  int thread_owner_ = 0;                                   // pid of the process whose thread runs
  bool told_ = false;                                      // that no thread could be started
};

}  // namespace tutti
