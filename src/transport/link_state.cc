#include "transport/link_state.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/crc32c.hpp"

namespace tutti {
namespace {

constexpr std::size_t kSpareFrom = 4 << 10;  // staging larger than this is kept for the next chunk
constexpr std::size_t kSpareCount = 8;

// Chunks of no bytes have nowhere to lie, but their arrival must not look like a mismatch.
std::byte g_nothing{};

bool is_same_or_before(LaneKey lane, LaneKey last) {
  return static_cast<std::uint32_t>(lane) == static_cast<std::uint32_t>(last) && lane <= last;
}

}  // namespace

std::uint64_t LinkSender::post(const std::byte* data, std::size_t bytes, OperationTag tag, LaneKey lane) {
  Chunk& chunk = chunks_.extend();
  chunk.data = data;
  chunk.bytes = static_cast<std::uint32_t>(bytes);
  chunk.tag = tag;
  chunk.lane = lane;
  if (will_copy(bytes)) {
    chunk.copy = std::make_unique_for_overwrite<std::byte[]>(std::max<std::size_t>(bytes, 1));
    if (bytes != 0) std::memcpy(chunk.copy.get(), data, bytes);
    chunk.data = chunk.copy.get();
    copied_ += bytes;
  }
  spent_ += chunk_cost(bytes);
  advance();
  return chunks_.end() - 1;
}

void LinkSender::transmitted(std::uint64_t sequence) {
  if (chunks_.holds(sequence)) chunks_[sequence].transmitted = true;
}

bool LinkSender::acknowledge_one(std::uint64_t sequence, std::vector<Completed>& completed) {
  Chunk& chunk = chunks_[sequence];
  if (chunk.acked) return true;
  // Lost lanes may have brought it: it is not acked before the copy that is queued has left, for that lies in the same
  // memory. The receiver answers the copy, too.
  if (!chunk.transmitted) return chunk.transmitted_once;
  chunk.acked = true;
  completed.push_back({chunk.lane, chunk.load(), chunk.posted_at, chunk.tag, chunk.refused});
  return true;
}

Status LinkSender::acknowledge(const Acknowledgement& ack, std::vector<Completed>& completed) {
  const auto never_sent = [](std::uint64_t sequence) {
    return fail(ErrorCode::refused, fmt::format("chunk {} was acknowledged but not sent", sequence));
  };
  if (ack.received > posted()) return never_sent(ack.received - 1);
  for (std::uint64_t sequence = acked(); sequence < ack.received; ++sequence)
    if (!acknowledge_one(sequence, completed)) return never_sent(sequence);
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t sequence = ack.received + 1 + bit;
    if ((ack.arrived >> bit & 1) == 0 || sequence < acked()) continue;
    if (sequence >= posted() || !acknowledge_one(sequence, completed)) return never_sent(sequence);
  }
  credit_ = std::max(credit_, ack.credit);
  advance();
  return {};
}

void LinkSender::drop_borrowed(std::vector<Completed>& completed) {
  for (std::uint64_t sequence = acked(); sequence != posted(); ++sequence) {
    if (chunks_[sequence].copy) continue;
    transmitted(sequence);
    acknowledge_one(sequence, completed);
  }
  advance();
}

void LinkSender::drop_all(std::vector<Completed>& completed) {
  for (std::uint64_t sequence = acked(); sequence != posted(); ++sequence) {
    transmitted(sequence);
    acknowledge_one(sequence, completed);
  }
  advance();
}

void LinkSender::advance() {
  while (chunks_.first() != chunks_.end() && chunks_[chunks_.first()].acked) {
    const Chunk& chunk = chunks_[chunks_.first()];
    if (chunk.copy) copied_ -= chunk.bytes;
    chunks_.advance();
  }
  released_ = std::max(released_, chunks_.first());
  while (released_ != chunks_.end() && (chunks_[released_].acked || chunks_[released_].copy)) ++released_;
}

std::vector<std::uint64_t> LinkSender::unacked_on(LaneKey lane) const {
  std::vector<std::uint64_t> open;
  for (std::uint64_t sequence = chunks_.first(); sequence != chunks_.end(); ++sequence)
    if (!chunks_[sequence].acked && is_same_or_before(chunks_[sequence].lane, lane)) open.push_back(sequence);
  return open;
}

Result<bool> LinkSender::returned(std::uint64_t sequence, LaneKey lane, std::uint64_t times) {
  if (sequence >= posted())
    return fail(ErrorCode::refused, fmt::format("chunk {} was asked for again but not sent", sequence));
  if (sequence < acked()) return false;
  Chunk& chunk = chunks_[sequence];
  if (chunk.acked || !chunk.transmitted || chunk.lane != lane || times <= chunk.returned) return false;
  chunk.returned = times;
  return true;
}

