#include "transport/shm/host.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace tutti {

Host::Peer::Peer(Segment s, const SegmentName& name)
    : segment(std::move(s)), memory(name.pid, name.process == process_identity()) {}

Host::Host(Segment own, std::vector<SegmentName> names, int rank)
    : OneSidedPeers(own.head().fence.stopped),
      own_(std::move(own)),
      names_(std::move(names)),
      rank_(rank),
      peers_(names_.size()),
      stage_(own_, names_.size()) {
  one_process_ = std::all_of(names_.begin(), names_.end(),
                             [](const SegmentName& name) { return name.process == process_identity(); });
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank && name_of(peer).process == process_identity()) shares_process_ = true;
}

Status Host::attach(int peer) {
  auto& slot = peers_[static_cast<std::size_t>(peer)];
  if (slot != nullptr) return {};
  const SegmentName& name = name_of(peer);
  Result<Segment> segment = Segment::attach(name);
  if (!segment) return tl::unexpected(segment.error());
  slot = std::make_unique<Peer>(std::move(*segment), name);
  stage_.add_peer(peer, slot->segment);
  return {};
}

void Host::leave() const {
  if (own_.name().pid == ::getpid()) own_.head().left.store(1, std::memory_order_release);
}

bool Host::has_left(int peer) {
  if (const Status attached = attach(peer); !attached) return attached.error().code == ErrorCode::rank_died;
  return head_of(peer).left.load(std::memory_order_acquire) != 0;
}

bool Host::can_attach_memory() {
  for (int peer = 0; peer < size(); ++peer) {
    const SegmentName& name = name_of(peer);
    if (name.pid == 0 || name.process == process_identity()) continue;
    if (!cross_memory_attach_works()) return false;
    std::uint64_t nonce = 0;
    const PeerMemory memory(name.pid, false);
    const std::uint64_t address = name.address + offsetof(SegmentHead, nonce);
    if (!memory.pull(&nonce, address, sizeof nonce) || nonce != name.nonce) return false;
  }
  return true;
}

bool Host::enter(OperationTag tag, std::span<std::byte> input, std::span<std::byte> output) {
  Entry& entry = own_.head().entries[entry_];
  const auto describe = [](std::span<std::byte> buffer, Entry::Side& side) {
    side.address = reinterpret_cast<std::uint64_t>(buffer.data());
    const auto region = buffer.data() != nullptr ? find_region(buffer.data(), buffer.size()) : std::nullopt;
    side.region = region ? region->name : RegionName{};
    side.offset = region ? region->offset : 0;
    return region.has_value();
  };
  const bool has_input = describe(input, entry.input);
  const bool has_output = describe(output, entry.output);
  entry.generation = region_generation();
  const bool can_be_mapped = (has_input && has_output) || one_process_;
  entry.mapped = can_be_mapped ? 1 : 0;
  entry.signature = tag.signature;
  entry.number.store(tag.number + 1, std::memory_order_release);
  return can_be_mapped;
}

Result<std::array<OneSidedPeers::Place, 2>> Host::begin_use(int peer) {
  const Entry& entry = entry_of(peer);
  PeerMemory& memory = memory_of(peer);
  std::array<Place, 2> places;
  const Entry::Side* const sides[2] = {&entry.input, &entry.output};
  memory.begin_use();
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Entry::Side& side = *sides[i];
    places[i].address = side.address;
    if (memory.same_process()) {
      places[i].mapped = reinterpret_cast<std::byte*>(side.address);
    } else if (side.region.descriptor >= 0) {
      const Result<std::byte*> mapped = memory.map(side.region, entry.generation);
      if (!mapped) {
        memory.end_use();
        return tl::unexpected(mapped.error());
      }
      places[i].mapped = *mapped + side.offset;
    }
  }
  return places;
}

void Host::signal(int peer, int channel) {
  Peer& to = *peers_[static_cast<std::size_t>(peer)];
  to.segment.signals_from(rank_).count[channel].store(++to.signalled[channel], std::memory_order_release);
  to.segment.ring();
}

bool Host::take_signal(int peer, int channel) {
  Peer& from = *peers_[static_cast<std::size_t>(peer)];
  const std::uint64_t count = own_.signals_from(peer).count[channel].load(std::memory_order_acquire);
  if (count <= from.taken[channel]) return false;
  ++from.taken[channel];
  return true;
}

std::unique_ptr<SendLink> Host::open_send(int peer, int channel, DirectFrom direct_from) {
  return std::make_unique<ShmSendLink>(peers_[static_cast<std::size_t>(peer)]->segment, rank_, channel, direct_from);
}

std::unique_ptr<RecvLink> Host::open_recv(int peer, int channel) {
  Peer& from = *peers_[static_cast<std::size_t>(peer)];
  return std::make_unique<ShmRecvLink>(own_, from.segment, peer, channel, from.memory);
}

}  // namespace tutti
