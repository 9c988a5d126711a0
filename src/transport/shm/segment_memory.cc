#include "transport/shm/segment_memory.hpp"

#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "memory/sealed.hpp"
#include "transport/shm/segment.hpp"

namespace tutti {

/// Many segments of one process. Pages that are not touched take no memory.
class SegmentFile {
 public:
  /// A range for a segment, in a file that has room for it.
  struct Range {
    std::shared_ptr<SegmentFile> file;
    std::uint64_t offset = 0;
  };
  static Result<Range> allocate(std::size_t bytes);

  int descriptor() const { return sealed_.descriptor.get(); }
  std::uint64_t inode() const { return sealed_.inode; }

 private:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 40;
  static constexpr std::uint64_t kAlignment = 2 << 20;  // of a huge page

  static Result<std::shared_ptr<SegmentFile>> open(std::size_t bytes);

  SealedFile sealed_;
  std::uint64_t bytes_ = 0;
  std::uint64_t taken_ = 0;
  pid_t process_ = ::getpid();
};

Result<SegmentFile::Range> SegmentFile::allocate(std::size_t bytes) {
  static std::mutex mutex;
  static std::weak_ptr<SegmentFile> current;  // ends with its last segment
  const std::lock_guard lock(mutex);
  std::shared_ptr<SegmentFile> file = current.lock();
  // A child of fork has a file of its own: the parent gives out ranges of the one it inherited.
  if (file == nullptr || file->process_ != ::getpid() || file->bytes_ - file->taken_ < bytes) {
    auto opened = open(bytes);
    if (!opened) return tl::unexpected(opened.error());
    file = std::move(*opened);
    current = file;
  }
  const std::uint64_t offset = file->taken_;
  file->taken_ = std::min(file->bytes_, offset + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return Range{std::move(file), offset};
}

Result<std::shared_ptr<SegmentFile>> SegmentFile::open(std::size_t bytes) {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kBytes;
  auto file = std::make_shared<SegmentFile>();
  file->bytes_ = limited ? std::max<std::uint64_t>(limit.rlim_cur, bytes) : kBytes;
  Result<SealedFile> sealed = create_sealed("tutti-segments", file->bytes_, Pages::when_touched);
  if (!sealed) return tl::unexpected(sealed.error());
  file->sealed_ = std::move(*sealed);
  return file;
}

namespace {

constexpr std::uint32_t kGivenUp = 1u << 31;  // of SegmentHead::users: the owner has; the rest counts other processes

Result<std::byte*> map(int descriptor, std::uint64_t offset, std::size_t bytes) {
  void* const data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, static_cast<off_t>(offset));
  if (data == MAP_FAILED) return system_error(fmt::format("mapping {} bytes of shared memory", bytes));
  return static_cast<std::byte*>(data);
}

SegmentHead& head_at(std::byte* data) { return *reinterpret_cast<SegmentHead*>(data); }

}  // namespace

SegmentMemory::SegmentMemory(std::byte* data, std::size_t bytes, std::shared_ptr<SegmentFile> file,
                             std::uint64_t offset)
    : data_(data), bytes_(bytes), file_(std::move(file)), offset_(offset), process_(::getpid()) {}

Result<std::shared_ptr<SegmentMemory>> SegmentMemory::create(std::size_t bytes) {
  Result<SegmentFile::Range> range = SegmentFile::allocate(bytes);
  if (!range) return tl::unexpected(range.error());
  const Result<std::byte*> data = map(range->file->descriptor(), range->offset, bytes);
  if (!data) return tl::unexpected(data.error());
  return std::shared_ptr<SegmentMemory>(new SegmentMemory(*data, bytes, std::move(range->file), range->offset));
}

Result<std::shared_ptr<SegmentMemory>> SegmentMemory::attach(const SegmentName& name) {
  Result<Fd> descriptor = open_sealed(name.pid, name.descriptor, name.inode, name.offset + name.bytes);
  if (!descriptor) return tl::unexpected(descriptor.error());
  const Result<std::byte*> data = map(descriptor->get(), name.offset, name.bytes);
  if (!data) return tl::unexpected(data.error());
  const std::uint32_t users = head_at(*data).users.fetch_add(1, std::memory_order_acq_rel);
  std::shared_ptr<SegmentMemory> memory(new SegmentMemory(*data, name.bytes, nullptr, name.offset));
  // Zero if its pages have gone already.
  const std::uint64_t nonce = head_at(*data).nonce.load(std::memory_order_acquire);
  if ((users & kGivenUp) != 0 || nonce == 0)
    return fail(ErrorCode::rank_died, fmt::format("process {} has destroyed its communicator", name.pid));
  if (nonce != name.nonce)
    return fail(ErrorCode::refused, fmt::format("the shared memory of process {} is another job's", name.pid));
  return memory;
}

int SegmentMemory::descriptor() const { return file_->descriptor(); }
std::uint64_t SegmentMemory::inode() const { return file_->inode(); }

/// Returns whether nobody has the segment any more.
bool SegmentMemory::give_up() const {
  std::atomic<std::uint32_t>& users = head_at(data_).users;
  if (file_ != nullptr) return users.fetch_or(kGivenUp, std::memory_order_acq_rel) == 0;
  return users.fetch_sub(1, std::memory_order_acq_rel) == (kGivenUp | 1);
}

SegmentMemory::~SegmentMemory() {
  if (process_ == ::getpid() && give_up()) ::madvise(data_, bytes_, MADV_REMOVE);
  ::munmap(data_, bytes_);
}

}  // namespace tutti
