// A peer that knows the secret says anything at all: frames are parsed or refused, payloads land only where they were
// expected, and staging stays within its window. Headers are made valid half of the time, so that the states behind the
// parser are reached.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "transport/frame.hpp"
#include "transport/peer.hpp"

namespace {

using namespace tutti;

class SilentLane final : public Lane {
 public:
  SilentLane() : Lane(0, 1) {}
  void post(const FrameHeader&, const std::byte*, bool) override {}
  void forget_outgoing(const LinkId&) override {}
  void forget_incoming(const LinkId&) override {}
  void close() override {}
  Silence silence(double) override { return {}; }
  std::string name() const override { return "fuzz"; }
};

// Frames with a few bits of freedom: those that a receiver might take.
FrameHeader plausible(std::uint8_t kind, std::uint8_t number, std::uint8_t size) {
  FrameHeader header;
  constexpr FrameType kTypes[] = {FrameType::data, FrameType::data, FrameType::open, FrameType::ack};
  header.type = (kind & 0x60) == 0x60 ? FrameType::again : kTypes[kind % 4];
  header.epoch = header.lane_epoch = 1;
  header.link = {1, 0, 1, 0};
  header.sequence = number;
  header.credit = header.arrived = size;
  header.bytes = header.type == FrameType::data ? size : 0;
  header.tag = {1, static_cast<std::uint32_t>(kind >> 7)};
  header.is_checked = (kind & 4) != 0;
  return header;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::uint8_t> rest(data, size);
  PeerOptions options;
  options.limits.chunk_limit = 256;
  options.limits.window = 1024;
  const auto peer = std::make_shared<Peer>("fuzz", std::move(options));
  const auto lane = std::make_shared<SilentLane>();
  if (!peer->lane_up(lane)) std::abort();
  const auto recv = peer->open_recv({1, 0, 1, 0});
  const auto send = peer->open_send({1, 1, 0, 0});
  std::vector<std::unique_ptr<std::byte[]>> landings;  // of the exact size: a sanitizer sees the first byte beyond
  while (rest.size() >= 4) {
    const std::uint8_t what = rest[0];
    if (what < 64) {
      landings.push_back(std::make_unique<std::byte[]>(rest[1]));
      recv->expect(what % 2 == 0 ? landings.back().get() : nullptr, rest[1], {1, 0});
      if (const auto arrival = recv->poll(); arrival && arrival->data != nullptr) recv->release();
      rest = rest.subspan(4);
      continue;
    }
    FrameBytes bytes = encode(plausible(rest[1], rest[2], rest[3]));
    rest = rest.subspan(4);
    if (what >= 160 && rest.size() >= kFrameHeaderBytes) {
      std::memcpy(bytes.data(), rest.data(), kFrameHeaderBytes);
      rest = rest.subspan(kFrameHeaderBytes);
      if (what >= 176) seal(bytes);
    }
    const auto header = parse_frame(bytes);
    if (!header) continue;
    if (*parse_frame(encode(*header)) != *header || header->bytes > kPayloadLimit) std::abort();
    const std::lock_guard lock(peer->mutex());
    const auto place = peer->begin(*lane, *header);
    if (!place) return 0;
    if (*place != nullptr) std::memset(*place, what, header->bytes);
    if (!peer->complete(*lane, *header)) return 0;
    peer->pause(*lane, what % 2 == 0);
  }
  return 0;
}
