#include "monitor/read/image.hpp"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/fd.hpp"

namespace tutti::monitor {
namespace {

constexpr std::size_t kMostBytes = std::size_t{512} << 20;
constexpr std::uint32_t kMostRecords = 1 << 20;

/// The shape a head tells, where a file of so many bytes can have it.
Result<Shape> shape_of(const Head& head, std::size_t bytes) {
  if (head.magic.get() != kMagic) return fail(ErrorCode::invalid_argument, "it is not a recording of tutti");
  if (head.version.get() != kVersion)
    return fail(ErrorCode::invalid_argument,
                fmt::format("it is of version {}, and this program reads {}", head.version.get(), kVersion));
  const Shape shape{head.communicators.get(), head.operations.get(), head.steps.get(),
                    head.lanes.get(),         head.chunks.get(),     head.events.get()};
  for (const std::uint32_t count :
       {shape.communicators, shape.lanes, shape.operations, shape.steps, shape.chunks, shape.events})
    if (count > kMostRecords) return fail(ErrorCode::invalid_argument, "its tables are larger than any are made");
  for (const std::uint32_t count : {shape.operations, shape.steps, shape.chunks, shape.events})
    if (!std::has_single_bit(count))
      return fail(ErrorCode::invalid_argument, fmt::format("it has a ring of {} records, not a power of two", count));
  if (Map::bytes(shape) != bytes || head.bytes.get() != bytes)
    return fail(ErrorCode::invalid_argument, fmt::format("it has {} bytes, and its head speaks of {} with {} of tables",
                                                         bytes, head.bytes.get(), Map::bytes(shape)));
  return shape;
}

/// Whether an operation under way is the same in both copies, all that stays as it is while it runs.
bool is_settled(const Active& a, const Active& b) {
  return a.generation.get() == b.generation.get() && a.what.get() == b.what.get() && a.bytes.get() == b.bytes.get() &&
         a.root.get() == b.root.get() && a.program.get() == b.program.get() && a.entered.get() == b.entered.get() &&
         a.signature.get() == b.signature.get() && a.workers.get() == b.workers.get();
}

bool is_same(const Mark& a, const Mark& b) {
  return a.index.get() == b.index.get() && a.at.get() == b.at.get() && a.ticks.get() == b.ticks.get() &&
         a.waited.get() == b.waited.get();
}

}  // namespace

void RecordingImage::Unmap::operator()(std::byte* data) const { ::munmap(data, bytes); }

// Most of a recording is never touched, so neither should most of its copy be.
Status RecordingImage::allocate(std::size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return system_error(fmt::format("no memory for {} bytes", bytes));
  data_ = std::unique_ptr<std::byte, Unmap>(static_cast<std::byte*>(data), Unmap{bytes});
  return {};
}

Result<RecordingImage> RecordingImage::copy_of(const RecordingSource& source, const Detail& detail) {
  if (source.bytes < sizeof(Head) || source.bytes > kMostBytes)
    return fail(ErrorCode::invalid_argument, fmt::format("{} bytes are no recording", source.bytes));
  RecordingImage image;
  image.source_ = &source;
  if (Status there = image.allocate(source.bytes); !there) return tl::unexpected(there.error());
  if (Status read = image.fill(image.data_.get(), sizeof(Head)); !read) return tl::unexpected(read.error());
  const Result<Shape> shape = shape_of(*reinterpret_cast<const Head*>(image.data_.get()), source.bytes);
  if (!shape) return tl::unexpected(shape.error());
  image.map_ = Map(image.data_.get(), *shape);
  if (Status read = image.copy(detail); !read) return tl::unexpected(read.error());
  image.source_ = nullptr;
  return image;
}

Status RecordingImage::copy(const Detail& detail) {
  const Shape& shape = map_.shape();
  if (Status read = fill(&map_.gathering(0), kGatherings * sizeof(GatheringRecord)); !read) return read;
  for (std::uint32_t i = 0; i < shape.communicators; ++i)
    if (Status read = copy_communicator(map_.communicator(i), detail); !read) return read;
  for (std::uint32_t i = 0; i < shape.lanes; ++i)
    if (Status read = copy_lane(map_.lane(i), detail); !read) return read;
  if (detail.events)
    if (Status read = fill_ring(map_.event(0), shape.events); !read) return read;
  // Once more, and last: names of programs that the records above speak of, and the count of the events. Its shape has
  // been checked as it was, and stays so.
  return fill(&map_.head(), sizeof(Head));
}

Status RecordingImage::copy_communicator(CommunicatorRecord& record, const Detail& detail) {
  if (Status read = fill(&record, sizeof record.state); !read) return read;
  if (record.state.get() == CommunicatorRecord::free) return {};
  if (Status read = fill(&record, sizeof record); !read) return read;
  if (detail.operations)
    if (Status read = fill_ring(map_.operation(record, 0), map_.shape().operations); !read) return read;
  if (detail.steps)
    if (Status read = fill_ring(map_.step(record, 0), map_.shape().steps); !read) return read;
  const auto second = again(&record, sizeof record);
  if (!second) return tl::unexpected(second.error());
  std::unique_ptr<CommunicatorRecord> now(new CommunicatorRecord);
  std::memcpy(static_cast<void*>(now.get()), second->get(), sizeof record);
  // Its place was given to another meanwhile: that one is seen the next time.
  if (now->id.get() != record.id.get() || now->created.get() != record.created.get())
    record.state.set(CommunicatorRecord::free);
  for (int level = 0; level < kMarkLevels; ++level)
    for (int i = 0; i < kMarks; ++i)
      if (!is_same(record.marks[level][i], now->marks[level][i])) record.marks[level][i].index.set(0);
  for (int i = 0; i < kActives; ++i)
    if (!is_settled(record.actives[i], now->actives[i])) record.actives[i].generation.set(0);
  return {};
}

Status RecordingImage::copy_lane(LaneRecord& record, const Detail& detail) {
  if (Status read = fill(&record, sizeof record.state); !read) return read;
  if (record.state.get() == 0) return {};
  if (Status read = fill(&record, sizeof record); !read) return read;
  return detail.chunks ? fill_ring(map_.chunk(record, 0), map_.shape().chunks) : Status{};
}

Status RecordingImage::fill(void* record, std::size_t bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(record) - data_.get());
  if (!source_->read(offset, {static_cast<std::byte*>(record), bytes}))
    return fail(ErrorCode::invalid_argument, fmt::format("it ends before its byte {}", offset + bytes));
  return {};
}

