#include "transport/lane_slot.hpp"

#include <algorithm>
#include <utility>

namespace tutti {

const char* name_of(LaneState state) {
  switch (state) {
    case LaneState::probing:
      return "probing";
    case LaneState::healthy:
      return "healthy";
    case LaneState::suspect:
      return "suspect";
    case LaneState::dead:
      return "dead";
    case LaneState::held_down:
      return "held down";
  }
  return "";
}

LaneSlot::LaneSlot(const LaneTimes& times, bool dials, double now)
    : times_(&times),
      dials_(dials),
      since_(now),
      down_since_(now),
      hold_(times.first_hold, times.longest_hold),
      held_until_(now),
      pause_(times.first_pause, times.longest_pause),
      urgent_pause_(times.first_urgent, times.longest_urgent),
      urgent_at_(now),
      retry_at_(now) {}

void LaneSlot::change(LaneState state, double now) {
  state_ = state;
  since_ = now;
}

void LaneSlot::up(double now, std::uint32_t epoch) {
  change(LaneState::healthy, now);
  epoch_ = epoch;
  was_up_ = true;
  corruptions_ = 0;
  pause_.reset();
  absences_ = 0;
}

void LaneSlot::lost(double now, std::string why) {
  if (!in_use()) return;
  const bool lasted = now - since_ >= std::max(times_->lasting, 4 * hold_.last());
  over_ = epoch_;
  if (lasted) hold_.reset();
  held_until_ = now + hold_.next();
  retry_at_ = held_until_;
  const bool of_use = now - since_ >= times_->longest_urgent;
  if (of_use) urgent_pause_.reset();
  urgent_at_ = of_use ? now : now + urgent_pause_.next();
  reason_ = std::move(why);
  down_since_ = now;
  change(LaneState::dead, now);
}

void LaneSlot::end(std::uint32_t epoch) { over_ = std::max(over_, epoch); }

void LaneSlot::fenced(double now) {
  if (state_ == LaneState::dead) change(LaneState::held_down, now);
}

// A suspicion is not a new life: what counts for the next hold is since when the lane is up.
bool LaneSlot::silent(const Silence& silence, bool others) {
  const double seconds = silence.seconds;
  if (state_ == LaneState::healthy && seconds >= times_->suspect) state_ = LaneState::suspect;
  if (state_ == LaneState::suspect && seconds < times_->suspect) state_ = LaneState::healthy;
  double limit = times_->dead;
  if (silence.way == Silence::Way::open) limit = times_->dead_open;
  if (silence.way == Silence::Way::shut && others) limit = times_->dead_shut;
  return state_ == LaneState::suspect && seconds >= limit;
}

bool LaneSlot::corrupted(double now, bool others) {
  if (corruptions_ == 0 || now - corrupted_since_ > times_->corrupting) {
    corruptions_ = 0;
    corrupted_since_ = now;
  }
  return ++corruptions_ > times_->corruptions && others;
}

double LaneSlot::due(bool alone) const {
  if (!dials_ || in_use() || state_ == LaneState::probing) return kNever;
  return alone ? urgent_at_ : retry_at_;
}

std::uint32_t LaneSlot::dial(double now) {
  change(LaneState::probing, now);
  return epoch_ = std::max(epoch_, over_) + 1;
}

void LaneSlot::failed(double now, std::string why, bool absent) {
  if (state_ != LaneState::probing) return;
  change(LaneState::held_down, now);
  reason_ = std::move(why);
  if (absent && absences_++ == 0) absent_since_ = now;
  if (!absent) absences_ = 0;
  urgent_at_ = now + pause_.next();
  retry_at_ = std::max(held_until_, urgent_at_);
}

void LaneSlot::port_back(double now) {
  pause_.reset();
  urgent_at_ = now;
  retry_at_ = std::max(now, held_until_);
}

}  // namespace tutti