void LinkSender::resent(std::uint64_t sequence, LaneKey lane, double now) {
  chunks_[sequence].lane = lane;
  chunks_[sequence].posted_at = now;
  chunks_[sequence].transmitted_once |= chunks_[sequence].transmitted;
  chunks_[sequence].transmitted = false;
}

void LinkReceiver::expect(std::byte* landing, std::size_t bytes, OperationTag tag) {
  const std::uint64_t sequence = expected_++;
  Slot& slot = slots_.holds(sequence) ? slots_[sequence] : slots_.extend();
  slot.is_expected = true;
  slot.landing = landing;
  slot.bytes = static_cast<std::uint32_t>(bytes);
  slot.tag = tag;
  if (slot.state != State::absent && (slot.came_tag != tag || slot.came_bytes != bytes)) slot.mismatched = true;
  if (slot.state == State::received) land(slot);
  expected_cost_ += chunk_cost(bytes);
  update_grant();
}

std::optional<Arrival> LinkReceiver::poll() const {
  const std::uint64_t sequence = slots_.first();
  if (sequence >= expected_ || slots_[sequence].state != State::received) return std::nullopt;
  const Slot& slot = slots_[sequence];
  if (slot.mismatched) return Arrival{nullptr, slot.came_bytes, slot.came_tag};
  const std::byte* data = slot.landing != nullptr ? slot.landing : slot.staging.get();
  return Arrival{data != nullptr ? data : &g_nothing, slot.bytes, slot.tag};
}

void LinkReceiver::release() {
  const std::uint64_t sequence = slots_.first();
  if (sequence >= expected_ || slots_[sequence].state != State::received) return;
  Slot& slot = slots_[sequence];
  if (slot.mismatched) return;
  free_staging(slot);
  if (sequence < granted_) {
    needed_ -= slot.need;
  } else {
    granted_ = sequence + 1;
    granted_cost_ += chunk_cost(slot.bytes);
  }
  slots_.advance();
  update_grant();
}

Result<std::byte*> LinkReceiver::begin(LaneKey lane, const FrameHeader& header) {
  const std::uint64_t sequence = header.sequence;
  if (header.bytes > limits_.chunk_limit)
    return fail(ErrorCode::refused, fmt::format("{} sent a chunk of {} bytes; the limit is {}", header.link.to_string(),
                                                header.bytes, limits_.chunk_limit));
  if (sequence >= expected_ + limits_.window / kFrameHeaderBytes)
    return fail(ErrorCode::refused,
                fmt::format("{} sent chunk {} far beyond its credit", header.link.to_string(), sequence));
  if (sequence < slots_.first()) {
    ack_wanted_ = true;
    return nullptr;
  }
  while (slots_.end() <= sequence) slots_.extend();
  Slot& slot = slots_[sequence];
  if (slot.state != State::absent) {
    ack_wanted_ = true;
    return nullptr;
  }
  slot.came_bytes = header.bytes;
  slot.came_tag = header.tag;
  slot.lane = lane;
  slot.mismatched = slot.is_expected && (slot.tag != header.tag || slot.bytes != header.bytes);
  std::byte* landing = nullptr;
  if (!slot.mismatched && slot.landing != nullptr) {
    landing = header.bytes != 0 ? slot.landing : nullptr;
  } else if (!slot.mismatched) {
    auto staged = stage(slot);
    if (!staged) return staged;
    landing = *staged;
  }
  slot.state = State::arriving;
  ++arriving_;
  slot.wants_ack = header.wants_ack;
  slot.is_checked = header.is_checked && !slot.mismatched;
  slot.checksum = header.checksum;
  return landing;
}

Result<std::byte*> LinkReceiver::stage(Slot& slot) {
  const std::size_t cost = chunk_cost(slot.came_bytes);
  if (staged_ + cost > limits_.window)
    return fail(ErrorCode::refused,
                fmt::format("a chunk of {} bytes came without credit: {} of {} bytes of staging are taken",
                            slot.came_bytes, staged_, limits_.window));
  slot.held = static_cast<std::uint32_t>(cost);
  staged_ += cost;
  if (slot.came_bytes == 0) return nullptr;
  slot.staging = take_buffer(slot.came_bytes);
  return slot.staging.get();
}

std::unique_ptr<std::byte[]> LinkReceiver::take_buffer(std::size_t bytes) {
  if (bytes <= kSpareFrom) return std::make_unique_for_overwrite<std::byte[]>(bytes);
  if (spare_.empty()) return std::make_unique_for_overwrite<std::byte[]>(limits_.chunk_limit);
  auto buffer = std::move(spare_.back());
  spare_.pop_back();
  return buffer;
}

void LinkReceiver::free_staging(Slot& slot) {
  staged_ -= slot.held;
  slot.held = 0;
  if (slot.staging && slot.came_bytes > kSpareFrom && spare_.size() < kSpareCount)
    spare_.push_back(std::move(slot.staging));
  slot.staging.reset();
}

