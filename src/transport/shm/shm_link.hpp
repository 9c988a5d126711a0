// Links through shared memory. A chunk travels in one of three ways:
//   eager    up to 48 bytes, in the cache line that holds its flag
//   staged   copied into one of a few slots of the receiver's segment, flagged by a line
//   direct   the line names the sender's memory; the receiver pulls from there (mapped, same process, or
//            cross-memory attach), and the sender's memory is released when it has
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "memory/peer_memory.hpp"
#include "transport/link.hpp"
#include "transport/shm/segment.hpp"

namespace tutti {

/// What a pair of ranks of a host can do for each other.
enum class PullPath : std::uint8_t { none, attach, same_process };

class ShmSendLink final : public SendLink {
 public:
  /// `to`: the receiver's segment; chunks of at least `direct_from` bytes are offered for pulling.
  ShmSendLink(const Segment& to, int own_local_rank, int channel, std::size_t direct_from);

  bool send(const std::byte* data, std::size_t bytes, OperationTag tag) override {
    return put(data, bytes, tag, bytes >= direct_from_);
  }
  bool send_copy(const std::byte* data, std::size_t bytes, OperationTag tag) override {
    return put(data, bytes, tag, false);
  }
  std::uint64_t sent() const override { return sent_; }
  std::uint64_t released() override;
  std::size_t chunk_limit() const override { return kSlotBytes; }
  const Error* error() const override { return nullptr; }

 private:
  bool put(const std::byte* data, std::size_t bytes, OperationTag tag, bool direct);
  bool has_credit(bool wants_slot);

  const Segment& to_;
  Pipe& pipe_;
  std::size_t direct_from_;
  std::uint64_t sent_ = 0;
  std::uint64_t consumed_ = 0;     // as last read
  std::uint64_t last_direct_ = 0;  // number after the last frame offered for pulling
  std::uint64_t staged_ = 0;
  std::uint64_t slot_freed_by_[kPipeSlots] = {};  // frame that must be consumed before the slot is free
};

class ShmRecvLink final : public RecvLink {
 public:
  ShmRecvLink(const Segment& own, const Segment& from, int from_local_rank, int channel, PeerMemory& memory);

  void expect(std::byte* landing, std::size_t bytes, OperationTag tag) override;
  std::optional<Arrival> poll() override;
  void release() override;
  std::size_t chunk_limit() const override { return kSlotBytes; }
  const Error* error() const override { return error_.get(); }

 private:
  struct Expected {
    std::byte* landing;
    std::size_t bytes;
    OperationTag tag;
  };

  const std::byte* fetch(const PipeLine& line, const Expected& expected);

  Pipe& pipe_;
  const Segment& from_;
  PeerMemory& memory_;
  std::uint64_t consumed_ = 0;
  std::uint64_t staged_ = 0;
  std::vector<Expected> expected_;  // a ring that grows: a step may announce all its slices at once
  std::size_t first_expected_ = 0;
  std::size_t expected_count_ = 0;
  const std::byte* fetched_ = nullptr;
  std::unique_ptr<std::byte[]> bounce_;
  std::unique_ptr<Error> error_;
};

}  // namespace tutti
