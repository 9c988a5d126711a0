// Links through shared memory. A chunk travels in one of three ways:
//   eager    up to 48 bytes, in the cache line that holds its flag
//   staged   copied into one of a few slots of the receiver's segment, flagged by a line
//   direct   the line names the sender's memory, which the receiver can map (or is its own process's, or may be read
//            by cross-memory attach); it reads from there, and the sender's memory is released when it has
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "memory/peer_memory.hpp"
#include "monitor/layout.hpp"
#include "transport/link.hpp"
#include "transport/shm/segment.hpp"
#include "transport/shm/staging.hpp"

namespace tutti {

/// From how many bytes on a chunk is left where it is, for the receiver to read.
struct DirectFrom {
  std::size_t mapped = ~std::size_t{0};    // memory of tutti::allocate
  std::size_t ordinary = ~std::size_t{0};  // any other
};

class ShmSendLink final : public SendLink {
 public:
  /// `to`: the receiver's segment.
  ShmSendLink(const Segment& to, int own_local_rank, int channel, DirectFrom direct_from);

  bool send(const std::byte* data, std::size_t bytes, OperationTag tag) override {
    return put(data, bytes, tag, bytes >= direct_from_.mapped);
  }
  bool send_copy(const std::byte* data, std::size_t bytes, OperationTag tag) override {
    return put(data, bytes, tag, false);
  }
  std::uint64_t sent() const override { return sent_; }
  std::uint64_t released() override;
  std::size_t chunk_limit() const override { return kSlotBytes; }
  const Error* error() const override { return nullptr; }
  void observe(monitor::LinkRecord& record) override { record_ = &record; }

 private:
  bool put(const std::byte* data, std::size_t bytes, OperationTag tag, bool may_stay);
  bool has_credit(bool wants_slot);
  bool stage(const std::byte* data, std::size_t bytes);

  const Segment& to_;
  Pipe& pipe_;
  DirectFrom direct_from_;
  StagingChoice choice_;
  const std::uint64_t slots_;
  std::uint64_t sent_ = 0;
  std::uint64_t consumed_ = 0;     // as last read
  std::uint64_t last_direct_ = 0;  // number after the last frame offered for pulling
  std::uint64_t staged_ = 0;
  std::size_t resident_ = 0;  // bytes of each slot
  struct Slot {
    std::uint64_t freed_by = 0;  // frame that must be consumed before it is free
    std::uint64_t ticks = 0;     // of the copy, where timed
    std::uint32_t bytes = 0;
    StagingChoice::Copy copy;
  };
  Slot slot_[slots_for(2)];
  monitor::LinkRecord unseen_;
  monitor::LinkRecord* record_ = &unseen_;
};

class ShmRecvLink final : public RecvLink {
 public:
  ShmRecvLink(const Segment& own, const Segment& from, int from_local_rank, int channel, PeerMemory& memory);

  void expect(std::byte* landing, std::size_t bytes, OperationTag tag) override;
  std::optional<Arrival> poll() override;
  void release() override;
  std::size_t chunk_limit() const override { return kSlotBytes; }
  const Error* error() const override { return error_.get(); }
  void observe(monitor::LinkRecord& record) override { record_ = &record; }

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
  std::size_t resident_ = 0;  // bytes of each slot
  const std::uint64_t slots_;
  std::vector<Expected> expected_;  // a ring that grows, of a power of two
  std::size_t first_expected_ = 0;
  std::size_t expected_count_ = 0;
  const std::byte* fetched_ = nullptr;
  bool uses_memory_ = false;      // `fetched_` lies in the sender's memory, mapped here
  std::uint64_t fetched_at_ = 0;  // ticks, where timed
  std::unique_ptr<std::byte[]> bounce_;
  std::unique_ptr<Error> error_;
  monitor::LinkRecord unseen_;
  monitor::LinkRecord* record_ = &unseen_;
};

}  // namespace tutti
