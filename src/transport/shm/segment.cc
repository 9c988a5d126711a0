#include "transport/shm/segment.hpp"

#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "memory/sealed.hpp"

namespace tutti {
namespace {

constexpr std::size_t kHeadBytes = 4096;
static_assert(sizeof(SegmentHead) <= kHeadBytes);

std::size_t signals_bytes(int ranks) {
  return (static_cast<std::size_t>(ranks) * sizeof(SignalLine) + 4095) / 4096 * 4096;
}

std::size_t pipe_bytes(int ranks) { return sizeof(Pipe) + static_cast<std::size_t>(slots_for(ranks)) * kSlotBytes; }

std::size_t pipes_at(int ranks) { return kHeadBytes + signals_bytes(ranks) + 2 * kStageBytes; }

std::size_t segment_bytes(int ranks) {
  return pipes_at(ranks) + static_cast<std::size_t>(ranks) * kShmPipes * pipe_bytes(ranks);
}

std::uint64_t random_number() {
  std::uint64_t value = 0;
  while (::getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

/// Segments of this process, so that its other ranks share the mapping and keep it alive as long as they use it.
class OwnSegments {
 public:
  void add(std::uint64_t nonce, const std::shared_ptr<Mapping>& mapping) {
    const std::lock_guard lock(mutex_);
    std::erase_if(mappings_, [](const auto& entry) { return entry.second.expired(); });
    mappings_[nonce] = mapping;
  }

  std::shared_ptr<Mapping> find(std::uint64_t nonce) {
    const std::lock_guard lock(mutex_);
    const auto found = mappings_.find(nonce);
    return found == mappings_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::weak_ptr<Mapping>> mappings_;
};

OwnSegments& own_segments() {
  static OwnSegments* const instance = new OwnSegments;
  return *instance;
}

}  // namespace

std::size_t populate_slots(Pipe& pipe, std::uint64_t slots, std::size_t bytes, bool writes) {
  // Since Linux 5.14. Where it fails, pages appear as they are touched.
  constexpr int kPopulateRead = 22;
  constexpr int kPopulateWrite = 23;
  constexpr std::uintptr_t kPage = 4096;
  const int saved_errno = errno;
  for (std::uint64_t index = 0; index < slots; ++index) {
    const auto begin = reinterpret_cast<std::uintptr_t>(pipe.slot(index)) / kPage * kPage;
    const auto end = (reinterpret_cast<std::uintptr_t>(pipe.slot(index)) + bytes + kPage - 1) / kPage * kPage;
    if (::madvise(reinterpret_cast<void*>(begin), end - begin, writes ? kPopulateWrite : kPopulateRead) != 0) break;
  }
  errno = saved_errno;
  return std::max<std::size_t>(bytes, kPage);
}

std::uint64_t process_identity() {
  // A forked child is another process: keyed by pid, so that it draws its own number.
  static std::atomic<std::uint64_t> identity{0};
  static std::atomic<pid_t> owner{0};
  if (owner.load(std::memory_order_acquire) != ::getpid()) {
    static std::atomic_flag drawing = ATOMIC_FLAG_INIT;
    while (drawing.test_and_set(std::memory_order_acquire)) {
    }
    if (owner.load(std::memory_order_relaxed) != ::getpid()) {
      identity.store(random_number() | 1, std::memory_order_relaxed);
      owner.store(::getpid(), std::memory_order_release);
    }
    drawing.clear(std::memory_order_release);
  }
  return identity.load(std::memory_order_relaxed);
}

Result<Segment> Segment::create(int ranks) {
  Segment segment;
  const std::size_t bytes = segment_bytes(ranks);
  Result<SealedFile> file = create_sealed("tutti-segment", bytes, Pages::when_touched);
  if (!file) return fail(file.error().code, fmt::format("a communicator's segment: {}", file.error().message));
  segment.descriptor_ = std::move(file->descriptor);
  Result<Mapping> mapping = Mapping::of(segment.descriptor_.get(), bytes);
  if (!mapping) return tl::unexpected(mapping.error());
  segment.mapping_ = std::make_shared<Mapping>(std::move(*mapping));
  segment.base_ = segment.mapping_->data();
  segment.name_ = {::getpid(),
                   segment.descriptor_.get(),
                   file->inode,
                   random_number(),
                   process_identity(),
                   reinterpret_cast<std::uint64_t>(segment.base_),
                   bytes,
                   ranks};
  segment.head().nonce.store(segment.name_.nonce, std::memory_order_release);
  own_segments().add(segment.name_.nonce, segment.mapping_);
  return segment;
}

Result<Segment> Segment::attach(const SegmentName& name) {
  Segment segment;
  segment.name_ = name;
  if (name.process == process_identity()) {
    segment.mapping_ = own_segments().find(name.nonce);
    if (segment.mapping_ == nullptr) return fail(ErrorCode::rank_died, "the peer's communicator was destroyed");
    segment.base_ = segment.mapping_->data();
    return segment;
  }
  if (name.bytes != segment_bytes(name.ranks))
    return fail(ErrorCode::mismatch, fmt::format("process {} has a segment of {} bytes, expected {}", name.pid,
                                                 name.bytes, segment_bytes(name.ranks)));
  Result<Fd> descriptor = open_sealed(name.pid, name.descriptor, name.inode, name.bytes);
  if (!descriptor) return tl::unexpected(descriptor.error());
  Result<Mapping> mapping = Mapping::of(descriptor->get(), name.bytes);
  if (!mapping) return tl::unexpected(mapping.error());
  segment.mapping_ = std::make_shared<Mapping>(std::move(*mapping));
  segment.base_ = segment.mapping_->data();
  if (segment.head().nonce.load(std::memory_order_acquire) != name.nonce)
    return fail(ErrorCode::refused, fmt::format("the shared memory of process {} is another job's", name.pid));
  return segment;
}

SignalLine& Segment::signals_from(int local_rank) const {
  return reinterpret_cast<SignalLine*>(base_ + kHeadBytes)[local_rank];
}

Pipe& Segment::pipe_from(int local_rank, int channel) const {
  const std::size_t index = static_cast<std::size_t>(local_rank) * kShmPipes + static_cast<std::size_t>(channel);
  return *reinterpret_cast<Pipe*>(base_ + pipes_at(name_.ranks) + index * pipe_bytes(name_.ranks));
}

std::byte* Segment::stage(bool half) const {
  return base_ + kHeadBytes + signals_bytes(name_.ranks) + (half ? kStageBytes : 0);
}

void Segment::ring() const {
  SegmentHead& owner = head();
  if (owner.asleep.load(std::memory_order_relaxed) == 0) return;
  owner.rings.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &owner.rings, FUTEX_WAKE, 64, nullptr, nullptr, 0);
}

}  // namespace tutti