Result<std::unique_ptr<std::byte[]>> RecordingImage::again(const void* record, std::size_t bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(record) - data_.get());
  std::unique_ptr<std::byte[]> copy(new std::byte[bytes]);
  if (!source_->read(offset, {copy.get(), bytes}))
    return fail(ErrorCode::invalid_argument, fmt::format("it ends before its byte {}", offset + bytes));
  return copy;
}

// Copied twice: a record that is the same in both copies was whole in the first, in whatever order its words were read.
// Had one of them been newer than the index, the index of the second copy would be another or 0; had one been older,
// it would be another itself.
template <typename Record>
Status RecordingImage::fill_ring(Record& first, std::uint32_t count) {
  const std::size_t bytes = count * sizeof(Record);
  if (Status read = fill(&first, bytes); !read) return read;
  const auto second = again(&first, bytes);
  if (!second) return tl::unexpected(second.error());
  for (std::uint32_t i = 0; i < count; ++i) {
    Record& record = (&first)[i];
    const std::uint64_t index = record.index.get();
    const auto* const read_first = reinterpret_cast<const std::byte*>(&record);
    const bool same = std::equal(read_first, read_first + sizeof(Record), second->get() + i * sizeof(Record));
    if (!same || ((index - 1) & (count - 1)) != i) record.index.set(0);
  }
  return {};
}

}  // namespace tutti::monitor
