#include "transport/peer.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.hpp"

namespace tutti {
namespace {

constexpr double kLookEvery = 0.01;  // seconds between looks at lanes on which something waits for an answer
constexpr double kAbsentFor = 1.0;   // seconds: a process that is at none of its addresses for so long is gone
constexpr double kRelayAfter = 0.2;  // seconds without a direct lane

FrameHeader plain_frame(FrameType type, const Lane& lane) {
  FrameHeader header;
  header.type = type;
  header.epoch = lane.epoch();
  return header;
}

}  // namespace

std::unique_ptr<SendLink> Peer::open_send(const LinkId& id) { return outbound_.open(id); }

std::unique_ptr<RecvLink> Peer::open_recv(const LinkId& id) { return inbound_.open(id); }

LaneSlot& Peer::slot_of(std::uint32_t index) {
  while (slots_.size() <= index) {
    slots_.emplace_back(options_.times, dials_, now());
    reads_.push_back(0);
    quiet_.push_back({0, now()});
  }
  return slots_[index];
}

void Peer::note_slots() const {
  for (std::uint32_t index = 0; watch_ && index < slots_.size(); ++index) watch_->note(index, slots_[index]);
}

void Peer::dial_lanes(std::uint32_t count, double patience) {
  dials_ = true;
  give_up_at_ = now() + patience;
  relay_ = count;
  direct_until_ = now();
  slot_of(relay_);
  tick_by(now());
}

bool Peer::lane_up(std::shared_ptr<Lane> lane) {
  LaneSlot& slot = slot_of(lane->index());
  if (error_ || leaving_) return false;
  if (!slot.may_come_up(lane->epoch())) {
    note("refused an incarnation that is over");
    return false;
  }
  const auto same =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& each) { return each->index() == lane->index(); });
  if (same != lanes_.end()) {
    const std::shared_ptr<Lane> before = *same;
    if (before->epoch() >= lane->epoch()) return false;
    note("replaced an incarnation by the next");
    lane_down(*before, tutti::fail(ErrorCode::system, "the peer dialed it anew").value(), false);
  }
  if (slot.was_up()) log::info("lane {} to {} is back", lane->index(), name_);
  slot.up(now(), lane->epoch());
  note("up");
  quiet_[lane->index()] = {reads_[lane->index()], now()};
  lanes_.push_back(lane);
  if (watch_) watch_->lane_up(*lane, lane->index() == relay_);
  note_slots();
  outbound_.lane_up(*lane);
  inbound_.resend_acks();
  return true;
}

void Peer::lane_down(Lane& lane, const Error& why, bool orderly) {
  const auto found = std::find_if(lanes_.begin(), lanes_.end(), [&](const auto& each) { return each.get() == &lane; });
  if (found == lanes_.end()) return lane.close();
  const std::shared_ptr<Lane> lost = *found;
  lanes_.erase(found);
  LaneSlot& slot = slot_of(lost->index());
  if (slot.state() == LaneState::suspect) --suspects_;
  slot.lost(now(), why.message);
  note("lost");
  if (watch_) watch_->lane_down(*lost, why.message);
  note_slots();
  lost->close();
  inbound_.lane_lost(*lost);
  if (error_) return;
  tick_by(now());  // whoever finds a lane lost, only tick() has it dialed
  leaving_ = leaving_ || orderly;
  // A peer that breaks the rules of the protocol on its last lane would break them on the next, too.
  const bool broke_rules = why.code == ErrorCode::refused;
  if (lanes_.empty() && (leaving_ || broke_rules)) return fail(why, leaving_);
  if (orderly) return;
  log::warn("lane {} to {} is lost ({}); {} left", lost->index(), name_, why.message, lanes_.size());
  outbound_.lane_lost(*lost);
  inbound_.resend_acks();
}

