// The blobs that members brought to an agreement, one each, never changed: copies share their bytes, also with the
// message they came in. Among 100,000 members that is several megabytes. Plain values; any thread.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include "base/wire.hpp"

namespace tutti {

/// Bytes that several messages and members of one process share.
using SharedBytes = std::shared_ptr<const Blob>;

class BlobTable {
 public:
  BlobTable() = default;
  explicit BlobTable(const std::vector<Blob>& blobs);
  BlobTable(std::initializer_list<Blob> blobs) : BlobTable(std::vector<Blob>(blobs)) {}

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  std::span<const std::byte> operator[](std::size_t place) const;
  void clear() { *this = BlobTable(); }
  std::vector<Blob> copies() const;
  /// How many bytes the blobs have together.
  std::size_t bytes() const;

  bool operator==(const BlobTable& other) const;

  void encode(WireWriter& out) const;
  /// Returns false if that is neither an empty table nor one of so many blobs. `in` reads from `owner`.
  bool decode(WireReader& in, std::size_t blobs, const SharedBytes& owner);

 private:
  struct BlobPlace {
    std::size_t first;
    std::size_t bytes;
  };

  bool is_even() const { return places_ == nullptr; }

  std::shared_ptr<const std::byte> data_;  // of the first blob; keeps all of them
  std::size_t count_ = 0;
  std::size_t each_ = 0;                                  // bytes of a blob, if all are as long
  std::shared_ptr<const std::vector<BlobPlace>> places_;  // if they are not
};

}  // namespace tutti
