// Ctrl-C and its like as something to wait for, so that whoever has set something up can take it down again. While one
// of these lives, SIGINT, SIGTERM and SIGHUP do nothing else. One thread.
#pragma once

#include <csignal>

#include "base/fd.hpp"
#include "tutti/error.hpp"

namespace tutti::cli {

class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  /// Readable once there was one.
  int descriptor() const { return signals_.get(); }
  /// An error once there was one.
  Status check();
  /// Waits for so long, or until one comes.
  Status sleep(double seconds);
  /// The status to exit with, where there was one; else 0.
  int exit_status() const { return number_ == 0 ? 0 : 128 + number_; }

 private:
  Fd signals_;
  sigset_t before_;
  int number_ = 0;
};

}  // namespace tutti::cli
