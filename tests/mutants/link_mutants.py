"""Faults seeded into the code of lanes and links, one at a time: each must make a test fail.

A mutant is what it breaks, the file below src/transport, a text that stands in it once, and what replaces it.
"""

from typing import NamedTuple


class Mutant(NamedTuple):
    breaks: str
    file: str
    text: str
    replacement: str


MUTANTS = [
    # A lane is lost.
    Mutant("chunks are sent again before the receiver has fenced the lane", "outbound.cc",
           "  // The lane just lost may have carried",
           "  for (const LostLane& each : std::vector(lost_)) resend(each);\n  //"),
    Mutant("a fence is answered, but the lane stays in use", "peer.cc",
           "  if (entry.live && entry.live->epoch() <= header.lane_epoch)\n", "  if (false)\n"),
    Mutant("a fence is forgotten where its incarnation was not seen yet", "peer.cc",
           "  entry.slot.end(header.lane_epoch);", ""),
    Mutant("what has come is not told before a fence is answered", "inbound.cc",
           "  ack_all(lane);\n  FrameHeader answer", "  FrameHeader answer"),
    Mutant("what a lost lane failed to tell is not told again", "inbound.cc",
           "  ack_all(lanes_.best());", ""),
    Mutant("fences asked for on a lane are not asked for again when it dies, too", "outbound.cc",
           "  for (const LostLane& each : lost_) ask_to_fence(each);\n  for (const auto& [id, link] : links_)\n",
           "  ask_to_fence(lost_.back());\n  for (const auto& [id, link] : links_)\n"),
    Mutant("openings that a lost lane carried are not announced again", "outbound.cc",
           "    if (!link->state.has_credit()) announce(id, FrameType::open);", "    (void)id;"),
    Mutant("a lost lane is not closed", "peer.cc",
           "  lost->close();", ""),
    Mutant("acknowledgements go to a lane that is lost", "inbound.cc",
           "  if (latest_ == &lane) latest_ = nullptr;", ""),
    Mutant("a chunk on a lost lane counts as arriving for ever", "link_state.cc",
           "    slot.state = State::absent;\n", ""),
    Mutant("the staging of an abandoned chunk stays taken", "link_state.cc",
           "    free_staging(slot);\n    slot.state = State::absent;", "    slot.state = State::absent;"),
    Mutant("chunks of earlier incarnations are not sent again", "link_state.cc",
           "&& lane <= last;", "&& lane == last;"),
    Mutant("a chunk sent again counts for the lane it was lost on", "link_state.cc",
           "  chunks_[sequence].lane = lane;\n", "  (void)lane;\n"),

    # Chunks that come twice.
    Mutant("a chunk that has come is taken once more", "link_state.cc",
           "  if (slot.state != State::absent) {", "  if (slot.state == State::arriving) {"),
    Mutant("a chunk counts as here when its copy on another lane is", "link_state.cc",
           "  if (slot.state != State::arriving || slot.lane != lane) return;",
           "  if (slot.state != State::arriving) return;"),

    # A lane comes back, or goes silent.
    Mutant("an incarnation that is over is taken into use again", "peer.cc",
           "  if (!entry.slot.may_come_up(lane->epoch())) {", "  if (false) {"),
    Mutant("an older incarnation replaces a newer one", "peer.cc",
           "    if (entry.live->epoch() >= lane->epoch()) return false;\n", ""),
    Mutant("fences are not asked for when the first lane comes back", "outbound.cc",
           "  for (const LostLane& each : lost_) ask_to_fence(each);\n  for (const auto& [id, link] : links_) announce",
           "  for (const auto& [id, link] : links_) announce"),
    Mutant("links are not announced when the first lane comes up", "outbound.cc",
           "  for (const auto& [id, link] : links_) announce(id, FrameType::open);\n", ""),
    Mutant("a lane that was lost is never dialed again", "lane_slot.cc",
           "  retry_at_ = held_until_;", "  retry_at_ = kNever;"),
    Mutant("the only lane is not dialed again once it was lost", "lane_slot.cc",
           "  urgent_at_ = of_use ? now : now + urgent_pause_.next();", "  urgent_at_ = kNever;"),
    Mutant("an attempt that failed is the last", "lane_slot.cc",
           "  urgent_at_ = now + pause_.next();", "  urgent_at_ = kNever;"),
    Mutant("nobody looks after what begins to wait after a pause", "peer_context.cc",
           "  tick_by(now() + kLookEvery);", ""),
    Mutant("nobody dials a lane that a caller found lost after a pause", "peer.cc",
           "  context_.tick_by(now());  // whoever finds a lane lost, only tick() has it dialed\n", ""),
    Mutant("nobody dials again after an attempt that failed", "peer.cc",
           "  context_.tick_by(due(slot));\n  context_.note(kind", "  context_.note(kind"),
    Mutant("what a lost lane brought counts as never sent", "link_state.cc",
           "return chunk.transmitted_once;", "return false;"),
    Mutant("silence is never judged", "lane_pool.cc",
           "    if (dead) on_dead(", "    if (false) on_dead("),
    Mutant("a lane on which nothing is sent is never probed", "lane_pool.cc",
           "    if (now - each->quiet_since < context_.options.times.probe) continue;", "    if (now > 0) continue;"),
    Mutant("a sender that waits for credit does not probe", "outbound.cc",
           "(each.second->starved || state", "(state"),

    # Memory and credit.
    Mutant("what a closed link had copied is not sent again", "outbound.cc",
           "  link.state.drop_borrowed(completed_);", "  link.state.drop_all(completed_);"),
    Mutant("a copied chunk is dropped when its link is closed", "outbound.cc",
           "  lane.post(header, chunk.data, chunk.copy != nullptr);", "  lane.post(header, chunk.data, false);"),
    Mutant("memory is released before its chunk is acknowledged", "link_state.cc",
           "(chunks_[released_].acked || chunks_[released_].copy)) ++released_;",
           "(chunks_[released_].transmitted || chunks_[released_].copy)) ++released_;"),
    Mutant("taking a chunk gives no credit back", "link_state.cc",
           "  slots_.advance();\n  update_grant();", "  slots_.advance();"),
    Mutant("a lane's load never becomes less", "lane_shares.cc",
           "  load.outstanding -= bytes;\n", ""),
]
