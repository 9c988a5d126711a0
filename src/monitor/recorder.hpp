// The recording of this process: opened when the first communicator is made, written by whoever owns what is recorded,
// and left behind where the process is killed or a communicator broke. Without it (TUTTI_MONITOR=0, no room on tmpfs,
// a table that is full) records are null pointers, and nothing is written.
//
// Thread-safe; in a child made by fork() it does nothing. The next process that opens one in the same folder removes
// the recordings of processes that are gone.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/fd.hpp"
#include "monitor/layout.hpp"
#include "tutti/error.hpp"

namespace tutti::monitor {

struct Event {
  EventKind kind{};
  Cause cause = Cause::none;
  std::uint64_t at = 0;     // ticks; 0: now
  std::uint64_t began = 0;  // ticks, where it tells of something that lasted
  std::uint64_t communicator = 0;
  int rank = -1, peer = -1, lane = -1;
  std::uint32_t operation = 0;
  double values[3] = {};
  std::string_view text = {};
};

struct RecorderOptions {
  std::string folder;  // made where it is missing; must be this user's own
  Shape shape;
  int window = 8;
};

class Recorder {
 public:
  /// This process's, as the settings say.
  static Recorder& of_process();

  /// Fails where the folder is not ours or has no room.
  static Result<std::unique_ptr<Recorder>> open(const RecorderOptions& options);
  /// The file stays if a communicator broke.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  bool is_on() const { return static_cast<bool>(map_); }
  const Map& map() const { return map_; }
  const std::string& path() const { return path_; }

  /// A communicator that is being made; null: no room, or more than 4,096 ranks. `key`: the same on all ranks. Any
  /// thread.
  GatheringRecord* open_gathering(std::uint64_t key, int rank, int size);
  void close_gathering(GatheringRecord* record);
  /// Null: no room. `state` is set last, by the caller: alive.
  CommunicatorRecord* open_communicator(std::uint64_t id);
  void close_communicator(CommunicatorRecord* record);
  LinkRecord* open_link(CommunicatorRecord& of, int peer, int channel, bool receives);
  LaneRecord* open_lane();
  void close_lane(LaneRecord* record);
  /// A program's number; its name is kept once.
  std::uint32_t program(std::string_view name);

  /// Adds an event, and wakes whoever waits for one. Any thread.
  void record(const Event& event);

 private:
  Recorder() = default;  // off
  bool is_ours() const;
  void write_head(const RecorderOptions& options);
  void clear(CommunicatorRecord& record);
  void end();

  Map map_;
  std::string path_;
  Fd file_;
  Mapping mapping_;
  int owner_ = 0;      // pid
  bool keep_ = false;  // a communicator that is closed had broken
  std::mutex mutex_;   // what is opened and closed
};

}  // namespace tutti::monitor
