// Recordings made by hand, for tests of what reads them.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.hpp"
#include "monitor/recorder.hpp"
#include "program/program.hpp"
#include "tutti/types.hpp"

namespace tutti::monitor {

/// A folder on tmpfs, gone with the test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/dev/shm/tutti_test.XXXXXX";
    EXPECT_NE(::mkdtemp(name), nullptr);
    path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::unique_ptr<Recorder> open_recorder(const std::string& folder) {
  RecorderOptions options;
  options.folder = folder;
  options.shape = {4, 16, 16, 8, 16, 16};
  Result<std::unique_ptr<Recorder>> opened = Recorder::open(options);
  EXPECT_TRUE(opened.has_value());
  return opened ? *std::move(opened) : nullptr;
}

inline CommunicatorRecord& add_communicator(Recorder& recorder, int rank, int size, std::uint64_t id = 7) {
  CommunicatorRecord& record = *recorder.open_communicator(id);
  record.job.set(99);
  record.rank.set(rank);
  record.size.set(size);
  record.hosts.set(1);
  record.host.set(0);
  record.name.set("world");
  record.state.set(CommunicatorRecord::alive);
  return record;
}

/// Ticks so many seconds ago.
inline std::uint64_t ago(double seconds) { return ticks() - ticks_of_microseconds(1e6 * seconds); }

struct Done {
  std::uint32_t number = 1;
  double entered = 1, done = 1;  // seconds ago
  double waited = 0;             // seconds
  int waited_for = -1;
  std::uint32_t signature = 5;
};

inline What all_reduce(std::uint32_t number) {
  return {number, static_cast<std::uint8_t>(Collective::all_reduce), static_cast<std::uint8_t>(DataType::float32),
          static_cast<std::uint8_t>(Operator::sum), 0};
}

inline void add_operation(Recorder& recorder, CommunicatorRecord& of, const Done& done) {
  const std::uint64_t index = of.operation_count.get();
  OperationRecord& record = recorder.map().operation(of, index);
  record.index.set(0);
  record.what.set(all_reduce(done.number).pack());
  record.bytes.set(4096);
  record.root.set(0);
  record.program.set(recorder.program("ring"));
  record.entered.set(ago(done.entered));
  record.waited.set(ticks_of_microseconds(1e6 * done.waited));
  record.waited_for.set(done.waited_for);
  record.done.set(ago(done.done));
  record.signature.set(done.signature);
  record.index.set(index + 1);
  of.operation_count.set(index + 1);
  of.entered.add(1);
  of.done.add(1);
}

struct UnderWay {
  std::uint32_t number = 1;
  double entered = 1;  // seconds ago
  int awaited = -1;
  double awaited_since = 0;
  int worker = 0, step = 3;
  std::uint32_t signature = 5;
};

inline void add_pending(Recorder& recorder, CommunicatorRecord& of, const UnderWay& pending) {
  Active& active = of.actives[0];
  active.what.set(all_reduce(pending.number).pack());
  active.bytes.set(4096);
  active.root.set(0);
  active.program.set(recorder.program("ring"));
  active.entered.set(ago(pending.entered));
  active.waited.set(0);
  active.waited_for.set(-1);
  active.signature.set(pending.signature);
  active.workers.set(2);
  active.progress[0].set(std::uint64_t{1} << 32 | 3);
  active.progress[1].set(4);
  active.awaited_in.set(static_cast<std::uint32_t>(pending.worker << 16 | pending.step));
  active.awaited_since.set(ago(pending.awaited_since));
  active.awaited.set(pending.awaited);
  active.generation.set(1);
  of.entered.add(1);
}

}  // namespace tutti::monitor
