#include "transport/lane_pool.hpp"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

// What a trial carries: nothing that anybody wants. Never written; not const, so that it takes no room in the file.
std::byte g_trial[kPayloadLimit];

}  // namespace

LanePool::LanePool(PeerContext& context) : context_(context), shares_(context.options.limits.chunk_limit) {
  if (context.options.watch) watch_ = std::make_unique<LaneWatch>(*context.options.watch, context.name);
}

LaneEntry& LanePool::entry(std::uint32_t index) {
  while (entries_.size() <= index) entries_.emplace_back(static_cast<std::uint32_t>(entries_.size()), context_);
  return entries_[index];
}

void LanePool::record_states() {
  if (!watch_) return;
  for (LaneEntry& each : entries_) watch_->note(each.watch, each.slot);
}

void LanePool::add(LaneEntry& entry, std::shared_ptr<Lane> lane, bool relayed) {
  const double now = context_.now();
  entry.slot.up(now, lane->epoch());
  context_.note("up");
  entry.reads_probed = entry.reads;
  entry.quiet_since = now;
  entry.live = std::move(lane);
  live_.push_back(&entry);
  shares_.lane_up(entry.load, entry.index, now);
  if (watch_) watch_->lane_up(entry.watch, *entry.live, relayed);
  record_states();
}

std::shared_ptr<Lane> LanePool::remove(LaneEntry& entry, const std::string& why) {
  std::erase(live_, &entry);
  if (entry.slot.state() == LaneState::suspect) --suspects_;
  entry.slot.lost(context_.now(), why);
  context_.note("lost");
  shares_.lane_lost(entry.load);
  if (watch_) watch_->lane_down(entry.watch, why);
  record_states();
  return std::move(entry.live);
}

std::vector<std::shared_ptr<Lane>> LanePool::remove_all(const std::string& why) {
  std::vector<std::shared_ptr<Lane>> lanes;
  for (LaneEntry* const each : std::exchange(live_, {})) {
    if (watch_) watch_->lane_down(each->watch, why);
    lanes.push_back(std::move(each->live));
  }
  if (watch_) watch_->end();
  return lanes;
}

bool LanePool::has_others(const LaneEntry& entry) const {
  return std::any_of(live_.begin(), live_.end(), [&](const LaneEntry* other) {
    return other != &entry && other->slot.state() == LaneState::healthy;
  });
}

void LanePool::judge(double now, const std::function<void(Lane&, double)>& on_dead) {
  suspects_ = 0;
  for (LaneEntry* const each : std::vector(live_)) {
    if (!each->live) continue;  // lost meanwhile
    const Silence silence = each->live->silence(now);
    context_.looks_soon = context_.looks_soon || silence.seconds > 0;
    const LaneState before = each->slot.state();
    const bool dead = each->slot.silent(silence, has_others(*each));
    const LaneState state = each->slot.state();
    if (state != before) context_.note(state == LaneState::suspect ? "suspect" : "heard again");
    if (state == LaneState::suspect) ++suspects_;
    if (dead) on_dead(*each->live, silence.seconds);
  }
}

void LanePool::probe(double now) {
  for (LaneEntry* const each : live_) {
    if (std::exchange(each->reads_probed, each->reads) != each->reads) each->quiet_since = now;
    context_.looks_soon = true;
    if (now - each->quiet_since < context_.options.times.probe) continue;
    each->quiet_since = now;
    each->live->post(header_for(*each->live, FrameType::probe), nullptr, true);
    context_.note("probed");
  }
}

bool LanePool::is_trusted(const LaneEntry& entry) const {
  return suspects_ == 0 || all_suspect() || entry.slot.state() == LaneState::healthy;
}

LaneEntry& LanePool::best_entry() const {
  const auto better = [this](const LaneEntry* a, const LaneEntry* b) {
    return std::pair(!is_trusted(*a), a->index) < std::pair(!is_trusted(*b), b->index);
  };
  return **std::min_element(live_.begin(), live_.end(), better);
}

// The lane that will be done first with what it has and these bytes. Of equals the first, at both ends: an exchange of
// small chunks then runs on one connection, where TCP acknowledges with the data that goes back.
LaneEntry* LanePool::quickest(std::size_t bytes) const {
  LaneEntry* best = nullptr;
  double best_end = 0;
  const Lane* const only = this->only();
  for (LaneEntry* const each : live_) {
    if ((only != nullptr && each->live.get() != only) || !is_trusted(*each)) continue;
    const double end = each->load.end(bytes);
    const bool better = best == nullptr || end < best_end || (end == best_end && each->index < best->index);
    if (better) best = each;
    if (better) best_end = end;
  }
  return best;
}

LaneEntry* LanePool::choose_of_many(std::size_t bytes, bool copied) const {
  LaneEntry* const best = quickest(bytes);
  return best == nullptr || copied || shares_.has_room(best->load) ? best : nullptr;
}

Lane& LanePool::answer(Lane* latest) {
  if (latest == nullptr) return best();
  const LaneEntry& entry = entries_[latest->index()];
  if (!is_trusted(entry)) return best();
  if (!entry.load.is_slow() || entry.load.is_idle()) return *latest;
  const LaneEntry* const quick = quickest(kFrameHeaderBytes);
  return quick != nullptr ? *quick->live : *latest;
}

void LanePool::watch_post(LaneEntry& entry, std::size_t bytes, double now) {
  const auto size = static_cast<std::uint32_t>(bytes);
  if (now == 0) return entry.watch.monitor->count_quick(size);
  watch_->post(entry.watch, {now, size, entry.live->handed_over()});
}

// With one lane there is nothing to measure for the choice.
void LanePool::complete(const LinkSender::Completed& done, double arrived, double now) {
  LaneEntry* const entry = done.load != 0 ? find(done.lane) : nullptr;
  if (entry == nullptr) return;
  LaneShares::done(entry->load, done.load, live_.size() > 1 ? done.posted_at : 0, arrived);
  if (!watch_) return;
  if (done.posted_at == 0) return watch_->forget(entry->watch);
  const auto bytes = static_cast<std::uint32_t>(done.load - kFrameHeaderBytes);
  const std::uint64_t operation = std::uint64_t{done.tag.signature} << 32 | done.tag.number;
  watch_->complete(entry->watch, {done.posted_at, now, bytes, operation, done.refused});
}

void LanePool::settle(double now) {
  if (live_.size() > 1) shares_.settle(now);
  if (watch_) watch_->judge(now);
}

void LanePool::post_trials(double now) {
  shares_.trials_asked(now);
  if (live_.size() == 1 || only() != nullptr) return;
  for (LaneEntry* const each : live_) {
    if (!is_trusted(*each) || !LaneShares::wants_trial(each->load, now)) continue;
    FrameHeader header = header_for(*each->live, FrameType::trial);
    header.bytes = static_cast<std::uint32_t>(shares_.trial_bytes());
    shares_.trial_posted(each->load, now);
    each->live->post(header, g_trial, true);
  }
}

void LanePool::on_tried(const FrameHeader& header) {
  const double now = context_.now();
  const double arrived = shares_.arrival(header.stamp, now);
  LaneEntry* const entry = find(key_of(header.lane, header.lane_epoch));
  if (entry != nullptr) shares_.trial_done(entry->load, arrived, now);
}

}  // namespace tutti
