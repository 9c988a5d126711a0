#include "transport/inbound.hpp"

#include <algorithm>
#include <utility>

#include "monitor/layout.hpp"

namespace tutti {
namespace {

// More links than any job has; a peer that opens more is broken.
constexpr std::size_t kAwaitedLimit = 1 << 16;
// A closed link that is forgotten matters only if its close frame was lost, too.
constexpr std::size_t kClosedLimit = 1 << 12;

LaneKey key_of(const Lane& lane) { return tutti::key_of(lane.index(), lane.epoch()); }

}  // namespace

struct Inbound::Link final : RecvLink {
  Link(std::shared_ptr<Inbound> owner, const LinkId& of)
      : inbound(std::move(owner)), id(of), state(inbound->context_.options.limits) {}
  ~Link() override {
    const std::lock_guard lock(mutex());
    inbound->close(*this);
  }

  void expect(std::byte* landing, std::size_t bytes, OperationTag tag) override {
    const std::lock_guard lock(mutex());
    state.expect(landing, bytes, tag);
    record->post(state.expected(), bytes, tag.number);
    if (state.expected() > state.received()) inbound->context_.look_soon();
  }

  std::optional<Arrival> poll() override {
    const std::lock_guard lock(mutex());
    // Here rather than in expect(), so that a run of them is acknowledged at once.
    inbound->maybe_ack(*this, false);
    return state.poll();
  }

  void release() override {
    const std::lock_guard lock(mutex());
    state.release();
    record->done.set(state.released());
    inbound->maybe_ack(*this, false);
  }

  Transit transit() const override {
    const std::lock_guard lock(mutex());
    return state.is_arriving() ? Transit::chunks : Transit::none;
  }

  std::size_t chunk_limit() const override { return inbound->context_.options.limits.chunk_limit; }
  void observe(monitor::LinkRecord& observed) override {
    const std::lock_guard lock(mutex());
    record = &observed;
  }

  // The error is set once and never altered: what the pointer shows may be read without the mutex.
  const Error* error() const override {
    const std::lock_guard lock(mutex());
    const PeerContext& context = inbound->context_;
    if (!context.error || state.poll().has_value()) return nullptr;
    // A peer that left in order is missed only by who still expects something from it.
    if (context.left_in_order && state.expected() == state.released()) return nullptr;
    return &*context.error;
  }

  std::mutex& mutex() const { return inbound->context_.mutex; }

  const std::shared_ptr<Inbound> inbound;
  const LinkId id;
  LinkReceiver state;
  bool opened = false;   // by the sender
  bool touched = false;  // is in Inbound::touched_
  monitor::LinkRecord unseen;
  monitor::LinkRecord* record = &unseen;
};

std::unique_ptr<RecvLink> Inbound::open(const std::shared_ptr<Inbound>& self, const LinkId& id) {
  auto link = std::make_unique<Link>(self, id);
  const std::lock_guard lock(self->context_.mutex);
  self->links_[id] = link.get();
  self->closed_.erase(id);
  link->opened = self->awaited_.erase(id) != 0;
  self->maybe_ack(*link, true);
  return link;
}

// The close frame says that the sender need not wait for acknowledgements any more. If it is lost, or there is no lane,
// the sender hears of it when it opens the link again or sends a chunk again.
void Inbound::close(const Link& link) {
  const auto found = links_.find(link.id);
  if (found != links_.end() && found->second == &link) links_.erase(found);
  std::erase(touched_, &link);
  for (const LaneEntry* each : lanes_.live()) each->live->forget_incoming(link.id);
  if (!link.opened) return;
  if (closed_.size() >= kClosedLimit) closed_.clear();
  closed_.insert(link.id);
  if (!lanes_.empty()) send_close(lanes_.best(), link.id);
}

void Inbound::send_close(Lane& lane, const LinkId& id) {
  lane.post(header_for(lane, FrameType::close, id), nullptr, true);
}

void Inbound::lane_lost(const Lane& lane) {
  if (latest_ == &lane) latest_ = nullptr;
  ack_may_be_lost_ = true;
  for (const auto& [id, link] : links_) link->state.abandon(key_of(lane));
}

void Inbound::resend_acks() {
  if (!ack_may_be_lost_ || lanes_.empty()) return;
  ack_may_be_lost_ = false;
  ack_all(lanes_.best());
}

void Inbound::ack_all(Lane& lane) {
  for (const auto& [id, link] : links_) {
    if (link->opened) send_ack(*link, lane);
    for (const auto& chunk : link->state.corrupted()) ask_again(*link, chunk, lane);
  }
}

void Inbound::ask_again(const Link& link, const LinkReceiver::Corrupted& chunk, Lane& lane) {
  FrameHeader header = header_for(lane, FrameType::again, link.id);
  header.sequence = chunk.sequence;
  header.arrived = chunk.times;
  header.lane = static_cast<std::uint32_t>(chunk.lane);
  header.lane_epoch = static_cast<std::uint32_t>(chunk.lane >> 32);
  lane.post(header, nullptr, true);
}

Result<std::byte*> Inbound::begin(Lane& lane, const FrameHeader& header) {
  latest_ = &lane;
  if (header.type != FrameType::data) return nullptr;
  const auto found = links_.find(header.link);
  if (found == links_.end()) return nullptr;  // closed since
  return found->second->state.begin(key_of(lane), header);
}

Receipt Inbound::on_data(Lane& lane, const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found == links_.end()) {
    if (closed_.contains(header.link)) send_close(lane, header.link);
    return {};
  }
  Link& link = *found->second;
  const Receipt receipt = link.state.complete(key_of(lane), header.sequence);
  if (receipt.times_corrupted != 0)
    ask_again(link, {header.sequence, key_of(lane), receipt.times_corrupted}, lanes_.best());
  link.record->transferred.set(link.state.received());
  if (!link.touched) touched_.push_back(&link);
  link.touched = true;
  return receipt;
}

