#include "transport/shm/shm_stage.hpp"

#include "base/clock.hpp"
#include "reduce/reduce.hpp"

namespace tutti {

/// Learns what the last turn on this half has cost, per byte written and per byte read by peers.
void ShmStage::learn_from(const Turn& last) {
  if (!last.copy.timed || last.write_bytes == 0) return;
  std::uint64_t read_ticks = 0;
  std::uint64_t read_bytes = 0;
  for (const Segment* const peer : peers_) {
    if (peer == nullptr) continue;
    const StageReads& reads = peer->head().stage_reads[half_];
    read_ticks += reads.ticks.load(std::memory_order_relaxed);
    read_bytes += reads.bytes.load(std::memory_order_relaxed);
  }
  if (read_bytes == 0) return;
  choice_.learn(last.copy.past, static_cast<float>(last.write_ticks) / static_cast<float>(last.write_bytes) +
                                    static_cast<float>(read_ticks) / static_cast<float>(read_bytes));
}

void ShmStage::begin_turn() {
  learn_from(turns_[half_]);
  turns_[half_] = Turn{.copy = choice_.next()};
}

void ShmStage::end_turn(bool change_halves) {
  StageReads& reads = own_.head().stage_reads[half_];
  reads.ticks.store(turns_[half_].read_ticks, std::memory_order_relaxed);
  reads.bytes.store(turns_[half_].read_bytes, std::memory_order_relaxed);
  if (change_halves) half_ = !half_;
}

void ShmStage::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  Turn& turn = turns_[half_];
  const std::uint64_t start = turn.copy.timed ? ticks() : 0;
  tutti::copy(to, from, bytes, turn.copy.past && bytes >= kStreamedFrom);
  if (!turn.copy.timed) return;
  turn.write_ticks += ticks() - start;
  turn.write_bytes += bytes;
}

}  // namespace tutti
