#include "transport/outbound.hpp"

#include <algorithm>

#include "monitor/layout.hpp"
#include "transport/peer.hpp"

namespace tutti {
namespace {

// What a trial carries: nothing that anybody wants. Never written; not const, so that it takes no room in the file.
std::byte g_trial[kPayloadLimit];

FrameHeader header_of(FrameType type, const Lane& lane, const LinkId& link) {
  FrameHeader header;
  header.type = type;
  header.epoch = lane.epoch();
  header.link = link;
  return header;
}

}  // namespace

/// The books of a link. They outlive it, while copies of its chunks are on their way.
struct Outbound::Sending {
  Sending(const LinkId& of, const LinkLimits& limits) : id(of), state(limits) {}

  LinkId id;
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
  Link(std::shared_ptr<Peer> peer, std::shared_ptr<Sending> sending)
      : peer_(std::move(peer)), sending_(std::move(sending)) {}
  ~Link() override {
    const std::lock_guard lock(peer_->mutex());
    peer_->outbound_.close(*sending_);
  }

  bool send(const std::byte* data, std::size_t bytes, OperationTag tag) override {
    const std::lock_guard lock(peer_->mutex());
    return peer_->outbound_.send(*sending_, data, bytes, tag);
  }
  std::uint64_t sent() const override {
    const std::lock_guard lock(peer_->mutex());
    return sending_->state.posted();
  }
  std::uint64_t released() override {
    const std::lock_guard lock(peer_->mutex());
    return sending_->state.released();
  }
  std::size_t chunk_limit() const override { return peer_->limits().chunk_limit; }
  void observe(monitor::LinkRecord& record) override {
    const std::lock_guard lock(peer_->mutex());
    sending_->record = &record;
  }

  // The error is set once and never altered: what the pointer shows may be read without the mutex.
  const Error* error() const override {
    const std::lock_guard lock(peer_->mutex());
    if (!peer_->error()) return nullptr;
    // A peer that left in order has what it needed; it is missed only by who still needs something from it.
    const LinkSender& state = sending_->state;
    if (peer_->left_in_order() && state.released() == state.posted() && !sending_->refused) return nullptr;
    return &*peer_->error();
  }

