// The memory of a segment, mapped. A process keeps the segments of all its communicators in a few sealed files, so that
// another communicator takes no descriptor. Each lies in a range of its own, which is never given out again: a peer may
// still look at a segment after its owner has given it up. Its pages go with the last process that has it mapped; if
// one of these was killed they go with the file, when the owner has given up all segments in it.
//
// Thread-safe. In a child made by fork it belongs to the parent, and is only unmapped.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tutti/error.hpp"

namespace tutti {

class SegmentFile;
struct SegmentName;

class SegmentMemory {
 public:
  /// Zeroed memory of this process, which begins with a SegmentHead.
  static Result<std::shared_ptr<SegmentMemory>> create(std::size_t bytes);
  /// Maps a segment of another process. rank_died: the owner has given it up.
  static Result<std::shared_ptr<SegmentMemory>> attach(const SegmentName& name);
  ~SegmentMemory();
  SegmentMemory(const SegmentMemory&) = delete;
  SegmentMemory& operator=(const SegmentMemory&) = delete;

  std::byte* data() const { return data_; }
  /// Where peers find it. Of own memory only.
  int descriptor() const;
  std::uint64_t inode() const;
  std::uint64_t offset() const { return offset_; }

 private:
  SegmentMemory(std::byte* data, std::size_t bytes, std::shared_ptr<SegmentFile> file, std::uint64_t offset);
  bool give_up() const;

  std::byte* data_;
  std::size_t bytes_;
  std::shared_ptr<SegmentFile> file_;  // null: another process owns it
  std::uint64_t offset_;
  pid_t process_;
};

}  // namespace tutti
