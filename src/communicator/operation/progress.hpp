// The process's one progress thread (of_process<Progress>()): drives the operations that nobody waits for. It starts on
// first use and sleeps while there are none. A child made by fork has no such thread and starts its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace tutti {

class OperationDriver;

class Progress {
 public:
  /// Drives a communicator's operations until it is idle. Thread-safe; never blocks for long.
  void attend(const std::shared_ptr<OperationDriver>& driver);

 private:
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<OperationDriver>> attended_;  // operations under way keep theirs alive
  bool runs_ = false;                                     // there is a thread
  bool warned_ = false;                                   // that no thread could be started
};

}  // namespace tutti