// Moves a chunk that came before it was expected to where it belongs.
void LinkReceiver::land(Slot& slot) {
  if (slot.mismatched) return free_staging(slot);
  if (slot.landing == nullptr) return;
  if (slot.staging) std::memcpy(slot.landing, slot.staging.get(), slot.bytes);
  free_staging(slot);
}

bool LinkReceiver::is_intact(const Slot& slot) {
  if (!slot.is_checked) return true;
  const std::byte* const data = slot.held != 0 ? slot.staging.get() : slot.landing;
  return crc32c({data, data != nullptr ? slot.came_bytes : 0}) == slot.checksum;
}

Receipt LinkReceiver::complete(LaneKey lane, std::uint64_t sequence) {
  if (!slots_.holds(sequence)) return {};
  Slot& slot = slots_[sequence];
  // A copy that came while another lane was still delivering was thrown away.
  if (slot.state != State::arriving || slot.lane != lane) return {};
  const bool is_checked = slot.is_checked;
  if (!is_intact(slot)) {
    ++slot.times_corrupted;
    drop(sequence);
    update_grant();
    return {is_checked, slot.times_corrupted};
  }
  slot.times_corrupted = 0;
  slot.state = State::received;
  --arriving_;
  ack_wanted_ = ack_wanted_ || slot.wants_ack;
  if (slot.is_expected && slot.held != 0) {
    land(slot);
    if (sequence < granted_ && slot.held == 0) {
      needed_ -= slot.need;
      slot.need = 0;
    }
    update_grant();
  }
  while (slots_.holds(received_) && slots_[received_].state == State::received)
    received_cost_ += chunk_cost(slots_[received_++].came_bytes);
  return {is_checked, 0};
}

std::vector<LinkReceiver::Corrupted> LinkReceiver::corrupted() const {
  std::vector<Corrupted> found;
  for (std::uint64_t sequence = received_; sequence < slots_.end(); ++sequence) {
    const Slot& slot = slots_[sequence];
    if (slot.state == State::absent && slot.times_corrupted != 0)
      found.push_back({sequence, slot.lane, slot.times_corrupted});
  }
  return found;
}

void LinkReceiver::abandon(LaneKey lane) {
  for (std::uint64_t sequence = slots_.first(); sequence != slots_.end(); ++sequence)
    if (slots_[sequence].state == State::arriving && slots_[sequence].lane == lane) drop(sequence);
  update_grant();
}

// What was arriving has not come. update_grant() follows.
void LinkReceiver::drop(std::uint64_t sequence) {
  Slot& slot = slots_[sequence];
  free_staging(slot);
  slot.state = State::absent;
  --arriving_;
  slot.mismatched = false;
  if (sequence < granted_ && slot.landing != nullptr) {
    needed_ -= slot.need;
    slot.need = 0;
  }
}

// The grant walks over what is expected as long as its staging fits in the window; past the last expected chunk, what
// is left of the window is granted for chunks nobody announced. It never shrinks: what a grant once counted for a chunk
// can only become less.
void LinkReceiver::update_grant() {
  while (granted_ < expected_) {
    Slot& slot = slots_[granted_];
    const bool in_staging = slot.landing == nullptr || slot.held != 0;
    const auto need = static_cast<std::uint32_t>(in_staging ? chunk_cost(slot.bytes) : 0);
    if (needed_ + need > limits_.window) break;
    slot.need = need;
    needed_ += need;
    granted_cost_ += chunk_cost(slot.bytes);
    ++granted_;
  }
  const std::size_t unannounced = granted_ == expected_ ? limits_.window - needed_ : 0;
  granted_credit_ = std::max(granted_credit_, granted_cost_ + unannounced);
}

bool LinkReceiver::owes_acknowledgement(bool settled) const {
  const std::uint64_t news = received_cost_ - last_ack_cost_;
  const std::uint64_t gain = granted_credit_ - last_ack_credit_;
  if (news >= std::min(limits_.news_limit, limits_.window / 2) || gain >= limits_.window / 2) return true;
  if (ack_wanted_ && settled) return true;
  // A sender with less than a chunk's credit left may be waiting for any that there is.
  const std::uint64_t left = last_ack_credit_ > received_cost_ ? last_ack_credit_ - received_cost_ : 0;
  return gain != 0 && left < chunk_cost(limits_.chunk_limit);
}

Acknowledgement LinkReceiver::acknowledge() {
  Acknowledgement ack;
  ack.received = received_;
  ack.credit = granted_credit_;
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t sequence = received_ + 1 + bit;
    if (sequence >= slots_.end()) break;
    if (slots_[sequence].state == State::received) ack.arrived |= std::uint64_t{1} << bit;
  }
  ack_wanted_ = false;
  last_ack_cost_ = received_cost_;
  last_ack_credit_ = granted_credit_;
  return ack;
}

}  // namespace tutti
