#include "transport/lane_shares.hpp"

#include <algorithm>

namespace tutti {
namespace {

constexpr double kEqual = 0.8;        // of the fastest lane's rate
constexpr double kDeep = 8;           // chunks a lane may have outstanding
constexpr double kDeepest = 24;       // the same, so that a lane slower by as much gets something to do, too
constexpr double kBusyFor = 0.002;    // seconds of work, where that is more
constexpr double kMemory = 0.2;       // seconds of work that a lane's rate is taken from; older ones count half
constexpr double kStandstill = 0.02;  // seconds: a sample that is longer may be one of a process that did not run,
constexpr double kWorse = 8;          // unless it is expected to take long: it counts as at most so much worse
constexpr double kTrialEvery = 0.15;  // seconds without a measurement
constexpr double kTrialLost = 5;      // seconds until a trial is not waited for any more
constexpr double kCaution = 0.03;     // a lane slower by n is expected to take so much times n longer than it did
constexpr double kLearn = 1. / 64;    // of a delay that is longer than the one known
constexpr double kDrift = 1e-3;       // seconds that clocks move apart in a second, at most: one may be slewed

}  // namespace

LaneShares::LaneShares(std::size_t chunk_limit)
    : chunk_limit_(chunk_limit),
      trial_bytes_(std::min(2 * chunk_limit, kPayloadLimit)),
      depth_(kDeep * static_cast<double>(chunk_limit)) {}

void LaneShares::lane_up(LaneLoad& load, std::uint32_t index, double now) {
  load = {};
  load.index = index;
  load.measured_at = now;
  // In the order of their indices, so that it does not matter which lane came up first.
  const auto above = [&](const LaneLoad* each) { return each->index > index; };
  lanes_.insert(std::find_if(lanes_.begin(), lanes_.end(), above), &load);
  weigh();
}

void LaneShares::lane_lost(LaneLoad& load) {
  load = {};
  std::erase(lanes_, &load);
  weigh();
}

void LaneShares::done(LaneLoad& load, std::size_t bytes, double posted_at, double arrived) {
  load.outstanding -= bytes;
  if (posted_at == 0) return;
  if (load.sample.bytes == 0) load.sample = {0, std::max(posted_at, load.last_done), posted_at >= load.last_done};
  load.sample.bytes += bytes;
  load.last_done = std::max(load.last_done, arrived);
}

void LaneShares::settle(double now) {
  bool changed = false;
  for (LaneLoad* const lane : lanes_) {
    if (lane->sample.bytes == 0) continue;
    measure(*lane, now);
    lane->sample = {};
    changed = true;
  }
  if (changed) weigh();
}

void LaneShares::measure(LaneLoad& lane, double now) {
  const auto bytes = static_cast<double>(lane.sample.bytes);
  double elapsed = std::max(lane.last_done - lane.sample.begins, 0.0);
  if (lane.sample.from_idle && fastest_ != 0) elapsed = without_delay(elapsed, bytes / fastest_);
  const bool is_long = !lane.sample.from_idle || lane.sample.bytes >= trial_bytes_;
  if (is_long) lane.slow_at_length = bytes < kEqual * fastest_ * elapsed;
  // A switch may take a chunk at once from a lane that rested, and the next one no faster than before.
  if (!is_long && lane.slow_at_length && bytes > lane.rate() * elapsed) return;
  lane.measured_at = now;
  count(lane, elapsed);
}

// What the way takes whatever the bytes is the least that chunks took longer than on the fastest lane (`least`). Taking
// it off never makes a lane faster than that one: else the two estimates could drive each other up.
double LaneShares::without_delay(double elapsed, double least) {
  const double found = std::max(elapsed - least, 0.0);
  delay_ = delay_ < 0 || found < delay_ ? found : delay_ + kLearn * (found - delay_);
  return std::max(elapsed - delay_, std::min(elapsed, least));
}

double LaneShares::arrival(std::uint32_t stamp, double now) {
  const std::uint32_t difference = stamp - stamp_of(now);
  if (!has_stamp_) first_stamp_ = difference;
  const double ahead = static_cast<std::int32_t>(difference - first_stamp_) * 1e-6;
  const double known = ahead_ - kDrift * (now - ahead_at_);
  ahead_ = has_stamp_ ? std::max(known, ahead) : ahead;
  has_stamp_ = true;
  ahead_at_ = now;
  return now - (ahead_ - ahead);
}

// A lane that counts as slow and shows otherwise is believed at once, half way: its memory is cut to the length of what
// it has shown. It must have shown it with more than a chunk, which a switch may take at once from a lane that rested.
// In the other direction there is no hurry, because whoever waits for a process that did not run for some milliseconds
// sees the same as on a slow lane.
void LaneShares::count(LaneLoad& lane, double seconds) const {
  const auto bytes = static_cast<double>(lane.sample.bytes);
  const double rate = lane.rate();
  if (rate > 0) seconds = std::min(seconds, std::max(kStandstill, kWorse * bytes / rate));
  if (lane.cost > 1 && lane.sample.from_idle && lane.sample.bytes >= trial_bytes_) {
    seconds = std::max(seconds, bytes / fastest_);
    if (bytes > rate * seconds && lane.seconds > seconds) {
      lane.work = rate * seconds;
      lane.seconds = seconds;
    }
  }
  lane.work += bytes;
  lane.seconds += seconds;
  if (lane.seconds < kMemory) return;
  lane.work /= 2;
  lane.seconds /= 2;
}

// So that a slow lane has something to do during long operations, the others must be allowed to have as much
// outstanding as takes them longer than a chunk takes the slow one.
void LaneShares::weigh() {
  fastest_ = 0;
  for (const LaneLoad* lane : lanes_) fastest_ = std::max(fastest_, lane->rate());
  const auto chunk = static_cast<double>(chunk_limit_);
  depth_ = std::max(kDeep * chunk, kBusyFor * fastest_);
  next_trial_ = 1e300;
  for (LaneLoad* const lane : lanes_) {
    const double rate = lane->rate();
    const double slower = rate == 0 || rate > kEqual * fastest_ ? 1 : fastest_ / rate;
    // The slower a lane, the longer all wait for a chunk too many on it.
    lane->cost = slower == 1 ? 1 : slower * (1 + kCaution * slower);
    if (lane->is_slow() && lane->cost < kDeepest) depth_ = std::max(depth_, (lane->cost + 1) * chunk);
    if (fastest_ > 0 && (lane->is_slow() || rate == 0))
      next_trial_ = std::min(next_trial_, lane->measured_at + kTrialEvery);
  }
}

bool LaneShares::wants_trial(const LaneLoad& load, double now) {
  if (load.trial_at != 0) return now - load.trial_at >= kTrialLost;
  return (load.is_slow() || load.rate() == 0) && load.is_idle() && now - load.measured_at >= kTrialEvery;
}

void LaneShares::trial_posted(LaneLoad& load, double now) const {
  if (load.trial_at == 0) post(load, chunk_cost(trial_bytes_));
  load.trial_at = now;
}

void LaneShares::trial_done(LaneLoad& load, double arrived, double now) {
  if (load.trial_at == 0) return;
  done(load, chunk_cost(trial_bytes_), load.trial_at, arrived);
  load.trial_at = 0;
  settle(now);
}

void LaneShares::trials_asked(double now) { next_trial_ = now + kTrialEvery / 4; }

}  // namespace tutti