void Peer::fail(const Error& why, bool orderly) {
  if (error_) return;
  error_ = why;
  left_in_order_ = orderly;
  if (!orderly) log::warn("connection to {} failed: {}", name_, why.message);
  const auto lanes = std::exchange(lanes_, {});
  for (const auto& lane : lanes) {
    if (watch_) watch_->lane_down(*lane, why.message);
    if (!orderly) lane->post(plain_frame(FrameType::gone, *lane), nullptr, true);
    lane->close();
    inbound_.lane_lost(*lane);
  }
  if (watch_) watch_->end();
}

void Peer::dial_failed(const WantedLane& lane, const Error& why, DialFailure kind) {
  LaneSlot& slot = slot_of(lane.index);
  if (slot.state() != LaneState::probing) return;
  slot.failed(now(), why.message, kind == DialFailure::absent);
  tick_by(due(slot));
  note(kind == DialFailure::absent ? "was not there" : "could not be reached");
  if (kind == DialFailure::final) return fail(tutti::fail(ErrorCode::system, why.message).value(), false);
  give_up_unreachable(now());
}

// A peer that was never met is waited for as long as it was said; one that is at none of its addresses is gone.
void Peer::give_up_unreachable(double now) {
  if (error_ || !dials_ || !lanes_.empty()) return;
  const bool met = std::any_of(slots_.begin(), slots_.end(), [](const LaneSlot& slot) { return slot.was_up(); });
  const bool late = !met && now >= give_up_at_;
  const bool gone = std::all_of(slots_.begin(), slots_.end(), [&](const LaneSlot& slot) {
    return &slot == &slots_[relay_] || (slot.absences() > 0 && now - slot.absent_since() >= kAbsentFor);
  });
  if (!late && !gone) return;
  fail(tutti::fail(late ? ErrorCode::timed_out : ErrorCode::system, slots_.front().reason()).value(), false);
}

void Peer::port_back(std::uint32_t index) {
  slot_of(index).port_back(now());
  tick_by(due(slot_of(index)));
  note("port back");
}

double Peer::tick(std::vector<WantedLane>& wanted) {
  if (error_) return kNever;
  const double time = now();
  unsettled_ = false;
  judge(time);
  probe(time);
  give_up_unreachable(time);
  if (error_) return kNever;
  double next = kNever;
  if (watch_) watch_->check_overdue(time);
  const bool relays = wants_relay(time);
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    LaneSlot& slot = slots_[index];
    if (leaving_ || (index == relay_ && !relays)) continue;
    if (due(slot) <= time) {
      const bool was_up = slot.was_up();
      wanted.push_back({index, slot.dial(time), was_up, index == relay_});
      note("dialed");
    }
    next = std::min(next, due(slot));
  }
  note_slots();
  if (dials_ && lanes_.empty() && !relays) next = std::min(next, direct_until_ + kRelayAfter);
  return unsettled_ ? std::min(next, time + kLookEvery) : next;
}

void Peer::unsettled() {
  if (std::exchange(unsettled_, true)) return;
  tick_by(now() + kLookEvery);
}

// Without a lane that is trusted there is nothing to protect from one that comes and goes.
double Peer::due(const LaneSlot& slot) const { return slot.due(suspects_ == lanes_.size()); }

// The way through a neighbour is used while there is no other; then its lane is given up like any that is lost.
bool Peer::wants_relay(double now) {
  if (!dials_) return false;
  std::shared_ptr<Lane> relay;
  bool lasting = false;
  for (const auto& lane : lanes_) {
    if (lane->index() == relay_)
      relay = lane;
    else
      direct_until_ = now;
    lasting = lasting || (lane->index() != relay_ && now - slots_[lane->index()].since() > kRelayAfter);
  }
  if (relay && lasting) {
    note("the way through a neighbour given up");
    lane_down(*relay, tutti::fail(ErrorCode::system, "there is a direct way again").value(), false);
  }
  return now >= direct_until_ + kRelayAfter;
}

