#include "transport/shm/segment_memory.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

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

  SegmentFile() = default;
  ~SegmentFile() {
    // A child of fork: the descriptor is closed already, and its number may be in use again.
    if (process_ == ::getpid()) return;
    [[maybe_unused]] const auto* const closed = new (std::nothrow) Fd(std::move(sealed_.descriptor));
  }
  SegmentFile(const SegmentFile&) = delete;
  SegmentFile& operator=(const SegmentFile&) = delete;

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
  static auto* const mutex = new std::mutex;
  static auto* const current = new std::weak_ptr<SegmentFile>;  // ends with its last segment
  const std::lock_guard lock(*mutex);
  std::shared_ptr<SegmentFile> file = current->lock();
  // A child of fork has a file of its own: the parent gives out ranges of the one it inherited.
  if (file == nullptr || file->process_ != ::getpid() || file->bytes_ - file->taken_ < bytes) {
    auto opened = open(bytes);
    if (!opened) return tl::unexpected(opened.error());
    file = std::move(*opened);
    *current = file;
  }
  const std::uint64_t offset = file->taken_;
  file->taken_ = std::min(file->bytes_, offset + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return Range{std::move(file), offset};
}

Result<std::shared_ptr<SegmentFile>> SegmentFile::open(std::size_t bytes) {
  rlimit limit{};
  const bool limited = ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < kBytes;
  auto file = std::make_shared<SegmentFile>();
  file->bytes_ = std::max<std::uint64_t>(limited ? limit.rlim_cur : kBytes, bytes);
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

/// Segments that this process has given up, and others may still look at.
struct GivenUp {
  std::mutex mutex;
  std::vector<std::unique_ptr<SegmentMemory>> segments;

  static GivenUp& of_process() {
    static GivenUp* const instance = new GivenUp;
    return *instance;
  }
};

}  // namespace

bool has_ended(pid_t pid) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process) return errno == ESRCH;
  pollfd end{process.get(), POLLIN, 0};
  return ::poll(&end, 1, 0) > 0;
}

SegmentMemory::SegmentMemory(std::byte* data, std::size_t bytes, int ranks, std::shared_ptr<SegmentFile> file,
                             std::uint64_t offset)
    : data_(data), bytes_(bytes), ranks_(ranks), file_(std::move(file)), offset_(offset), process_(::getpid()) {}

SegmentMemory::~SegmentMemory() { ::munmap(data_, bytes_); }

Result<std::shared_ptr<SegmentMemory>> SegmentMemory::create(std::size_t bytes, int ranks) {
  look_after_given_up();
  Result<SegmentFile::Range> range = SegmentFile::allocate(bytes);
  if (!range) return tl::unexpected(range.error());
  const Result<std::byte*> data = map(range->file->descriptor(), range->offset, bytes);
  if (!data) return tl::unexpected(data.error());
  return share(
      std::unique_ptr<SegmentMemory>(new SegmentMemory(*data, bytes, ranks, std::move(range->file), range->offset)));
}

Result<std::shared_ptr<SegmentMemory>> SegmentMemory::attach(const SegmentName& name) {
  const Result<OpenedFile> descriptor = open_sealed(name.pid, name.descriptor, name.inode, name.offset + name.bytes);
  if (!descriptor) return tl::unexpected(descriptor.error());
  const Result<std::byte*> data = map(descriptor->get(), name.offset, name.bytes);
  if (!data) return tl::unexpected(data.error());
  std::unique_ptr<SegmentMemory> memory(new SegmentMemory(*data, name.bytes, name.ranks, nullptr, name.offset));
  if (Status counted = memory->count_in(); !counted) return tl::unexpected(counted.error());
  std::shared_ptr<SegmentMemory> shared = share(std::move(memory));
  // Zero if its pages have gone already.
  const std::uint64_t nonce = head_at(*data).nonce.load(std::memory_order_acquire);
  const bool given_up = (head_at(*data).users.load(std::memory_order_acquire) & kGivenUp) != 0;
  if (given_up || nonce == 0)
    return fail(ErrorCode::rank_died, fmt::format("process {} has destroyed its communicator", name.pid));
  if (nonce != name.nonce)
    return fail(ErrorCode::refused, fmt::format("the shared memory of process {} is another job's", name.pid));
  return shared;
}

int SegmentMemory::descriptor() const { return file_->descriptor(); }
std::uint64_t SegmentMemory::inode() const { return file_->inode(); }

std::shared_ptr<SegmentMemory> SegmentMemory::share(std::unique_ptr<SegmentMemory> memory) {
  return {memory.release(), [](SegmentMemory* last) { give_up(std::unique_ptr<SegmentMemory>(last)); }};
}

Status SegmentMemory::count_in() const {
  head_at(data_).users.fetch_add(1, std::memory_order_acq_rel);
  for (AttachedProcess& place : attached_processes(data_, ranks_)) {
    std::int32_t free = 0;
    if (place.compare_exchange_strong(free, process_, std::memory_order_acq_rel)) return {};
  }
  head_at(data_).users.fetch_sub(1, std::memory_order_acq_rel);
  return fail(ErrorCode::internal, fmt::format("a segment of {} ranks has more users", ranks_));
}

/// Returns whether this was the last one, and the owner has given it up.
bool SegmentMemory::count_out() const {
  for (AttachedProcess& place : attached_processes(data_, ranks_)) {
    std::int32_t own = process_;
    if (place.compare_exchange_strong(own, 0, std::memory_order_acq_rel)) break;
  }
  return head_at(data_).users.fetch_sub(1, std::memory_order_acq_rel) == (kGivenUp | 1);
}

/// Discounts processes that have ended. Returns whether nobody has the segment any more.
bool SegmentMemory::is_unused() const {
  // The last user has removed the pages, and the count with them.
  if (head_at(data_).nonce.load(std::memory_order_acquire) == 0) return true;
  std::atomic<std::uint32_t>& users = head_at(data_).users;
  if (users.load(std::memory_order_acquire) == kGivenUp) return true;
  for (AttachedProcess& place : attached_processes(data_, ranks_)) {
    std::int32_t process = place.load(std::memory_order_acquire);
    if (process == 0 || !has_ended(process)) continue;
    if (place.compare_exchange_strong(process, 0, std::memory_order_acq_rel))
      users.fetch_sub(1, std::memory_order_acq_rel);
  }
  return users.load(std::memory_order_acquire) == kGivenUp;
}

void SegmentMemory::give_up(std::unique_ptr<SegmentMemory> memory) {
  if (memory->process_ != ::getpid()) return;
  if (memory->file_ == nullptr) {
    if (memory->count_out()) memory->remove_pages();
    return;
  }
  head_at(memory->data_).users.fetch_or(kGivenUp, std::memory_order_acq_rel);
  if (memory->is_unused()) return memory->remove_pages();
  GivenUp& given_up = GivenUp::of_process();
  const std::lock_guard lock(given_up.mutex);
  given_up.segments.push_back(std::move(memory));
}

void SegmentMemory::look_after_given_up() {
  GivenUp& given_up = GivenUp::of_process();
  const std::lock_guard lock(given_up.mutex);
  std::erase_if(given_up.segments, [](const std::unique_ptr<SegmentMemory>& each) {
    if (each->process_ != ::getpid()) return true;
    if (!each->is_unused()) return false;
    each->remove_pages();
    return true;
  });
}

void SegmentMemory::remove_pages() const {
  ::munlock(data_, bytes_);  // pages that are locked cannot be removed
  ::madvise(data_, bytes_, MADV_REMOVE);
}

}  // namespace tutti
