#include "transport/outbound.hpp"

#include <algorithm>
#include <utility>

#include "base/crc32c.hpp"
#include "monitor/layout.hpp"

namespace tutti {

/// The sender state of a link. It outlives the link while copies of its chunks are in flight.
struct Outbound::Sending {
  Sending(const LinkId& of, const LinkLimits& limits) : id(of), seed(std::hash<LinkId>()(of)), state(limits) {}

  LinkId id;
  std::uint64_t seed;  // of its samples
  LinkSender state;
  bool refused = false;      // a chunk was offered after the peer left
  bool starved = false;      // the chunk offered last waits for credit
  double starved_since = 0;  // where that is measured
  bool closed = false;
  monitor::LinkRecord unseen;
  monitor::LinkRecord* record = &unseen;
};

class Outbound::Link final : public SendLink {
 public:
  Link(std::shared_ptr<Outbound> outbound, std::shared_ptr<Sending> sending)
      : outbound_(std::move(outbound)), sending_(std::move(sending)) {}
  ~Link() override {
    const std::lock_guard lock(mutex());
    outbound_->close(*sending_);
  }

  bool send(const std::byte* data, std::size_t bytes, OperationTag tag) override {
    const std::lock_guard lock(mutex());
    return outbound_->send(*sending_, data, bytes, tag);
  }
  std::uint64_t sent() const override {
    const std::lock_guard lock(mutex());
    return sending_->state.posted();
  }
  std::uint64_t released() override {
    const std::lock_guard lock(mutex());
    return sending_->state.released();
  }
  Transit transit() const override {
    const std::lock_guard lock(mutex());
    const LinkSender& state = sending_->state;
    if (state.released() != state.posted()) return Transit::chunks;
    return state.acked() != state.posted() ? Transit::copies : Transit::none;
  }
  std::size_t chunk_limit() const override { return outbound_->context_.options.limits.chunk_limit; }
  void observe(monitor::LinkRecord& record) override {
    const std::lock_guard lock(mutex());
    sending_->record = &record;
  }

  // The error is set once and never altered: what the pointer shows may be read without the mutex.
  const Error* error() const override {
    const std::lock_guard lock(mutex());
    const PeerContext& context = outbound_->context_;
    if (!context.error) return nullptr;
    // A peer that left in order has what it needed; it is missed only by who still needs something from it.
    const LinkSender& state = sending_->state;
    if (context.left_in_order && state.released() == state.posted() && !sending_->refused) return nullptr;
    return &*context.error;
  }

 private:
  std::mutex& mutex() const { return outbound_->context_.mutex; }

  std::shared_ptr<Outbound> outbound_;
  std::shared_ptr<Sending> sending_;
};

std::unique_ptr<SendLink> Outbound::open(const std::shared_ptr<Outbound>& self, const LinkId& id) {
  auto sending = std::make_shared<Sending>(id, self->context_.options.limits);
  auto link = std::make_unique<Link>(self, sending);
  const std::lock_guard lock(self->context_.mutex);
  self->links_[id] = std::move(sending);
  self->announce(id, FrameType::open);
  return link;
}

void Outbound::announce(const LinkId& id, FrameType type) {
  if (lanes_.empty()) return;
  Lane& lane = lanes_.best();
  lane.post(header_for(lane, type, id), nullptr, true);
}

// The caller's memory goes now; what was copied, and released for that, must still arrive.
void Outbound::close(Sending& link) {
  link.closed = true;
  link.record = &link.unseen;
  for (const LaneEntry* each : lanes_.live()) each->live->forget_outgoing(link.id);
  completed_.clear();
  link.state.drop_borrowed(completed_);
  drop_completed();
  end_if_over(link.id);
}

// Nobody waits for them any more: they do not show how fast their lanes are.
void Outbound::drop_completed() {
  for (const auto& each : completed_) lanes_.complete({each.lane, each.load}, 0, 0);
}

void Outbound::end_if_over(const LinkId& id) {
  const auto found = links_.find(id);
  if (found == links_.end() || !found->second->closed) return;
  if (!context_.error && found->second->state.acked() != found->second->state.posted()) return;
  links_.erase(found);
  announce(id, FrameType::close);
}

bool Outbound::send(Sending& link, const std::byte* data, std::size_t bytes, OperationTag tag) {
  if (context_.error) link.refused = true;
  link.starved = !link.state.may_post(bytes);
  measure_credit(link);
  if (link.starved) context_.look_soon();
  if (context_.error || bytes > context_.options.limits.chunk_limit || link.starved) return false;
  const bool copied = link.state.will_copy(bytes);
  const double now = copied ? 0 : lanes_.post_time();
  if (now != 0) lanes_.send_trials(now);
  LaneEntry* const lane = lanes_.choose(chunk_cost(bytes), copied);
  if (lane == nullptr) return false;
  const std::uint64_t sequence = link.state.post(data, bytes, tag, lane->key());
  if (!copied) link.state.measure(sequence, now, refused_);
  lanes_.post(*lane, bytes, copied, now);
  link.record->post(sequence + 1, bytes, tag.number);
  post_chunk(*lane->live, link, sequence);
  return true;
}

// How long there is no credit is measured for all links together: a lane that was idle meanwhile is not to blame.
void Outbound::measure_credit(Sending& link) {
  if (lanes_.watch() == nullptr || link.starved == (link.starved_since != 0)) return;
  const double now = context_.now();
  if (!link.starved) refused_ += now - link.starved_since;
  link.starved_since = link.starved ? now : 0;
}

bool Outbound::is_checked(const Sending& link, std::uint64_t sequence, bool again) const {
  switch (context_.options.checksums) {
    case Checksums::off:
      return false;
    case Checksums::sampled:
      return again || is_sampled(link.seed, sequence);
    case Checksums::all:
      return true;
  }
  return true;
}

void Outbound::post_chunk(Lane& lane, const Sending& link, std::uint64_t sequence, bool again) {
  const LinkSender::Chunk& chunk = link.state.chunk(sequence);
  FrameHeader header = header_for(lane, FrameType::data, link.id);
  header.bytes = chunk.bytes;
  header.tag = chunk.tag;
  header.sequence = sequence;
  header.wants_ack = chunk.copy == nullptr;
  header.is_checked = is_checked(link, sequence, again);
  if (header.is_checked) header.checksum = crc32c({chunk.data, chunk.bytes});
  lane.post(header, chunk.data, chunk.copy != nullptr);
}

void Outbound::lane_up() {
  if (lanes_.size() > 1) return;
  for (const LostLane& each : lost_) ask_to_fence(each);
  for (const auto& [id, link] : links_) announce(id, FrameType::open);
}

bool Outbound::awaits() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& each) {
    const LinkSender& state = each.second->state;
    return !each.second->closed && (each.second->starved || state.released() != state.posted());
  });
}

