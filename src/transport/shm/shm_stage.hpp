// The stage in the segments of a host's ranks. Measures what copies into it cost, and what peers take to read them, and
// chooses how to copy by that (StagingChoice).
//
// Each rank leaves in its segment what it has read of its peers' stages in the last turn of each half, and in how many
// ticks. When the half's next turn begins, the rank that wrote there adds this up over its peers. Such figures may be
// some turns old: they decide how to copy, never what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/shared_stage.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/staging.hpp"

namespace tutti {

class ShmStage final : public SharedStage {
 public:
  /// `own`: this rank's segment; `ranks`: of the communicator.
  ShmStage(const Segment& own, std::size_t ranks) : own_(own), peers_(ranks) {}

  /// Makes a peer's stage known. The segment must outlive this.
  void add_peer(int peer, const Segment& segment) { peers_[static_cast<std::size_t>(peer)] = &segment; }

  std::size_t bytes() const override { return kStageBytes; }
  std::byte* own() const override { return own_.stage(half_); }
  std::byte* of(int peer) const override { return peers_[static_cast<std::size_t>(peer)]->stage(half_); }
  void begin_turn() override;
  void end_turn(bool change_halves) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void count_read(std::uint64_t ticks, std::size_t bytes) override {
    turns_[half_].read_ticks += ticks;
    turns_[half_].read_bytes += bytes;
  }

 private:
  struct Turn {
    StagingChoice::Copy copy;
    std::uint64_t write_ticks = 0;
    std::uint64_t write_bytes = 0;
    std::uint64_t read_ticks = 0;
    std::uint64_t read_bytes = 0;
  };
  void learn_from(const Turn& last);

  Segment own_;
  std::vector<const Segment*> peers_;  // by rank; null: not attached
  bool half_ = false;
  Turn turns_[2];  // the last of each half
  StagingChoice choice_;
};

}  // namespace tutti
