// The memory of a segment, mapped. A process keeps the segments of all its communicators in a few sealed files, so that
// another communicator takes no descriptor. Each lies in a range of its own, which is never given out again: a peer may
// still look at a segment after its owner has given it up. Its pages go with the last process that has it mapped, which
// a count in the segment tells; a process that was killed does not count down, so the owner looks for those, when it
// gives up a segment and when it makes the next.
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
  /// Zeroed memory of this process, for a segment of up to `ranks` ranks.
  static Result<std::shared_ptr<SegmentMemory>> create(std::size_t bytes, int ranks);
  /// Maps a segment of another process. rank_died: the owner has given it up.
  static Result<std::shared_ptr<SegmentMemory>> attach(const SegmentName& name);
  ~SegmentMemory();  // unmaps it
  SegmentMemory(const SegmentMemory&) = delete;
  SegmentMemory& operator=(const SegmentMemory&) = delete;

  std::byte* data() const { return data_; }
  /// Where peers find it. Of own memory only.
  int descriptor() const;
  std::uint64_t inode() const;
  std::uint64_t offset() const { return offset_; }

 private:
  SegmentMemory(std::byte* data, std::size_t bytes, int ranks, std::shared_ptr<SegmentFile> file, std::uint64_t offset);
  static std::shared_ptr<SegmentMemory> share(std::unique_ptr<SegmentMemory> memory);
  static void give_up(std::unique_ptr<SegmentMemory> memory);
  static void look_after_given_up();
  Status count_in() const;
  bool count_out() const;
  bool is_unused() const;
  void remove_pages() const;

  std::byte* data_;
  std::size_t bytes_;
  int ranks_;
  std::shared_ptr<SegmentFile> file_;  // null: another process owns it
  std::uint64_t offset_;
  pid_t process_;
};

/// Returns whether all threads of a process of this host have ended.
bool has_ended(pid_t pid);

}  // namespace tutti
