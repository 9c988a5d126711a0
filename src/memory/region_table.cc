#include "memory/region_table.hpp"

#include <utility>

namespace tutti {

RegionTable::~RegionTable() {
  for (Block* block = first_.next.load(std::memory_order_relaxed); block != nullptr;) {
    Block* const next = block->next.load(std::memory_order_relaxed);
    delete block;
    block = next;
  }
}

std::optional<RegionView> RegionTable::find(std::uintptr_t begin, std::size_t bytes) const {
  for (const Block* block = &first_; block != nullptr; block = block->next.load(std::memory_order_acquire)) {
    const std::size_t used = block->used.load(std::memory_order_acquire);
    for (std::size_t index = 0; index < used; ++index) {
      const RegionRow& row = block->rows[index];
      const std::uint64_t version = row.version.load(std::memory_order_acquire);
      const std::uintptr_t offset = begin - row.begin.load(std::memory_order_acquire);
      const std::size_t size = row.bytes.load(std::memory_order_acquire);
      if (offset > size || size - offset < bytes) continue;
      const std::uint64_t packed = row.descriptor_and_number.load(std::memory_order_acquire);
      const std::uint64_t inode = row.inode.load(std::memory_order_acquire);
      const std::uint64_t file_bytes = row.file_bytes.load(std::memory_order_acquire);
      const std::uint64_t file_offset = row.offset.load(std::memory_order_acquire);
      // If the row has changed meanwhile, it was or has become another region's: nobody asks for memory that is being
      // allocated or freed.
      if (version % 2 != 0 || row.version.load(std::memory_order_relaxed) != version) continue;
      const auto descriptor = static_cast<std::int32_t>(packed >> 32);
      const auto number = static_cast<std::uint32_t>(packed);
      return RegionView{{descriptor, number, inode, file_bytes}, file_offset + offset};
    }
  }
  return std::nullopt;
}

void RegionTable::write(RegionRow& row, const RegionPart& part) {
  const std::uint64_t version = row.version.load(std::memory_order_relaxed);
  row.version.store(version + 1, std::memory_order_relaxed);
  const auto descriptor = static_cast<std::uint32_t>(part.name.descriptor);
  row.descriptor_and_number.store(std::uint64_t{descriptor} << 32 | part.name.number, std::memory_order_release);
  row.inode.store(part.name.inode, std::memory_order_release);
  row.file_bytes.store(part.name.bytes, std::memory_order_release);
  row.offset.store(part.offset, std::memory_order_release);
  row.bytes.store(part.bytes, std::memory_order_release);
  row.begin.store(part.begin, std::memory_order_release);
  row.version.store(version + 2, std::memory_order_release);
}

RegionTable::RegionRow& RegionTable::free_row() {
  Block* block = &first_;
  while (true) {
    const std::size_t used = block->used.load(std::memory_order_relaxed);
    for (std::size_t index = 0; index < used; ++index)
      if (block->rows[index].begin.load(std::memory_order_relaxed) == 0) return block->rows[index];
    if (used < block->rows.size()) {
      block->used.store(used + 1, std::memory_order_release);
      return block->rows[used];
    }
    if (block->next.load(std::memory_order_relaxed) == nullptr) block->next.store(new Block, std::memory_order_release);
    block = block->next.load(std::memory_order_relaxed);
  }
}

void RegionTable::add(const RegionPart& part) { write(free_row(), part); }

void RegionTable::remove(std::uintptr_t begin) {
  for (Block* block = &first_; block != nullptr; block = block->next.load(std::memory_order_relaxed))
    for (RegionRow& row : block->rows)
      if (row.begin.load(std::memory_order_relaxed) == begin) return write(row, RegionPart{});
}

std::size_t RegionTable::capacity() const {
  std::size_t rows = 0;
  for (const Block* block = &first_; block != nullptr; block = block->next.load(std::memory_order_acquire))
    rows += block->rows.size();
  return rows;
}

}  // namespace tutti
