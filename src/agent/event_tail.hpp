// Follows the events of all recordings of this host, of processes that come and go: each event once, in order of time
// within a look. A process that dies without leaving in order is told as well. A look that finds nothing new costs one
// small read for each recording. Files are read, never mapped: whoever cuts one short cannot end us. A file is open
// only while its process lives, and of one folder, which is one user's, no more than a share of our descriptors. One
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/event_line.hpp"
#include "agent/pacing.hpp"
#include "base/fd.hpp"
#include "monitor/event_reader.hpp"

namespace tutti::agent {

class EventTail {
 public:
  /// Of what was told before the first look, that of the last `since` seconds. No folders: as `tutti status` looks.
  EventTail(std::vector<std::string> folders, double since) : folders_(std::move(folders)), since_(since) {}

  /// `now`: monotonic, seconds.
  std::vector<SeenEvent> look(double now);

  /// How many files of one folder are open at a time: an eighth of the descriptors that the process may have.
  static std::size_t folder_limit();
  std::size_t open_files() const;

 private:
  struct Recording {
    Fd file;
    std::size_t bytes = 0;
    monitor::EventCursor cursor;
    bool is_old = false;   // there at the first look
    bool is_over = false;  // its process is gone, and all was read; the file is closed

    void close() {
      is_over = true;
      file.reset();
    }
  };

  void list(double now);
  void open_new(const std::string& folder, const std::set<std::string>& paths, double now);
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
  RateLimitedLog log_{kLogInterval};
};

}  // namespace tutti::agent