bool Outbound::all_acknowledged() const {
  return std::all_of(links_.begin(), links_.end(),
                     [](const auto& each) { return each.second->state.acked() == each.second->state.posted(); });
}

bool Outbound::owes(std::uint64_t communicator) const {
  return std::any_of(links_.begin(), links_.end(), [&](const auto& each) {
    return each.first.communicator == communicator && each.second->state.acked() != each.second->state.posted();
  });
}

// A receiver answers each opening of a link with an acknowledgement.
void Outbound::ask_for_acknowledgements() {
  for (const auto& [id, link] : links_)
    if (link->state.acked() != link->state.posted()) announce(id, FrameType::open);
}

void Outbound::lane_lost(const Lane& lane, bool is_corrupted) {
  std::erase_if(lost_, [&](const LostLane& each) { return each.index == lane.index(); });
  lost_.push_back({lane.index(), lane.epoch(), is_corrupted});
  if (lanes_.empty()) return;
  // The lane just lost may have carried requests to fence others, and links' openings.
  for (const LostLane& each : lost_) ask_to_fence(each);
  for (const auto& [id, link] : links_)
    if (!link->state.has_credit()) announce(id, FrameType::open);
}

void Outbound::ask_to_fence(const LostLane& lost) {
  Lane& lane = lanes_.best();
  FrameHeader header = header_for(lane, FrameType::fence);
  header.lane = lost.index;
  header.lane_epoch = lost.epoch;
  header.is_corrupted = lost.is_corrupted;
  lane.post(header, nullptr, true);
}

bool Outbound::on_fenced(const FrameHeader& header) {
  const auto found = std::find_if(lost_.begin(), lost_.end(), [&](const LostLane& each) {
    return each.index == header.lane && each.epoch == header.lane_epoch;
  });
  if (found == lost_.end()) return false;
  const LostLane lost = *found;
  lost_.erase(found);
  resend(lost);
  return true;
}

void Outbound::resend(const LostLane& lost) {
  for (const auto& [id, link] : links_)
    for (const std::uint64_t sequence : link->state.unacked_on(key_of(lost.index, lost.epoch)))
      send_again(*link, sequence);
}

void Outbound::send_again(Sending& link, std::uint64_t sequence) {
  const LinkSender::Chunk& chunk = link.state.chunk(sequence);
  const bool copied = chunk.copy != nullptr;
  const double now = copied ? 0 : context_.now();
  LaneEntry* const roomy = lanes_.choose(chunk.load(), copied);
  LaneEntry& lane = roomy != nullptr ? *roomy : lanes_.best_entry();
  link.state.resent(sequence, lane.key(), now);
  if (!copied) lanes_.post(lane, chunk.bytes, false, now);
  post_chunk(*lane.live, link, sequence, true);
}

Result<bool> Outbound::on_again(const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found == links_.end()) return false;  // closed since
  Sending& link = *found->second;
  const LaneKey lane = key_of(header.lane, header.lane_epoch);
  const auto wanted = link.state.returned(header.sequence, lane, header.arrived);
  if (!wanted || !*wanted) return wanted;
  // What it took on that lane shows nothing.
  lanes_.complete({lane, link.state.chunk(header.sequence).load()}, 0, 0);
  send_again(link, header.sequence);
  return true;
}

void Outbound::on_close(const LinkId& id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  for (const LaneEntry* each : lanes_.live()) each->live->forget_outgoing(id);
  completed_.clear();
  found->second->state.drop_all(completed_);
  drop_completed();
  end_if_over(id);
}

Status Outbound::on_ack(const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found == links_.end()) return {};  // closed since
  Sending& link = *found->second;
  completed_.clear();
  auto accepted = link.state.acknowledge({header.sequence, header.arrived, header.credit}, completed_);
  const bool measured =
      std::any_of(completed_.begin(), completed_.end(), [](const auto& each) { return each.posted_at != 0; });
  const double now = measured ? context_.now() : 0;
  const double arrived = measured ? lanes_.arrival(header.stamp, now) : 0;
  for (const auto& each : completed_) lanes_.complete(each, arrived, now);
  if (measured) lanes_.settle(now);
  link.record->done.set(link.state.acked());
  if (link.closed) end_if_over(header.link);
  return accepted;
}

void Outbound::transmitted(const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found == links_.end()) return;
  Sending& link = *found->second;
  link.state.transmitted(header.sequence);
  link.record->transferred.set(std::max(link.record->transferred.get(), header.sequence + 1));
}

}  // namespace tutti
