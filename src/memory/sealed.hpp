// Anonymous shared memory (memfd) whose size is fixed for ever. Sealed, because whoever maps memory that another
// process can shorten dies by SIGBUS: nobody can shorten or grow these files, and none that lacks the seals is mapped.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/fd.hpp"

namespace tutti {

enum class Pages : std::uint8_t {
  when_touched,  // a page exists once it is touched
  at_once,       // all are there, so that a lack of memory is an error now and not a SIGBUS later
};

/// How another process finds a file: as descriptor `descriptor` of this one, with this inode and size.
struct SealedFile {
  Fd descriptor;
  std::uint64_t inode = 0;
};

/// Creates zeroed memory of `bytes` bytes. `name` shows in /proc.
Result<SealedFile> create_sealed(const char* name, std::size_t bytes, Pages pages);

/// A file of another process, open for as long as it takes to map it.
class OpenedFile {
 public:
  explicit OpenedFile(Fd descriptor) : descriptor_(std::move(descriptor)) {}
  ~OpenedFile();
  OpenedFile(OpenedFile&&) noexcept = default;
  OpenedFile& operator=(OpenedFile&&) = delete;
  int get() const { return descriptor_.get(); }

 private:
  Fd descriptor_;
};

/// Opens descriptor `descriptor` of process `pid`. Refuses a file that has another inode, is smaller than `bytes`, or
/// could become so. Where the process has no descriptor left, takes the one that it keeps in reserve since it made its
/// first sealed file: a call of a communicator that exists must not fail for want of one.
Result<OpenedFile> open_sealed(pid_t pid, int descriptor, std::uint64_t inode, std::size_t bytes);

/// Returns whether descriptor `descriptor` of process `pid` is still the file with this inode.
bool is_open(pid_t pid, int descriptor, std::uint64_t inode);

}  // namespace tutti
