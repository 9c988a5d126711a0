// Records what becomes of a communicator and its operations: in the process's recording, and for a profiler plugin.
// Used by the owner of the communicator's token, but for broken().
#pragma once

#include <cstdint>
#include <memory>

#include "communicator/operation/identity.hpp"
#include "communicator/operation/operation.hpp"
#include "monitor/operation_log.hpp"
#include "profiler/profiler.hpp"
#include "tutti/communicator.hpp"

namespace tutti {

class OperationRecorder {
 public:
  /// All must outlive it.
  OperationRecorder(const Identity& identity, const HostLayout& layout, const Options& options)
      : identity_(identity), layout_(layout), options_(options) {}

  /// `job`: by which the recording knows the communicator's job.
  void open(std::uint64_t job);
  void close();
  /// The communicator's record; null if there is none.
  monitor::CommunicatorRecord* record() const { return log_.record(); }

  void open_profiler();
  void close_profiler() { profiler_.reset(); }

  void broken(const Error& error);
  void late(const Operation& operation, int peer, double seconds);

  /// Works out what does not change when the operation is repeated.
  void set_title(Operation& operation, const Plan& plan) const;
  // These two stand on the way of every call, so they are inline.
  void entered(Operation& operation, OperationTag tag, const Plan& plan, const void* send, void* recv) {
    if (record() != nullptr) {
      operation.recorded = true;
      operation.active = log_.enter(operation.title, tag.number, tag.signature, !operation.is_point_to_point());
      // By its number, so that all ranks trace the same ones.
      const bool traced = (tag.number & untraced_) == 0 || operation.title.bytes >= traced_from_;
      operation.execution.observe(operation.active, traced && operation.active != nullptr ? &log_ : nullptr, record());
    }
    if (profiler_ != nullptr) profile(operation, tag, plan, send, recv);
  }
  void left(Operation& operation, bool failed) {
    if (operation.recorded) log_.leave(operation.active, failed, !operation.is_point_to_point());
    operation.recorded = false;
    operation.active = nullptr;
    if (profiler_ != nullptr) profiler_->end(operation.profiled);
  }
  /// Records whom an operation waits for, and since when (ticks).
  static void waiting(const Operation& operation, std::uint64_t since);
  static void woken(const Operation& operation) {
    if (operation.active != nullptr) operation.active->awaited.set(-1);
  }

 private:
  void profile(Operation& operation, OperationTag tag, const Plan& plan, const void* send, void* recv);

  const Identity& identity_;
  const HostLayout& layout_;
  const Options& options_;
  monitor::OperationLog log_;
  std::uint32_t untraced_ = ~std::uint32_t{0};     // bits of an operation's number; if none is set, it is traced
  std::uint64_t traced_from_ = ~std::uint64_t{0};  // bytes
  std::unique_ptr<profiler::ProfiledCommunicator> profiler_;  // null: there is no plugin
};

}  // namespace tutti
