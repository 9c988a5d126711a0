// What becomes of a communicator's operations, written into its record: those under way, to the step, and the last
// that are over. By the owner of the communicator's token only. Without a record nothing is written.
//
// It stands on the way of every call, so it is inline and does as little as it can: a few stores to lines that no
// reader's glance keeps away for long, and two readings of the time stamp counter.
#pragma once

#include <cstdint>

#include "base/clock.hpp"
#include "monitor/layout.hpp"

namespace tutti::monitor {

/// What is known of an operation before it begins, and does not change when it is repeated.
struct Title {
  What what;
  std::uint64_t bytes = 0;
  int root = 0;
  std::uint32_t program = 0;
  std::uint32_t workers = 0;
};

class OperationLog {
 public:
  OperationLog() = default;
  OperationLog(const Map& map, CommunicatorRecord* record) : map_(map), record_(record) {}

  CommunicatorRecord* record() const { return record_; }

  /// The rank has called the operation. Null: it is not recorded.
  Active* enter(const Title& title, std::uint32_t number, std::uint32_t signature, bool collective) {
    if (record_ == nullptr) return nullptr;
    (collective ? record_->entered : record_->ends_entered).add(1);
    Active* const active = collective ? &record_->actives[0] : free_active();
    if (active == nullptr) return nullptr;
    What what = title.what;
    what.number = number;
    active->what.set(what.pack());
    active->bytes.set(title.bytes);
    active->root.set(title.root);
    active->program.set(title.program);
    active->signature.set(signature);
    active->waited.set(0);
    active->waited_for.set(-1);
    active->awaited.set(-1);
    begin_workers(*active, title.workers);
    active->entered.set(ticks());
    active->generation.add(1);
    return active;
  }

  /// Another plan runs than was entered.
  static void change_program(Active& active, std::uint32_t program, std::uint32_t workers) {
    active.program.set(program);
    begin_workers(active, workers);
  }

  /// It is over.
  void leave(Active* active, bool failed, bool collective) {
    if (record_ == nullptr) return;
    (collective ? record_->done : record_->ends_done).add(1);
    if (active == nullptr) return;
    const std::uint64_t done = ticks();
    const std::uint64_t entered = active->entered.get();
    const std::uint64_t waited = active->waited.get();
    const std::uint64_t bytes = active->bytes.get();
    const std::uint64_t what = active->what.get();
    const std::uint64_t index = record_->operation_count.get();
    OperationRecord& operation = map_.operation(*record_, index);
    operation.index.set(0);
    operation.what.set(what | (failed ? std::uint64_t{What::failed} << 56 : 0));
    operation.bytes.set(bytes);
    operation.root.set(active->root.get());
    operation.program.set(active->program.get());
    operation.entered.set(entered);
    operation.waited.set(waited);
    operation.waited_for.set(active->waited_for.get());
    operation.done.set(done);
    operation.signature.set(active->signature.get());
    operation.index.set(index + 1);
    record_->operation_count.set(index + 1);
    Total& total = record_->totals[What::of(what).collective][size_class(bytes)];
    total.operations.add(1);
    total.bytes.add(bytes);
    total.ticks.add(done - entered);
    if (waited != 0) total.waited.add(waited);
    if (what >> 56 & What::together) {
      record_->together_ticks.add(done - entered);
      if (waited != 0) record_->together_waited.add(waited);
    }
    active->generation.add(1);
    const std::uint32_t number = What::of(what).number;
    if (collective && number % mark_interval(0) == 0) mark(number, done);
  }

  /// A step of an operation that is traced.
  void step(std::uint32_t operation, std::size_t worker, std::size_t step, std::size_t tile, std::uint64_t begun,
            std::uint64_t done) {
    const std::uint64_t index = record_->step_count.get();
    StepRecord& record = map_.step(*record_, index);
    record.index.set(0);
    record.begun.set(begun);
    record.where.set(operation | (worker & 0xffff) << 32 | step << 48);
    record.duration.set(done - begun < kLongest ? static_cast<std::uint32_t>(done - begun) : kLongest);
    record.tile.set(static_cast<std::uint32_t>(tile));
    record.index.set(index + 1);
    record_->step_count.set(index + 1);
  }

 private:
  static constexpr std::uint32_t kLongest = ~std::uint32_t{0};

  static void begin_workers(Active& active, std::uint32_t workers) {
    active.workers.set(workers);
    for (std::uint32_t i = 0; i < workers && i < kWorkers; ++i) active.progress[i].set(0);
  }

  /// On each level that has a mark after this collective.
  void mark(std::uint64_t number, std::uint64_t done) {
    for (int level = 0; level < kMarkLevels && number % mark_interval(level) == 0; ++level) {
      Mark& made = record_->marks[level][number / mark_interval(level) % kMarks];
      made.index.set(0);
      made.at.set(done);
      made.ticks.set(record_->together_ticks.get());
      made.waited.set(record_->together_waited.get());
      made.index.set(number + 1);
    }
  }

  Active* free_active() {
    for (int i = 1; i < kActives; ++i)
      if ((record_->actives[i].generation.get() & 1) == 0) return &record_->actives[i];
    record_->lost_actives.add(1);
    return nullptr;
  }

  Map map_;
  CommunicatorRecord* record_ = nullptr;
};

}  // namespace tutti::monitor