Status Inbound::on_open(Lane& lane, const LinkId& id) {
  const auto found = links_.find(id);
  if (found != links_.end()) {
    found->second->opened = true;
    send_ack(*found->second, lane);
    return {};
  }
  if (closed_.contains(id)) {
    send_close(lane, id);
    return {};
  }
  if (awaited_.size() >= kAwaitedLimit) return fail(ErrorCode::refused, "too many links opened");
  awaited_.insert(id);
  return {};
}

void Inbound::on_close(const LinkId& id) {
  awaited_.erase(id);
  closed_.erase(id);
  const auto found = links_.find(id);
  if (found != links_.end()) found->second->opened = false;
}

void Inbound::answer_fence(Lane& lane, const FrameHeader& header) {
  // Acknowledgements may have been lost with the lane; they go before the answer, on the same lane.
  ack_all(lane);
  FrameHeader answer = header_for(lane, FrameType::fenced);
  answer.lane = header.lane;
  answer.lane_epoch = header.lane_epoch;
  lane.post(answer, nullptr, true);
}

void Inbound::on_trial(const Lane& lane) {
  if (lanes_.empty()) return;
  Lane& back = lanes_.answer(latest_);
  FrameHeader header = header_for(back, FrameType::tried);
  header.lane = lane.index();
  header.lane_epoch = lane.epoch();
  header.stamp = stamp_of(context_.now());
  back.post(header, nullptr, true);
}

void Inbound::maybe_ack(Link& link, bool settled) {
  if (lanes_.empty() || !link.opened || !link.state.owes_acknowledgement(settled)) return;
  send_ack(link, lanes_.answer(latest_));
}

void Inbound::send_ack(Link& link, Lane& lane) {
  const Acknowledgement ack = link.state.acknowledge();
  FrameHeader header = header_for(lane, FrameType::ack, link.id);
  header.sequence = ack.received;
  header.arrived = ack.arrived;
  header.credit = ack.credit;
  if (lanes_.size() > 1) header.stamp = stamp_of(context_.now());
  lane.post(header, nullptr, true);
}

bool Inbound::awaits() const {
  return std::any_of(links_.begin(), links_.end(),
                     [](const auto& each) { return each.second->state.expected() > each.second->state.received(); });
}

void Inbound::pause(bool settled) {
  std::size_t kept = 0;
  for (Link* link : touched_) {
    maybe_ack(*link, settled);
    link->touched = link->state.owes_acknowledgement(true);
    if (link->touched) touched_[kept++] = link;
  }
  touched_.resize(kept);
}

}  // namespace tutti
