#include "transport/shm/shm_link.hpp"

#include <cstring>
#include <utility>

#include "base/clock.hpp"
#include "reduce/reduce.hpp"

namespace tutti {

ShmSendLink::ShmSendLink(const Segment& to, int own_local_rank, int channel, DirectFrom direct_from)
    : to_(to),
      pipe_(to.pipe_from(own_local_rank, channel)),
      direct_from_(direct_from),
      slots_(static_cast<std::uint64_t>(to.slots())) {}

bool ShmSendLink::has_credit(bool wants_slot) {
  const auto free = [&] {
    return sent_ - consumed_ < kPipeLines && (!wants_slot || slot_[staged_ % slots_].freed_by <= consumed_);
  };
  if (free()) return true;
  consumed_ = pipe_.consumed.load(std::memory_order_acquire);
  record_->done.set(consumed_);
  return free();
}

bool ShmSendLink::put(const std::byte* data, std::size_t bytes, OperationTag tag, bool may_stay) {
  std::optional<RegionView> region;
  if (may_stay && bytes > kEagerBytes) region = find_region(data, bytes);
  const bool direct = may_stay && bytes > kEagerBytes && (region || bytes >= direct_from_.ordinary);
  const bool staged = !direct && bytes > kEagerBytes;
  if (!has_credit(staged)) return false;
  PipeLine& line = pipe_.lines[sent_ % kPipeLines];
  bool timed = false;
  if (direct) {
    line.memory.address = reinterpret_cast<std::uint64_t>(data);
    line.memory.region = region ? region->name : RegionName{};
    line.memory.offset = region ? region->offset : 0;
    line.memory.generation = region_generation();
    last_direct_ = sent_ + 1;
  } else if (staged) {
    timed = stage(data, bytes);
  } else if (bytes > 0) {
    std::memcpy(line.payload, data, bytes);
  }
  ++sent_;
  record_->post(sent_, bytes, tag.number);
  record_->transferred.set(sent_);
  const PipeLine::Kind kind = direct ? PipeLine::direct : staged ? PipeLine::staged : PipeLine::eager;
  line.publish(static_cast<std::uint32_t>(sent_), tag.number, tag.signature, static_cast<std::uint32_t>(bytes), kind,
               timed);
  to_.ring();
  return true;
}

/// Copies into the next slot; true if the receiver is to say how long reading it took.
bool ShmSendLink::stage(const std::byte* data, std::size_t bytes) {
  const std::uint64_t index = staged_++ % slots_;
  if (bytes > resident_) resident_ = populate_slots(pipe_, slots_, bytes, true);
  Slot& slot = slot_[index];
  if (slot.copy.timed) {
    const std::uint64_t read = pipe_.read_ticks[index].load(std::memory_order_relaxed);
    choice_.learn(slot.copy.past, static_cast<float>(slot.ticks + read) / static_cast<float>(slot.bytes));
  }
  slot.freed_by = sent_ + 1;
  slot.bytes = static_cast<std::uint32_t>(bytes);
  slot.copy = bytes < kStreamedFrom ? StagingChoice::Copy{} : choice_.next();
  const std::uint64_t start = slot.copy.timed ? ticks() : 0;
  copy(pipe_.slot(index), data, bytes, slot.copy.past);
  if (slot.copy.timed) slot.ticks = ticks() - start;
  return slot.copy.timed;
}

std::uint64_t ShmSendLink::released() {
  if (consumed_ >= last_direct_) return sent_;
  consumed_ = pipe_.consumed.load(std::memory_order_acquire);
  record_->done.set(consumed_);
  return consumed_ >= last_direct_ ? sent_ : consumed_;
}

ShmRecvLink::ShmRecvLink(const Segment& own, const Segment& from, int from_local_rank, int channel, PeerMemory& memory)
    : pipe_(own.pipe_from(from_local_rank, channel)),
      from_(from),
      memory_(memory),
      slots_(static_cast<std::uint64_t>(own.slots())),
      expected_(4) {}

void ShmRecvLink::expect(std::byte* landing, std::size_t bytes, OperationTag tag) {
  if (expected_count_ == expected_.size()) {
    std::vector<Expected> larger(expected_.size() * 2);
    for (std::size_t i = 0; i < expected_count_; ++i)
      larger[i] = expected_[(first_expected_ + i) & (expected_.size() - 1)];
    expected_ = std::move(larger);
    first_expected_ = 0;
  }
  expected_[(first_expected_ + expected_count_) & (expected_.size() - 1)] = {landing, bytes, tag};
  ++expected_count_;
  record_->post(consumed_ + expected_count_, bytes, tag.number);
}

std::optional<Arrival> ShmRecvLink::poll() {
  if (expected_count_ == 0) return std::nullopt;
  const PipeLine& line = pipe_.lines[consumed_ % kPipeLines];
  if (line.flag.load(std::memory_order_acquire) != static_cast<std::uint32_t>(consumed_ + 1)) return std::nullopt;
  const Expected& expected = expected_[first_expected_];
  const OperationTag tag{line.number, line.signature};
  if (tag != expected.tag || line.bytes() != expected.bytes) return Arrival{nullptr, line.bytes(), tag};
  if (fetched_ == nullptr) {
    record_->transferred.set(consumed_ + 1);
    if (line.timed()) fetched_at_ = ticks();
    fetched_ = fetch(line, expected);
  }
  if (fetched_ == nullptr) return std::nullopt;  // error() says why
  return Arrival{fetched_, line.bytes(), tag};
}

const std::byte* ShmRecvLink::fetch(const PipeLine& line, const Expected& expected) {
  if (line.kind() == PipeLine::eager) return line.payload;
  if (line.kind() == PipeLine::staged) {
    if (line.bytes() > resident_) resident_ = populate_slots(pipe_, slots_, line.bytes(), false);
    return pipe_.slot(staged_ % slots_);
  }
  if (memory_.same_process()) return reinterpret_cast<const std::byte*>(line.memory.address);
  const RegionName& region = line.memory.region;
  if (region.descriptor >= 0 && line.memory.offset <= region.bytes &&
      line.bytes() <= region.bytes - line.memory.offset) {
    if (const Result<std::byte*> mapped = memory_.map(region, line.memory.generation)) {
      memory_.begin_use();
      uses_memory_ = true;
      return *mapped + line.memory.offset;
    }
  }
  std::byte* target = expected.landing;
  if (target == nullptr) {
    if (bounce_ == nullptr) bounce_ = std::make_unique<std::byte[]>(kSlotBytes);
    target = bounce_.get();
  }
  if (const Status pulled = memory_.pull(target, line.memory.address, line.bytes()); !pulled) {
    error_ = std::make_unique<Error>(pulled.error());
    return nullptr;
  }
  return target;
}

void ShmRecvLink::release() {
  const PipeLine& line = pipe_.lines[consumed_ % kPipeLines];
  if (line.kind() == PipeLine::staged) {
    if (line.timed())
      pipe_.read_ticks[staged_ % slots_].store(static_cast<std::uint32_t>(ticks() - fetched_at_),
                                               std::memory_order_relaxed);
    ++staged_;
  }
  ++consumed_;
  first_expected_ = (first_expected_ + 1) & (expected_.size() - 1);
  --expected_count_;
  fetched_ = nullptr;
  if (uses_memory_) memory_.end_use();
  uses_memory_ = false;
  record_->done.set(consumed_);
  pipe_.consumed.store(consumed_, std::memory_order_release);
  from_.ring();
}

}  // namespace tutti
