// How a running operation stands, shared by the parts of an Execution: what it is, whether it goes on, and what is
// recorded of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/clock.hpp"
#include "monitor/operation_log.hpp"
#include "monitor/wait_meter.hpp"
#include "transport/link.hpp"
#include "tutti/error.hpp"

namespace tutti {

class RunState {
 public:
  enum class State : std::uint8_t { running, done, failed };

  /// Sets where progress is recorded, from the next operation on; null: nowhere. `log`: every step, with its times.
  /// `of`: the waits for each rank.
  void observe(monitor::Active* active, monitor::OperationLog* log, monitor::CommunicatorRecord* of) {
    active_ = active;
    log_ = log;
    waits_.observe(active, of);
  }

  void begin(OperationTag tag) {
    tag_ = tag;
    state_ = State::running;
    idle_polls_ = 0;
    waits_.begin();
    if (log_ != nullptr) logged_until_ = ticks();
  }
  void end() { state_ = State::done; }

  /// Fails the operation. The first error stays. Returns false.
  bool fail(Error error) {
    if (state_ != State::failed) error_ = std::move(error);
    state_ = State::failed;
    return false;
  }
  bool fail_about(int peer, Error error) {
    error.peer = peer;
    return fail(std::move(error));
  }

  State state() const { return state_; }
  bool is_running() const { return state_ == State::running; }
  const Error& error() const { return error_; }
  OperationTag tag() const { return tag_; }

  /// Returns whether nothing has moved for so many polls that it is to be noted as a wait, once more. What comes within
  /// a microsecond or two was not waited for, and reading the clock would take as long.
  bool count_poll() { return (++idle_polls_ & (kPollsOfAWait - 1)) == 0 && waits_.is_on(); }

  /// Notes that something moved: a rank has entered or signalled, a chunk has come or was taken, a step is done.
  void note_move() {
    idle_polls_ = 0;
    waits_.note_move();
  }
  /// See monitor::WaitMeter.
  bool measures_waits() const { return waits_.is_on(); }
  void note_wait(int rank, std::uint64_t longest_transit, std::uint64_t now) {
    waits_.note_wait(rank, longest_transit, now);
  }

  void note_program(std::uint32_t recorded_as, std::size_t workers) {
    if (active_ != nullptr)
      monitor::OperationLog::change_program(*active_, recorded_as, static_cast<std::uint32_t>(workers));
  }

  bool logs_steps() const { return log_ != nullptr; }
  /// Returns the ticks of the last step that was logged, or of the beginning.
  std::uint64_t logged_until() const { return logged_until_; }

  /// Records that a worker has done a step, begun at `begun` (ticks, if steps are logged).
  void note_step(std::size_t worker, std::size_t tile, int step, std::uint64_t begun) {
    note_move();
    if (log_ != nullptr) {
      logged_until_ = ticks();
      log_->step(tag_.number, worker, static_cast<std::size_t>(step), tile, begun, logged_until_);
    }
    if (active_ != nullptr && worker < monitor::kWorkers)
      active_->progress[worker].set(tile << 32 | static_cast<std::uint32_t>(step + 1));
  }

 private:
  static constexpr unsigned kPollsOfAWait = 64;  // without success, before a wait is recorded; a power of two

  OperationTag tag_;
  State state_ = State::done;
  Error error_;
  unsigned idle_polls_ = 0;  // since something moved
  monitor::Active* active_ = nullptr;
  monitor::OperationLog* log_ = nullptr;
  monitor::WaitMeter waits_;
  std::uint64_t logged_until_ = 0;
};

}  // namespace tutti