void Peer::judge(double now) {
  suspects_ = 0;
  const auto lanes = lanes_;
  for (const auto& lane : lanes) {
    const Silence silence = lane->silence(now);
    unsettled_ = unsettled_ || silence.seconds > 0;
    LaneSlot& slot = slots_[lane->index()];
    const LaneState before = slot.state();
    const bool others = std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& each) {
      return each != lane && slots_[each->index()].state() == LaneState::healthy;
    });
    const bool dead = slot.silent(silence, others);
    if (slot.state() != before) note(slot.state() == LaneState::suspect ? "suspect" : "heard again");
    if (slot.state() == LaneState::suspect) ++suspects_;
    if (dead)
      lane_down(*lane,
                tutti::fail(ErrorCode::timed_out, fmt::format("no answer for {:.2f} s", silence.seconds)).value(),
                false);
  }
}

// A lane on which nothing was sent cannot go silent: where something is awaited and nothing comes, something is sent.
void Peer::probe(double now) {
  if (lanes_.empty() || (!inbound_.awaits() && !outbound_.awaits())) return;
  for (const auto& lane : lanes_) {
    Quiet& quiet = quiet_[lane->index()];
    if (quiet.reads != reads_[lane->index()]) quiet = {reads_[lane->index()], now};
    unsettled_ = true;
    if (now - quiet.since < options_.times.probe) continue;
    quiet.since = now;
    lane->post(plain_frame(FrameType::probe, *lane), nullptr, true);
    note("probed");
  }
}

Lane& Peer::best_lane() const {
  const auto better = [this](const std::shared_ptr<Lane>& a, const std::shared_ptr<Lane>& b) {
    return std::pair(!is_trusted(*a), a->index()) < std::pair(!is_trusted(*b), b->index());
  };
  return **std::min_element(lanes_.begin(), lanes_.end(), better);
}

bool Peer::is_trusted(const Lane& lane) const {
  return suspects_ == 0 || suspects_ == lanes_.size() || slots_[lane.index()].state() == LaneState::healthy;
}

std::string Peer::describe_lanes() const {
  std::string text;
  for (std::uint32_t index = 0; index < slots_.size(); ++index) {
    const LaneSlot& slot = slots_[index];
    if (index == relay_ && !slot.was_up()) continue;
    text += fmt::format("{}lane {}{}", text.empty() ? "" : ", ", index, index == relay_ ? " through a neighbour" : "");
    for (const auto& lane : lanes_)
      if (lane->index() == index) text += fmt::format(" ({})", lane->name());
    text += fmt::format(" {}", name_of(slot.state()));
    if (!slot.in_use()) text += fmt::format(" for {:.1f} s: {}", now() - slot.down_since(), slot.reason());
  }
  return text.empty() ? "no lane" : text;
}

Result<std::byte*> Peer::begin(Lane& lane, const FrameHeader& header) { return inbound_.begin(lane, header); }

Status Peer::complete(Lane& lane, const FrameHeader& header) {
  switch (header.type) {
    case FrameType::data:
      inbound_.on_data(lane, header);
      return {};
    case FrameType::open:
      return inbound_.on_open(lane, header.link);
    case FrameType::close:
      inbound_.on_close(header.link);
      outbound_.on_close(header.link);
      return {};
    case FrameType::fence:
      return inbound_.on_fence(lane, header);
    case FrameType::ack:
      return outbound_.on_ack(header);
    case FrameType::fenced:
      if (outbound_.on_fenced(header)) slot_of(header.lane).fenced(now());
      return {};
    case FrameType::probe:
      return {};
    case FrameType::trial:
      inbound_.on_trial(lane);
      return {};
    case FrameType::tried:
      outbound_.on_tried(header);
      return {};
    case FrameType::gone:
      fail(tutti::fail(ErrorCode::system, fmt::format("{} counts this process as gone", lane.name())).value(), false);
      return {};
    case FrameType::hello:
    case FrameType::welcome:
    case FrameType::bye:
    case FrameType::never:
      break;
  }
  return tutti::fail(ErrorCode::refused, "a frame out of place");
}

void Peer::transmitted(Lane&, const FrameHeader& header) {
  if (header.type == FrameType::data) outbound_.transmitted(header);
}

void Peer::pause(Lane& lane, bool settled) {
  ++reads_[lane.index()];
  inbound_.pause(settled);
}

}  // namespace tutti
