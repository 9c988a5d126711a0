#include "transport/peer.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "base/log.hpp"

namespace tutti {
namespace {

constexpr double kAbsentFor = 1.0;   // seconds: a process that is at none of its addresses for so long is gone
constexpr double kRelayAfter = 0.2;  // seconds without a direct lane
// As often a chunk may come corrupted in a row. Then its lane is replaced, though it may be the only one: the next one
// leaves from another port, and may take another path.
constexpr std::uint32_t kTimesCorrupted = 16;

}  // namespace

std::unique_ptr<SendLink> Peer::open_send(const LinkId& id) {
  return Outbound::open({shared_from_this(), &outbound_}, id);
}

std::unique_ptr<RecvLink> Peer::open_recv(const LinkId& id) {
  return Inbound::open({shared_from_this(), &inbound_}, id);
}

void Peer::dial_lanes(std::uint32_t count, double patience) {
  context_.dials = true;
  give_up_at_ = now() + patience;
  relay_ = count;
  direct_until_ = now();
  lanes_.entry(relay_);
  context_.tick_by(now());
}

bool Peer::lane_up(std::shared_ptr<Lane> lane) {
  LaneEntry& entry = lanes_.entry(lane->index());
  if (context_.error || leaving_) return false;
  if (!entry.slot.may_come_up(lane->epoch())) {
    context_.note("refused an incarnation that is over");
    return false;
  }
  if (entry.live) {
    if (entry.live->epoch() >= lane->epoch()) return false;
    context_.note("replaced an incarnation by the next");
    lane_down(*entry.live, tutti::fail(ErrorCode::system, "the peer dialed it anew").value(), false);
  }
  if (entry.slot.was_up()) log::info("lane {} to {} is back", entry.index, name());
  lanes_.add(entry, std::move(lane), entry.index == relay_);
  outbound_.lane_up();
  inbound_.resend_acks();
  return true;
}

void Peer::lane_down(Lane& lane, const Error& why, bool orderly) {
  LaneEntry* const entry = lanes_.find(key_of(lane.index(), lane.epoch()));
  if (entry == nullptr || entry->live.get() != &lane) return lane.close();
  const std::shared_ptr<Lane> lost = lanes_.remove(*entry, why.message);
  lost->close();
  inbound_.lane_lost(*lost);
  if (context_.error) return;
  context_.tick_by(now());  // whoever finds a lane lost, only tick() has it dialed
  leaving_ = leaving_ || orderly;
  // A peer that breaks the rules of the protocol on its last lane would break them on the next, too.
  const bool broke_rules = why.code == ErrorCode::refused;
  if (lanes_.empty() && (leaving_ || broke_rules)) return fail(why, leaving_);
  if (orderly) return;
  log::warn("lane {} to {} is lost ({}); {} left", lost->index(), name(), why.message, lanes_.size());
  const bool is_corrupted = why.code == ErrorCode::corrupted;
  if (is_corrupted) {
    context_.note("lane given up because it corrupts");
    lanes_.count_corrupted(*entry, LaneWatch::Corruption::frame_here, why.message);
  }
  outbound_.lane_lost(*lost, is_corrupted);
  inbound_.resend_acks();
}

void Peer::fail(const Error& why, bool orderly) {
  if (context_.error) return;
  context_.error = why;
  context_.left_in_order = orderly;
  if (!orderly) log::warn("connection to {} failed: {}", name(), why.message);
  for (const auto& lane : lanes_.remove_all(why.message)) {
    if (!orderly) lane->post(header_for(*lane, FrameType::gone), nullptr, true);
    lane->close();
    inbound_.lane_lost(*lane);
  }
}

void Peer::dial_failed(const WantedLane& lane, const Error& why, DialFailure kind) {
  LaneSlot& slot = lanes_.entry(lane.index).slot;
  if (slot.state() != LaneState::probing) return;
  slot.failed(now(), why.message, kind == DialFailure::absent);
  context_.tick_by(due(slot));
  context_.note(kind == DialFailure::absent ? "was not there" : "could not be reached");
  if (kind == DialFailure::final) return fail(tutti::fail(ErrorCode::system, why.message).value(), false);
  give_up_unreachable(now());
}

// A peer that was never met is waited for as long as it was said; one that is at none of its addresses is gone.
void Peer::give_up_unreachable(double now) {
  if (context_.error || !dials() || !lanes_.empty()) return;
  const auto& entries = lanes_.entries();
  const bool met = std::any_of(entries.begin(), entries.end(), [](const auto& each) { return each.slot.was_up(); });
  const bool late = !met && now >= give_up_at_;
  const bool gone = std::all_of(entries.begin(), entries.end(), [&](const LaneEntry& each) {
    return each.index == relay_ || (each.slot.absences() > 0 && now - each.slot.absent_since() >= kAbsentFor);
  });
  if (!late && !gone) return;
  fail(tutti::fail(late ? ErrorCode::timed_out : ErrorCode::system, entries.front().slot.reason()).value(), false);
}

void Peer::port_back(std::uint32_t index) {
  LaneSlot& slot = lanes_.entry(index).slot;
  slot.port_back(now());
  context_.tick_by(due(slot));
  context_.note("port back");
}

void Peer::ports_back() {
  for (const LaneEntry& each : lanes_.entries())
    if (!each.slot.in_use()) port_back(each.index);
}

double Peer::tick(std::vector<WantedLane>& wanted) {
  if (context_.error) return kNever;
  const double time = now();
  context_.looks_soon = false;
  corruption_log_.catch_up(time);
  judge(time);
  if (inbound_.awaits() || outbound_.awaits() || goes_through_neighbour()) lanes_.probe(time);
  give_up_unreachable(time);
  if (context_.error) return kNever;
  double next = kNever;
  if (watch() != nullptr) watch()->check_overdue(time);
  const bool relays = wants_relay(time);
  for (LaneEntry& each : lanes_.entries()) {
    const bool is_relay = each.index == relay_;
    if (leaving_ || (is_relay && !relays)) continue;
    if (due(each.slot) <= time) {
      const bool was_up = each.slot.was_up();
      wanted.push_back({each.index, each.slot.dial(time), was_up, is_relay});
      context_.note("dialed");
    }
    next = std::min(next, due(each.slot));
  }
  lanes_.record_states();
  if (dials() && lanes_.empty() && !relays) next = std::min(next, direct_until_ + kRelayAfter);
  return context_.looks_soon ? std::min(next, time + PeerContext::kLookEvery) : next;
}

// Without a lane that is trusted there is nothing to protect from one that comes and goes.
double Peer::due(const LaneSlot& slot) const { return slot.due(lanes_.all_suspect()); }

// The lane through a neighbour is used while there is no other; then it is given up like any that is lost.
bool Peer::wants_relay(double now) {
  if (!dials()) return false;
  bool lasting = false;
  for (const LaneEntry* each : lanes_.live()) {
    if (each->index == relay_) continue;
    direct_until_ = now;
    lasting = lasting || now - each->slot.since() > kRelayAfter;
  }
  const LaneEntry& relay = lanes_.entry(relay_);
  if (relay.live && lasting) {
    context_.note("the way through a neighbour given up");
    lane_down(*relay.live, tutti::fail(ErrorCode::system, "there is a direct way again").value(), false);
  }
  return now >= direct_until_ + kRelayAfter;
}

// A neighbour notices that the way behind it is silent only if something is sent there; and if the peer lost its end of
// the lane, this end has to dial, whether it waits for anything or not.
bool Peer::goes_through_neighbour() { return dials() && lanes_.entry(relay_).live != nullptr; }

void Peer::judge(double now) {
  lanes_.judge(now, [this](Lane& lane, double silent) {
    lane_down(lane, tutti::fail(ErrorCode::timed_out, fmt::format("no answer for {:.2f} s", silent)).value(), false);
  });
}

std::string Peer::describe_lanes() const {
  std::string text;
  for (const LaneEntry& each : lanes_.entries()) {
    const LaneSlot& slot = each.slot;
    const bool is_relay = each.index == relay_;
    if (is_relay && !slot.was_up()) continue;
    text += fmt::format("{}lane {}{}", text.empty() ? "" : ", ", each.index, is_relay ? " through a neighbour" : "");
    if (each.live) text += fmt::format(" ({})", each.live->name());
    text += fmt::format(" {}", name_of(slot.state()));
    if (!slot.in_use()) text += fmt::format(" for {:.1f} s: {}", now() - slot.down_since(), slot.reason());
  }
  return text.empty() ? "no lane" : text;
}

Result<std::byte*> Peer::begin(Lane& lane, const FrameHeader& header) { return inbound_.begin(lane, header); }

Status Peer::complete(Lane& lane, const FrameHeader& header) {
  switch (header.type) {
    case FrameType::data:
      return on_data(lane, header);
    case FrameType::again:
      return on_again(header);
    case FrameType::open:
      return inbound_.on_open(lane, header.link);
    case FrameType::close:
      inbound_.on_close(header.link);
      outbound_.on_close(header.link);
      return {};
    case FrameType::fence:
      return on_fence(lane, header);
    case FrameType::ack:
      return outbound_.on_ack(header);
    case FrameType::fenced:
      if (outbound_.on_fenced(header)) lanes_.entry(header.lane).slot.fenced(now());
      return {};
    case FrameType::probe:
      return {};
    case FrameType::trial:
      inbound_.on_trial(lane);
      return {};
    case FrameType::tried:
      lanes_.on_tried(header);
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

Status Peer::on_data(Lane& lane, const FrameHeader& header) {
  const Receipt receipt = inbound_.on_data(lane, header);
  if (!receipt.is_checked) return {};
  LaneEntry& entry = lanes_.entry(lane.index());
  if (receipt.times_corrupted == 0) {
    lanes_.count_checked(entry);
    return {};
  }
  context_.note("chunk corrupted");
  const std::string what =
      fmt::format("chunk {} of {}, {} bytes, came corrupted", header.sequence, header.link.to_string(), header.bytes);
  const bool again_and_again = entry.slot.corrupted(now(), lanes_.has_others(entry));
  if (again_and_again || receipt.times_corrupted >= kTimesCorrupted) {
    context_.note("lane corrupts again and again");
    return tutti::fail(ErrorCode::corrupted, what + ", not for the first time");
  }
  lanes_.count_corrupted(entry, LaneWatch::Corruption::frame_here, what);
  corruption_log_.warn(fmt::format("lane {} to {}: {}; it is sent again", entry.index, name(), what), now());
  return {};
}

Status Peer::on_again(const FrameHeader& header) {
  const auto sent = outbound_.on_again(header);
  if (!sent) return tl::unexpected(sent.error());
  if (!*sent) return {};
  context_.note("sent again because it came corrupted");
  const std::string what =
      fmt::format("chunk {} of {} came corrupted at the peer", header.sequence, header.link.to_string());
  lanes_.count_corrupted(lanes_.entry(header.lane), LaneWatch::Corruption::chunk_there, what);
  return {};
}

Status Peer::on_fence(Lane& lane, const FrameHeader& header) {
  if (lane.index() == header.lane && lane.epoch() <= header.lane_epoch)
    return tutti::fail(ErrorCode::refused, "a lane was named as lost by itself");
  LaneEntry& entry = lanes_.entry(header.lane);
  if (entry.live && entry.live->epoch() <= header.lane_epoch)
    lane_down(*entry.live, tutti::fail(ErrorCode::system, "the peer lost it").value(), false);
  entry.slot.end(header.lane_epoch);
  if (header.is_corrupted)
    lanes_.count_corrupted(entry, LaneWatch::Corruption::lane_there,
                           "the peer gave it up: what came on it was corrupted");
  inbound_.answer_fence(lane, header);
  return {};
}

void Peer::transmitted(Lane&, const FrameHeader& header) {
  if (header.type == FrameType::data) outbound_.transmitted(header);
}

void Peer::pause(Lane& lane, bool settled) {
  ++lanes_.entry(lane.index()).reads;
  inbound_.pause(settled);
}

}  // namespace tutti
