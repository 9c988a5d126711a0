#include "transport/outbound.hpp"

#include <algorithm>

#include "transport/peer.hpp"

namespace tutti {
namespace {

FrameHeader header_of(FrameType type, const Lane& lane, const LinkId& link) {
  FrameHeader header;
  header.type = type;
  header.epoch = lane.epoch();
  header.link = link;
  return header;
}

}  // namespace

class Outbound::Link final : public SendLink {
 public:
  Link(std::shared_ptr<Peer> peer, const LinkId& id) : peer_(std::move(peer)), id_(id), state_(peer_->limits()) {}
  ~Link() override {
    const std::lock_guard lock(peer_->mutex());
    peer_->outbound_.close(*this);
  }

  bool send(const std::byte* data, std::size_t bytes, OperationTag tag) override {
    const std::lock_guard lock(peer_->mutex());
    return peer_->outbound_.send(*this, data, bytes, tag);
  }
  std::uint64_t sent() const override {
    const std::lock_guard lock(peer_->mutex());
    return state_.posted();
  }
  std::uint64_t released() override {
    const std::lock_guard lock(peer_->mutex());
    return state_.released();
  }
  std::size_t chunk_limit() const override { return peer_->limits().chunk_limit; }

  // The error is set once and never altered: what the pointer shows may be read without the mutex.
  const Error* error() const override {
    const std::lock_guard lock(peer_->mutex());
    if (!peer_->error()) return nullptr;
    // A peer that left in order has what it needed; it is missed only by who still needs something from it.
    if (peer_->left_in_order() && state_.released() == state_.posted() && !refused_) return nullptr;
    return &*peer_->error();
  }

 private:
  friend class Outbound;

  std::shared_ptr<Peer> peer_;
  LinkId id_;
  LinkSender state_;
  bool refused_ = false;  // a chunk was offered after the peer left
};

std::unique_ptr<SendLink> Outbound::open(const LinkId& id) {
  auto link = std::make_unique<Link>(peer_.shared_from_this(), id);
  const std::lock_guard lock(peer_.mutex());
  links_[id] = link.get();
  announce(id, FrameType::open);
  return link;
}

void Outbound::announce(const LinkId& id, FrameType type) {
  if (peer_.lanes().empty()) return;
  Lane& lane = *peer_.lanes().front();
  lane.post(header_of(type, lane, id), nullptr, true);
}

void Outbound::close(Link& link) {
  const auto found = links_.find(link.id_);
  if (found != links_.end() && found->second == &link) links_.erase(found);
  for (const auto& lane : peer_.lanes()) lane->forget_outgoing(link.id_);
  for (std::uint64_t sequence = link.state_.acked(); sequence != link.state_.posted(); ++sequence) {
    const auto& chunk = link.state_.chunk(sequence);
    if (!chunk.acked) outstanding_[chunk.lane] -= chunk.load();
  }
  announce(link.id_, FrameType::close);
}

bool Outbound::send(Link& link, const std::byte* data, std::size_t bytes, OperationTag tag) {
  if (peer_.error()) link.refused_ = true;
  if (peer_.error() || bytes > peer_.limits().chunk_limit || !link.state_.may_post(bytes)) return false;
  Lane* lane = least_loaded();
  if (lane == nullptr) return false;
  const std::uint64_t sequence = link.state_.post(data, bytes, tag, lane->index());
  outstanding_[lane->index()] += link.state_.chunk(sequence).load();
  post_chunk(*lane, link, sequence);
  return true;
}

void Outbound::post_chunk(Lane& lane, const Link& link, std::uint64_t sequence) {
  const LinkSender::Chunk& chunk = link.state_.chunk(sequence);
  FrameHeader header = header_of(FrameType::data, lane, link.id_);
  header.bytes = chunk.bytes;
  header.tag = chunk.tag;
  header.sequence = sequence;
  header.wants_ack = chunk.copy == nullptr;
  lane.post(header, chunk.data, chunk.copy != nullptr);
}

// Of equals the first, at both ends: an exchange of small chunks then runs on one connection, where TCP acknowledges
// with the data that goes back.
Lane* Outbound::least_loaded() {
  Lane* best = nullptr;
  for (const auto& lane : peer_.lanes()) {
    const auto load = std::pair(outstanding_[lane->index()], lane->index());
    if (best == nullptr || load < std::pair(outstanding_[best->index()], best->index())) best = lane.get();
  }
  return best;
}

void Outbound::lane_up(Lane& lane) {
  if (outstanding_.size() <= lane.index()) outstanding_.resize(lane.index() + 1);
  if (peer_.lanes().size() > 1) return;
  for (const auto& [id, link] : links_) announce(id, FrameType::open);
}

bool Outbound::waits_for_fence(std::uint32_t lane) const {
  return std::any_of(lost_.begin(), lost_.end(), [&](const LostLane& each) { return each.index == lane; });
}

void Outbound::lane_lost(const Lane& lane) {
  lost_.push_back({lane.index(), lane.epoch()});
  // The lane just lost may have carried requests to fence others, and links' openings.
  for (const LostLane& each : lost_) ask_to_fence(each);
  for (const auto& [id, link] : links_)
    if (!link->state_.has_credit()) announce(id, FrameType::open);
}

void Outbound::ask_to_fence(const LostLane& lost) {
  Lane& lane = *peer_.lanes().front();
  FrameHeader header = header_of(FrameType::fence, lane, {});
  header.lane = lost.index;
  header.lane_epoch = lost.epoch;
  lane.post(header, nullptr, true);
}

void Outbound::on_fenced(const FrameHeader& header) {
  const auto found = std::find_if(lost_.begin(), lost_.end(), [&](const LostLane& each) {
    return each.index == header.lane && each.epoch == header.lane_epoch;
  });
  if (found == lost_.end()) return;
  const LostLane lost = *found;
  lost_.erase(found);
  resend(lost);
}

void Outbound::resend(const LostLane& lost) {
  for (const auto& [id, link] : links_)
    for (const std::uint64_t sequence : link->state_.unacked_on(lost.index)) {
      Lane& lane = *least_loaded();
      const std::size_t load = link->state_.chunk(sequence).load();
      outstanding_[lost.index] -= load;
      outstanding_[lane.index()] += load;
      link->state_.resent(sequence, lane.index());
      post_chunk(lane, *link, sequence);
    }
}

Status Outbound::on_ack(const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found == links_.end()) return {};  // closed since
  completed_.clear();
  auto accepted = found->second->state_.acknowledge({header.sequence, header.arrived, header.credit}, completed_);
  for (const auto& each : completed_) outstanding_[each.lane] -= each.load;
  return accepted;
}

void Outbound::transmitted(const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found != links_.end()) found->second->state_.transmitted(header.sequence);
}

}  // namespace tutti
