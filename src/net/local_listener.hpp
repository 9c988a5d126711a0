// A socket by which processes of this host reach each other whatever network they are in. It has no name in the file
// system: whoever may look into this process finds it by /proc/<pid>/fd/<n>, as with segments of shared memory, and it
// vanishes with the process, however that ends.
#pragma once

#include <string>

#include "base/fd.hpp"
#include "base/process_id.hpp"
#include "tutti/error.hpp"

namespace tutti {

class LocalListener {
 public:
  LocalListener() = default;
  /// For whoever implements Sockets: connect_local() there knows what `path` means.
  LocalListener(std::string path, Fd listener) : path_(std::move(path)), listener_(std::move(listener)) {}
  /// Listens.
  static Result<LocalListener> open(const ProcessId& owner);

  /// For connect_local() in other processes; empty if there is none.
  const std::string& path() const { return path_; }
  Fd take_listener() { return std::move(listener_); }

 private:
  std::string path_;
  Fd path_fd_;  // of the socket's file, which has no name any more
  Fd listener_;
};

/// Connects to the listener of another process; that succeeds at once or not at all.
Result<Fd> connect_local(const std::string& path);

}  // namespace tutti
