// Which addresses belong to which region, for lookups that take no lock and wait for nobody, since every operation
// makes one or two.
//
// Rows are written in place, each under a version of its own (odd while it is written), and used again once they are
// free: the table grows with the most regions there were at a time, not with the number of allocations. Blocks of rows
// are never freed, so a reader may be anywhere in them at any time.
// find() may be called by any thread; add() and remove() by one at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "memory/region.hpp"

namespace tutti {

/// A range of addresses, and where its memory lies in which file.
struct RegionPart {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  RegionName name;
  std::uint64_t offset = 0;  // of `begin` in the file
};

class RegionTable {
 public:
  RegionTable() = default;
  RegionTable(const RegionTable&) = delete;
  RegionTable& operator=(const RegionTable&) = delete;
  ~RegionTable();

  /// Returns the part that holds [begin, begin + bytes) whole, if any.
  std::optional<RegionView> find(std::uintptr_t begin, std::size_t bytes) const;

  void add(const RegionPart& part);
  /// Removes the part that begins at `begin`.
  void remove(std::uintptr_t begin);

  /// Rows there are, used or free.
  std::size_t capacity() const;

 private:
  /// Readers load fields with acquire and look at `version` last; the writer makes `version` odd before it stores the
  /// fields with release. So a reader that saw any new field sees that the version has changed.
  struct alignas(64) RegionRow {
    std::atomic<std::uintptr_t> begin{0};  // 0: free, and without bytes
    std::atomic<std::size_t> bytes{0};
    std::atomic<std::uint64_t> version{0};
    std::atomic<std::uint64_t> descriptor_and_number{0};
    std::atomic<std::uint64_t> inode{0};
    std::atomic<std::uint64_t> file_bytes{0};
    std::atomic<std::uint64_t> offset{0};
  };
  struct Block {
    std::array<RegionRow, 64> rows;
    std::atomic<std::size_t> used{0};   // rows that ever were; written by the writer (release)
    std::atomic<Block*> next{nullptr};  // the same
  };

  static void write(RegionRow& row, const RegionPart& part);
  RegionRow& free_row();

  Block first_;
};

}  // namespace tutti
