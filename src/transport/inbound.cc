#include "transport/inbound.hpp"

#include <algorithm>

#include "monitor/layout.hpp"
#include "transport/peer.hpp"

namespace tutti {
namespace {

// More links than any job has; a peer that opens more is broken.
constexpr std::size_t kAwaitedLimit = 1 << 16;

}  // namespace

class Inbound::Link final : public RecvLink {
 public:
  Link(std::shared_ptr<Peer> peer, const LinkId& id) : peer_(std::move(peer)), id_(id), state_(peer_->limits()) {}
  ~Link() override {
    const std::lock_guard lock(peer_->mutex());
    peer_->inbound_.close(*this);
  }

  void expect(std::byte* landing, std::size_t bytes, OperationTag tag) override {
    const std::lock_guard lock(peer_->mutex());
    state_.expect(landing, bytes, tag);
    record_->post(state_.expected(), bytes, tag.number);
    if (state_.expected() > state_.received()) peer_->unsettled();
  }

  std::optional<Arrival> poll() override {
    const std::lock_guard lock(peer_->mutex());
    // Here rather than in expect(), so that a run of them is told at once.
    peer_->inbound_.maybe_ack(*this, false);
    return state_.poll();
  }

  void release() override {
    const std::lock_guard lock(peer_->mutex());
    state_.release();
    record_->third.set(state_.released());
    peer_->inbound_.maybe_ack(*this, false);
  }

  std::size_t chunk_limit() const override { return peer_->limits().chunk_limit; }
  void observe(monitor::LinkRecord& record) override {
    const std::lock_guard lock(peer_->mutex());
    record_ = &record;
  }

  // The error is set once and never altered: what the pointer shows may be read without the mutex.
  const Error* error() const override {
    const std::lock_guard lock(peer_->mutex());
    if (!peer_->error() || state_.poll().has_value()) return nullptr;
    // A peer that left in order is missed only by who still expects something from it.
    if (peer_->left_in_order() && state_.expected() == state_.released()) return nullptr;
    return &*peer_->error();
  }

 private:
  friend class Inbound;

  std::shared_ptr<Peer> peer_;
  LinkId id_;
  LinkReceiver state_;
  bool opened_ = false;   // by the sender
  bool touched_ = false;  // is in Inbound::touched_
  monitor::LinkRecord unseen_;
  monitor::LinkRecord* record_ = &unseen_;
};

std::unique_ptr<RecvLink> Inbound::open(const LinkId& id) {
  auto link = std::make_unique<Link>(peer_.shared_from_this(), id);
  const std::lock_guard lock(peer_.mutex());
  links_[id] = link.get();
  link->opened_ = awaited_.erase(id) != 0;
  maybe_ack(*link, true);
  return link;
}

void Inbound::close(Link& link) {
  const auto found = links_.find(link.id_);
  if (found != links_.end() && found->second == &link) links_.erase(found);
  std::erase(touched_, &link);
  for (const auto& lane : peer_.lanes()) lane->forget_incoming(link.id_);
  if (link.opened_ && !peer_.lanes().empty()) send_close(link.id_);
}

// The sender waits for no more acknowledgements.
void Inbound::send_close(const LinkId& id) {
  Lane& lane = peer_.best_lane();
  FrameHeader header;
  header.type = FrameType::close;
  header.epoch = lane.epoch();
  header.link = id;
  lane.post(header, nullptr, true);
}

void Inbound::lane_lost(const Lane& lane) {
  if (latest_ == &lane) latest_ = nullptr;
  ack_may_be_lost_ = true;
  for (const auto& [id, link] : links_) link->state_.abandon(lane.index());
}

void Inbound::resend_acks() {
  if (!ack_may_be_lost_ || peer_.lanes().empty()) return;
  ack_may_be_lost_ = false;
  ack_all(peer_.best_lane());
}

void Inbound::ack_all(Lane& lane) {
  for (const auto& [id, link] : links_)
    if (link->opened_) send_ack(*link, lane);
}

Result<std::byte*> Inbound::begin(Lane& lane, const FrameHeader& header) {
  latest_ = &lane;
  if (header.type != FrameType::data) return nullptr;
  const auto found = links_.find(header.link);
  if (found == links_.end()) return nullptr;  // closed since
  return found->second->state_.begin(lane.index(), header);
}

void Inbound::on_data(const Lane& lane, const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found == links_.end()) return;
  Link& link = *found->second;
  link.state_.complete(lane.index(), header.sequence);
  link.record_->second.set(link.state_.received());
  if (!link.touched_) touched_.push_back(&link);
  link.touched_ = true;
}

