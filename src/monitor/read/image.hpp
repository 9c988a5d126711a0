// The bytes of a recording, copied from where its process may be writing them. What the file says of its own size and
// shape is checked before it is used; of rings only records that stood still while they were copied are kept. A file
// that is cut, foreign or hostile becomes an error, one that shrinks meanwhile too. One thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "monitor/layout.hpp"
#include "monitor/read/snapshot.hpp"
#include "tutti/error.hpp"

namespace tutti::monitor {

/// A recording to read from: a file, or bytes in memory.
struct RecordingSource {
  std::size_t bytes = 0;
  /// Copies what lies at `offset`; false where not all of it is there.
  std::function<bool(std::size_t offset, std::span<std::byte> to)> read;
};

class RecordingImage {
 public:
  /// Copies what is in use, of rings those that `detail` asks for; all else is zero.
  static Result<RecordingImage> copy_of(const RecordingSource& source, const Detail& detail);

  /// Records of rings that are not whole have index 0, operations under way that changed have generation 0.
  const Map& map() const { return map_; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::byte* data) const;
  };

  RecordingImage() = default;
  Status allocate(std::size_t bytes);
  Status copy(const Detail& detail);
  Status copy_communicator(CommunicatorRecord& record, const Detail& detail);
  Status copy_lane(LaneRecord& record, const Detail& detail);
  /// Copies so many bytes to `record`, which is their place in the copy as in the file.
  Status fill(void* record, std::size_t bytes);
  /// The same bytes once more, elsewhere.
  Result<std::unique_ptr<std::byte[]>> again(const void* record, std::size_t bytes);
  template <typename Record>
  Status fill_ring(Record& first, std::uint32_t count);

  const RecordingSource* source_ = nullptr;
  std::unique_ptr<std::byte, Unmap> data_;
  Map map_;
};

}  // namespace tutti::monitor