 private:
  std::shared_ptr<Peer> peer_;
  std::shared_ptr<Sending> sending_;
};

Outbound::Outbound(Peer& peer) : peer_(peer), shares_(peer.limits().chunk_limit) {}

std::unique_ptr<SendLink> Outbound::open(const LinkId& id) {
  auto sending = std::make_shared<Sending>(id, peer_.limits());
  auto link = std::make_unique<Link>(peer_.shared_from_this(), sending);
  const std::lock_guard lock(peer_.mutex());
  links_[id] = std::move(sending);
  announce(id, FrameType::open);
  return link;
}

void Outbound::announce(const LinkId& id, FrameType type) {
  if (peer_.lanes().empty()) return;
  Lane& lane = peer_.best_lane();
  lane.post(header_of(type, lane, id), nullptr, true);
}

// The caller's memory goes now; what was copied, and released for that, must still arrive.
void Outbound::close(Sending& link) {
  link.closed = true;
  link.record = &link.unseen;
  for (const auto& lane : peer_.lanes()) lane->forget_outgoing(link.id);
  completed_.clear();
  link.state.drop_borrowed(completed_);
  for (const auto& each : completed_) discharge({each.lane, each.load}, 0, 0);
  end_if_over(link.id);
}

void Outbound::end_if_over(const LinkId& id) {
  const auto found = links_.find(id);
  if (found == links_.end() || !found->second->closed) return;
  if (!peer_.error() && found->second->state.acked() != found->second->state.posted()) return;
  links_.erase(found);
  announce(id, FrameType::close);
}

bool Outbound::send(Sending& link, const std::byte* data, std::size_t bytes, OperationTag tag) {
  if (peer_.error()) link.refused = true;
  link.starved = !link.state.may_post(bytes);
  watch_credit(link);
  if (link.starved) peer_.unsettled();
  if (peer_.error() || bytes > peer_.limits().chunk_limit || link.starved) return false;
  const bool copied = link.state.will_copy(bytes);
  // With one lane there is nothing to weigh.
  const bool is_timed = !copied && (peer_.lanes().size() > 1 || peer_.watch() != nullptr);
  const double now = is_timed ? peer_.now() : 0;
  if (is_timed && shares_.may_want_trials(now)) try_lanes(now);
  Lane* lane = choose(chunk_cost(bytes), copied);
  if (lane == nullptr) return false;
  const std::uint64_t sequence = link.state.post(data, bytes, tag, key_of(lane->index(), lane->epoch()));
  if (!copied) {
    link.state.measure(sequence, now, refused_);
    shares_.post(link.state.chunk(sequence).lane, chunk_cost(bytes));
  }
  watch_post(*lane, bytes, now);
  link.record->post(sequence + 1, bytes, tag.number);
  post_chunk(*lane, link, sequence);
  return true;
}

// How long there is no credit is measured for all links together: a lane that was idle meanwhile is not to blame.
void Outbound::watch_credit(Sending& link) {
  if (peer_.watch() == nullptr || link.starved == (link.starved_since != 0)) return;
  const double now = peer_.now();
  if (!link.starved) refused_ += now - link.starved_since;
  link.starved_since = link.starved ? now : 0;
}

void Outbound::watch_post(const Lane& lane, std::size_t bytes, double now) {
  if (peer_.watch() == nullptr) return;
  const auto size = static_cast<std::uint32_t>(bytes);
  if (now == 0) return peer_.watch()->count_quick(lane, size);
  peer_.watch()->post(lane, {now, size, lane.handed_over()});
}

void Outbound::watch_done(const LinkSender::Completed& done, double now) {
  if (peer_.watch() == nullptr) return;
  const auto index = static_cast<std::uint32_t>(done.lane);
  if (done.posted_at == 0) return peer_.watch()->forget(index);
  const auto bytes = static_cast<std::uint32_t>(done.load - kFrameHeaderBytes);
  const std::uint64_t operation = std::uint64_t{done.tag.signature} << 32 | done.tag.number;
  peer_.watch()->complete(index, {done.posted_at, now, bytes, operation, done.refused});
}

void Outbound::post_chunk(Lane& lane, const Sending& link, std::uint64_t sequence) {
  const LinkSender::Chunk& chunk = link.state.chunk(sequence);
  FrameHeader header = header_of(FrameType::data, lane, link.id);
  header.bytes = chunk.bytes;
  header.tag = chunk.tag;
  header.sequence = sequence;
  header.wants_ack = chunk.copy == nullptr;
  lane.post(header, chunk.data, chunk.copy != nullptr);
}

// The lane that will be done first with what it has and these bytes. Of equals the first, at both ends: an exchange of
// small chunks then runs on one connection, where TCP acknowledges with the data that goes back.
Lane* Outbound::quickest(std::size_t bytes) const {
  Lane* best = nullptr;
  double best_end = 0;
  const Lane* const only = peer_.only_lane();
  for (const auto& lane : peer_.lanes()) {
    if ((only != nullptr && lane.get() != only) || !peer_.is_trusted(*lane)) continue;
    const double end = shares_.end(lane->index(), bytes);
    const bool better = best == nullptr || end < best_end || (end == best_end && lane->index() < best->index());
    if (better) best = lane.get();
    if (better) best_end = end;
  }
  return best;
}

// Null: all have enough, or it is better to wait for one that has. What is copied does not wait.
Lane* Outbound::choose(std::size_t bytes, bool copied) const {
  if (peer_.lanes().size() == 1) return peer_.lanes().front().get();
  Lane* const best = quickest(bytes);
  return best == nullptr || copied || shares_.has_room(best->index()) ? best : nullptr;
}

Lane& Outbound::answer_lane(Lane* latest) {
  if (latest == nullptr || !peer_.is_trusted(*latest)) return peer_.best_lane();
  if (!shares_.is_slow(latest->index()) || shares_.is_idle(latest->index())) return *latest;
  Lane* const best = quickest(kFrameHeaderBytes);
  return best != nullptr ? *best : *latest;
}

// While chunks are sent, lanes that get none of them are measured by bytes that nobody waits for.
void Outbound::try_lanes(double now) {
  shares_.trials_asked(now);
  if (peer_.lanes().size() == 1 || peer_.only_lane() != nullptr) return;
  for (const auto& lane : peer_.lanes()) {
    if (!peer_.is_trusted(*lane) || !shares_.wants_trial(lane->index(), now)) continue;
    FrameHeader header = header_of(FrameType::trial, *lane, {});
    header.bytes = static_cast<std::uint32_t>(shares_.trial_bytes());
    shares_.trial_posted(key_of(lane->index(), lane->epoch()), now);
    lane->post(header, g_trial, true);
  }
}

void Outbound::on_tried(const FrameHeader& header) {
  const double now = peer_.now();
  shares_.trial_done(key_of(header.lane, header.lane_epoch), shares_.arrival(header.stamp, now), now);
}

// With one lane there is nothing to measure.
void Outbound::discharge(const LinkSender::Completed& done, double arrived, double now) {
  if (done.load == 0) return;
  const double posted_at = peer_.lanes().size() > 1 ? done.posted_at : 0;
  if (shares_.done(done.lane, done.load, posted_at, arrived)) watch_done(done, now);
}

void Outbound::lane_up(Lane& lane) {
  shares_.lane_up(key_of(lane.index(), lane.epoch()), peer_.now());
  if (peer_.lanes().size() > 1) return;
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

void Outbound::lane_lost(const Lane& lane) {
  shares_.lane_lost(lane.index());
  std::erase_if(lost_, [&](const LostLane& each) { return each.index == lane.index(); });
  lost_.push_back({lane.index(), lane.epoch()});
  if (peer_.lanes().empty()) return;
  // The lane just lost may have carried requests to fence others, and links' openings.
  for (const LostLane& each : lost_) ask_to_fence(each);
  for (const auto& [id, link] : links_)
    if (!link->state.has_credit()) announce(id, FrameType::open);
}

void Outbound::ask_to_fence(const LostLane& lost) {
  Lane& lane = peer_.best_lane();
  FrameHeader header = header_of(FrameType::fence, lane, {});
  header.lane = lost.index;
  header.lane_epoch = lost.epoch;
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
    for (const std::uint64_t sequence : link->state.unacked_on(key_of(lost.index, lost.epoch))) {
      const std::size_t load = link->state.chunk(sequence).load();
      const double now = load != 0 ? peer_.now() : 0;
      Lane* const roomy = choose(load, load == 0);
      Lane& lane = roomy != nullptr ? *roomy : peer_.best_lane();
      link->state.resent(sequence, key_of(lane.index(), lane.epoch()), now);
      shares_.post(link->state.chunk(sequence).lane, load);
      if (load != 0) watch_post(lane, link->state.chunk(sequence).bytes, now);
      post_chunk(lane, *link, sequence);
    }
}

void Outbound::on_close(const LinkId& id) {
  const auto found = links_.find(id);
  if (found == links_.end()) return;
  for (const auto& lane : peer_.lanes()) lane->forget_outgoing(id);
  completed_.clear();
  found->second->state.drop_all(completed_);
  for (const auto& each : completed_) discharge({each.lane, each.load}, 0, 0);
  end_if_over(id);
}

Status Outbound::on_ack(const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found == links_.end()) return {};  // closed since
  completed_.clear();
  auto accepted = found->second->state.acknowledge({header.sequence, header.arrived, header.credit}, completed_);
  const bool measured =
      std::any_of(completed_.begin(), completed_.end(), [](const auto& each) { return each.posted_at != 0; });
  const double now = measured ? peer_.now() : 0;
  const double arrived = measured && header.stamp != 0 ? shares_.arrival(header.stamp, now) : now;
  for (const auto& each : completed_) discharge(each, arrived, now);
  if (measured && peer_.lanes().size() > 1) shares_.settle(now);
  if (measured && peer_.watch() != nullptr) peer_.watch()->judge(now);
  found->second->record->third.set(found->second->state.acked());
  if (found->second->closed) end_if_over(header.link);
  return accepted;
}

void Outbound::transmitted(const FrameHeader& header) {
  const auto found = links_.find(header.link);
  if (found == links_.end()) return;
  Sending& link = *found->second;
  link.state.transmitted(header.sequence);
  link.record->second.set(std::max(link.record->second.get(), header.sequence + 1));
}

}  // namespace tutti