Status Inbound::on_open(Lane& lane, const LinkId& id) {
  const auto found = links_.find(id);
  if (found != links_.end()) {
    found->second->opened_ = true;
    send_ack(*found->second, lane);
    return {};
  }
  if (awaited_.size() >= kAwaitedLimit) return fail(ErrorCode::refused, "too many links opened");
  awaited_.insert(id);
  return {};
}

void Inbound::on_close(const LinkId& id) {
  awaited_.erase(id);
  const auto found = links_.find(id);
  if (found != links_.end()) found->second->opened_ = false;
}

Status Inbound::on_fence(Lane& lane, const FrameHeader& header) {
  if (lane.index() == header.lane && lane.epoch() <= header.lane_epoch)
    return fail(ErrorCode::refused, "a lane was named as lost by itself");
  const auto& lanes = peer_.lanes();
  const auto same = std::find_if(lanes.begin(), lanes.end(), [&](const auto& each) {
    return each->index() == header.lane && each->epoch() <= header.lane_epoch;
  });
  if (same != lanes.end())
    peer_.lane_down(*std::shared_ptr<Lane>(*same), fail(ErrorCode::system, "the peer lost it").value(), false);
  peer_.slot_of(header.lane).end(header.lane_epoch);
  // Acknowledgements may have been lost with the lane; they go before the answer, on the same lane.
  ack_all(lane);
  FrameHeader answer;
  answer.type = FrameType::fenced;
  answer.epoch = lane.epoch();
  answer.lane = header.lane;
  answer.lane_epoch = header.lane_epoch;
  lane.post(answer, nullptr, true);
  return {};
}

void Inbound::on_trial(const Lane& lane) {
  if (peer_.lanes().empty()) return;
  Lane& back = peer_.outbound_.answer_lane(latest_);
  FrameHeader header;
  header.type = FrameType::tried;
  header.epoch = back.epoch();
  header.lane = lane.index();
  header.lane_epoch = lane.epoch();
  header.stamp = stamp_of(peer_.now());
  back.post(header, nullptr, true);
}

void Inbound::maybe_ack(Link& link, bool settled) {
  if (peer_.lanes().empty() || !link.opened_ || !link.state_.owes_acknowledgement(settled)) return;
  send_ack(link, peer_.outbound_.answer_lane(latest_));
}

void Inbound::send_ack(Link& link, Lane& lane) {
  const Acknowledgement ack = link.state_.acknowledge();
  FrameHeader header;
  header.type = FrameType::ack;
  header.epoch = lane.epoch();
  header.link = link.id_;
  header.sequence = ack.received;
  header.arrived = ack.arrived;
  header.credit = ack.credit;
  if (peer_.lanes().size() > 1) header.stamp = stamp_of(peer_.now());
  lane.post(header, nullptr, true);
}

bool Inbound::awaits() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const auto& each) { return each.second->state_.expected() > each.second->state_.received(); });
}

void Inbound::pause(bool settled) {
  std::size_t kept = 0;
  for (Link* link : touched_) {
    maybe_ack(*link, settled);
    link->touched_ = link->state_.owes_acknowledgement(true);
    if (link->touched_) touched_[kept++] = link;
  }
  touched_.resize(kept);
}

}  // namespace tutti
