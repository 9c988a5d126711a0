#include "transport/shm/segment.hpp"

#include <fmt/core.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/per_process.hpp"
#include "base/random.hpp"
#include "transport/shm/segment_memory.hpp"

namespace tutti {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHeadBytes = kPage;
static_assert(sizeof(SegmentHead) <= kHeadBytes);

constexpr std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// A segment: head | attached processes | signals | stage | pipes
std::size_t attached_bytes(int ranks) { return whole_pages(static_cast<std::size_t>(ranks) * sizeof(AttachedProcess)); }

std::size_t signals_at(int ranks) { return kHeadBytes + attached_bytes(ranks); }

std::size_t stage_at(int ranks) {
  return signals_at(ranks) + whole_pages(static_cast<std::size_t>(ranks) * sizeof(SignalLine));
}

std::size_t pipe_bytes(int ranks) { return sizeof(Pipe) + static_cast<std::size_t>(slots_for(ranks)) * kSlotBytes; }

std::size_t pipes_at(int ranks) { return stage_at(ranks) + 2 * kStageBytes; }

std::size_t segment_bytes(int ranks) {
  return whole_pages(pipes_at(ranks) + static_cast<std::size_t>(ranks) * kShmPipes * pipe_bytes(ranks));
}

/// Segments of this process, so that its other ranks share the memory and keep it alive as long as they use it.
class OwnSegments {
 public:
  void add(std::uint64_t nonce, const std::shared_ptr<SegmentMemory>& memory) {
    const std::lock_guard lock(mutex_);
    std::erase_if(segments_, [](const auto& entry) { return entry.second.expired(); });
    segments_[nonce] = memory;
  }

  std::shared_ptr<SegmentMemory> find(std::uint64_t nonce) {
    const std::lock_guard lock(mutex_);
    const auto found = segments_.find(nonce);
    return found == segments_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::weak_ptr<SegmentMemory>> segments_;
};

OwnSegments& own_segments() {
  static OwnSegments* const instance = new OwnSegments;
  return *instance;
}

}  // namespace

std::span<AttachedProcess> attached_processes(std::byte* segment, int ranks) {
  return {reinterpret_cast<AttachedProcess*>(segment + kHeadBytes), static_cast<std::size_t>(ranks)};
}

std::size_t populate_slots(Pipe& pipe, std::uint64_t slots, std::size_t bytes, bool writes) {
  // Since Linux 5.14. Where it fails, pages appear as they are touched.
  constexpr int kPopulateRead = 22;
  constexpr int kPopulateWrite = 23;
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
  struct Drawn {
    const std::uint64_t number = random_bits() | 1;
  };
  return of_process<Drawn>().number;
}

Result<Segment> Segment::create(int ranks) {
  const std::size_t bytes = segment_bytes(ranks);
  Result<std::shared_ptr<SegmentMemory>> memory = SegmentMemory::create(bytes, ranks);
  if (!memory) return fail(memory.error().code, fmt::format("a communicator's segment: {}", memory.error().message));
  Segment segment;
  segment.memory_ = std::move(*memory);
  segment.base_ = segment.memory_->data();
  segment.name_.pid = ::getpid();
  segment.name_.descriptor = segment.memory_->descriptor();
  segment.name_.inode = segment.memory_->inode();
  segment.name_.nonce = random_bits() | 1;
  segment.name_.process = process_identity();
  segment.name_.address = reinterpret_cast<std::uint64_t>(segment.base_);
  segment.name_.offset = segment.memory_->offset();
  segment.name_.bytes = bytes;
  segment.name_.ranks = ranks;
  segment.head().nonce.store(segment.name_.nonce, std::memory_order_release);
  own_segments().add(segment.name_.nonce, segment.memory_);
  return segment;
}

Result<Segment> Segment::attach(const SegmentName& name) {
  Segment segment;
  segment.name_ = name;
  if (name.process == process_identity()) {
    segment.memory_ = own_segments().find(name.nonce);
    if (segment.memory_ == nullptr) return fail(ErrorCode::rank_died, "the peer's communicator was destroyed");
    segment.base_ = segment.memory_->data();
    return segment;
  }
  if (name.bytes != segment_bytes(name.ranks))
    return fail(ErrorCode::mismatch, fmt::format("process {} has a segment of {} bytes, expected {}", name.pid,
                                                 name.bytes, segment_bytes(name.ranks)));
  Result<std::shared_ptr<SegmentMemory>> memory = SegmentMemory::attach(name);
  if (!memory) return tl::unexpected(memory.error());
  segment.memory_ = std::move(*memory);
  segment.base_ = segment.memory_->data();
  return segment;
}

SignalLine& Segment::signals_from(int local_rank) const {
  return reinterpret_cast<SignalLine*>(base_ + signals_at(name_.ranks))[local_rank];
}

Pipe& Segment::pipe_from(int local_rank, int channel) const {
  const std::size_t index = static_cast<std::size_t>(local_rank) * kShmPipes + static_cast<std::size_t>(channel);
  return *reinterpret_cast<Pipe*>(base_ + pipes_at(name_.ranks) + index * pipe_bytes(name_.ranks));
}

std::byte* Segment::stage(bool half) const { return base_ + stage_at(name_.ranks) + (half ? kStageBytes : 0); }

void Segment::ring() const {
  SegmentHead& owner = head();
  if (owner.asleep.load(std::memory_order_relaxed) == 0) return;
  owner.rings.fetch_add(1, std::memory_order_release);
  ::syscall(SYS_futex, &owner.rings, FUTEX_WAKE, 64, nullptr, nullptr, 0);
}

void Segment::sleep(int microseconds) const {
  SegmentHead& own = head();
  const std::uint32_t seen = own.rings.load(std::memory_order_acquire);
  own.asleep.store(1, std::memory_order_seq_cst);
  const timespec limit{microseconds / 1000000, (microseconds % 1000000) * 1000L};
  const int saved_errno = errno;
  ::syscall(SYS_futex, &own.rings, FUTEX_WAIT, seen, &limit, nullptr, 0);
  errno = saved_errno;
  own.asleep.store(0, std::memory_order_relaxed);
}

}  // namespace tutti
