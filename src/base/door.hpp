// A socket by which processes of this host reach each other whatever network they are in. It has no name in the file
// system: whoever may look into this process finds it by /proc/<pid>/fd/<n>, as with segments of shared memory, and it
// vanishes with the process, however that ends.
#pragma once

#include <string>

#include "base/fd.hpp"
#include "base/process_id.hpp"
#include "tutti/error.hpp"

namespace tutti {

class Door {
 public:
  Door() = default;
  /// Listens.
  static Result<Door> open(const ProcessId& owner);

  /// For knock(), in other processes; empty: there is none.
  std::string path() const;
  Fd take_listener() { return std::move(listener_); }

 private:
  Fd place_;  // the socket's place in a file system, where it has no name any more
  Fd listener_;
};

/// Connects to a door; it is open at once, or not at all.
Result<Fd> knock(const std::string& path);

}  // namespace tutti
