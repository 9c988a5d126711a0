// Follows the events of all recordings of this host, of processes that come and go: each event once, in order of time
// within a look. A process that dies without leaving in order is told as well. A look that finds nothing new costs one
// small read for each recording. Files are read, never mapped: whoever cuts one short cannot end us. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/event_line.hpp"
#include "base/fd.hpp"
#include "monitor/event_reader.hpp"

namespace tutti::agent {

class EventTail {
 public:
  /// Of what was told before the first look, that of the last `since` seconds. No folders: as `tutti status` looks.
  EventTail(std::vector<std::string> folders, double since) : folders_(std::move(folders)), since_(since) {}

  /// `now`: monotonic, seconds.
  std::vector<SeenEvent> look(double now);

 private:
  struct Recording {
    Fd file;
    std::size_t bytes = 0;
    monitor::EventCursor cursor;
    bool is_old = false;   // there at the first look
    bool is_over = false;  // its process is gone, and all was read
  };

  void list(double now);
  void open(const std::string& path, bool is_old);
  void read(Recording& recording);
  void finish(Recording& recording, double now);
  void add(const monitor::ProcessView& process, monitor::EventView event, std::uint64_t missed);

  std::vector<std::string> folders_;
  double since_;
  double begun_ = 0;            // the first look; 0: there was none
  bool is_first_look_ = false;  // what it finds lost was never ours to see, and whoever is dead was so before
  double next_list_ = 0;
  double realtime_offset_ = 0;
  std::map<std::string, Recording> recordings_;  // by path
  std::vector<SeenEvent> found_;                 // at this look
};

}  // namespace tutti::agent
