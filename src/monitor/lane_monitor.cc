#include "monitor/lane_monitor.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace tutti::monitor {
namespace {

constexpr double kOverdue = 1.25;         // of what a chunk usually takes
constexpr double kStalled = 8;            // likewise
constexpr double kLookGap = 4;            // likewise: between looks
constexpr double kLeastLookGap = 20e-6;   // seconds
constexpr std::uint64_t kLookEvery = 64;  // completions
constexpr double kNever = std::numeric_limits<double>::infinity();

LaneMonitorOptions checked(LaneMonitorOptions options) {
  options.window = std::clamp(options.window, 1, RateWindow::kLongest);
  return options;
}

}  // namespace

LaneMonitor::LaneMonitor(const LaneMonitorOptions& options, const Map& map, LaneRecord* record, Report report)
    : options_(checked(options)),
      map_(map),
      record_(record != nullptr ? record : &unseen_),
      report_(std::move(report)),
      rate_(options_.window),
      detector_(options_.window, options_.new_usual) {}

void LaneMonitor::post(const Posting& posting) {
  record_->posted_chunks.add(1);
  record_->posted_bytes.add(posting.bytes);
  chunk_bytes_ = posting.bytes;
  evidence_.post(posting.now, posting.handed_over);
  if (outstanding_++ != 0) return;
  busy_since_ = posting.now;
  evidence_.begin(posting.now, posting.handed_over, lead());
}

void LaneMonitor::count_quick(std::uint32_t bytes) {
  record_->quick_chunks.add(1);
  record_->quick_bytes.add(bytes);
}

void LaneMonitor::forget() {
  if (outstanding_ == 0) return;
  --outstanding_;
  evidence_.take();
  stall_reported_ = false;
}

double LaneMonitor::busy_from() const { return std::max(last_done_, busy_since_); }

double LaneMonitor::stall_limit(double least) const { return std::max(least, kStalled * expected()); }

double LaneMonitor::look_due() const {
  if (evidence_.silent() != 0 && has_unjudged()) return open_.end;  // a silence has ended: where was the time lost?
  if (outstanding_ == 0 || !detector_.usual().is_known()) return kNever;
  const double gap = evidence_.looked_at() + std::max(kLookGap * expected(), kLeastLookGap);
  if (evidence_.completions() >= kLookEvery) return gap;
  if (detector_.is_busier_with(open_)) return evidence_.looked_at() + expected();
  return std::max(gap, busy_from() + lead() + kOverdue * expected());
}

void LaneMonitor::look(const PathView& view, double now, bool completing) {
  if (outstanding_ == 0 && evidence_.silent() == 0) return;
  evidence_.look(view, {now, completing, cost(), lead()});
  if (has_unjudged()) open_.lost.add(evidence_.take(), 1);
  if (!completing) notice_stall(now);
}

void LaneMonitor::notice_stall(double now) {
  const double since = busy_from();
  if (stall_reported_ || now - since < stall_limit(options_.stall)) return;
  stall_reported_ = true;
  record_->stalls.add(1);
  LaneSample all;
  all.busy = now - since;
  all.lost = evidence_.found();
  const auto waiting = static_cast<double>(record_->posted_bytes.get() - record_->done_bytes.get());
  const Shares shares = shares_of(all, detector_.usual().cost());
  set_condition(Condition::stalled, shares.cause());
  report(EventKind::lane_stalled, {since, now, usual(), 0, shares}, waiting);
}

// The path is idle from when its last byte had left, which was heard of later by the lead, until the next was posted.
LaneSample LaneMonitor::sample_of(const Completion& done) {
  const double lead = this->lead();
  const bool is_first = last_done_ == 0;
  const double idle = is_first ? 0 : std::max(done.posted + lead - last_done_, 0.0);
  LaneSample found;
  found.chunks = 1;
  found.bytes = std::max(done.bytes, 1U);
  found.busy = std::max(done.now - std::max(done.posted + lead, last_done_), 0.0);
  found.late = std::clamp(done.refused - refused_, 0.0, idle);
  found.starved = done.operation == operation_ ? idle - found.late : 0;
  found.lost = evidence_.take();
  found.end = done.now;
  found.begin = done.now - found.seconds();
  if (done.posted >= last_done_ && condition_ == Condition::normal)
    lead_.add(done.now - done.posted, found.bytes, cost());
  operation_ = done.operation;
  refused_ = done.refused;
  return found;
}

void LaneMonitor::complete(const Completion& done) {
  if (outstanding_ != 0) --outstanding_;
  if (has_unjudged() && open_.end != done.now) judge(done.now);
  const LaneSample found = sample_of(done);
  const double seconds = std::max(done.now - std::max(done.posted, last_done_), 0.0);
  rate_.add({static_cast<double>(done.bytes), seconds});
  record_->busy.add(stamp(seconds));
  last_done_ = std::max(last_done_, done.now);
  write(done, found);
  if (!has_unjudged()) open_.begin = found.begin;
  open_.end = found.end;
  open_.add(found);
  evidence_.complete(found.bytes);
}

void LaneMonitor::write(const Completion& done, const LaneSample& found) {
  const std::uint64_t late = stamp(found.late + std::clamp(found.lost.at_receiver, 0.0, found.busy));
  const std::uint64_t starved = stamp(found.starved);
  record_->done_chunks.add(1);
  record_->done_bytes.add(done.bytes);
  record_->receiver_late.add(late);
  record_->starved.add(starved);
  record_->rate.set(rate());
  if (record_ == &unseen_) return;
  const std::uint64_t number = record_->chunk_count.get();
  ChunkRecord& chunk = map_.chunk(*record_, number);
  chunk.index.set(0);
  chunk.posted.set(stamp(done.posted));
  chunk.done.set(stamp(done.now));
  chunk.bytes.set(done.bytes);
  chunk.operation.set(static_cast<std::uint32_t>(done.operation));
  chunk.receiver_late.set(static_cast<std::uint32_t>(std::min<std::uint64_t>(late, ~std::uint32_t{0})));
  chunk.starved.set(static_cast<std::uint32_t>(std::min<std::uint64_t>(starved, ~std::uint32_t{0})));
  chunk.rate.set(record_->rate.get());
  chunk.index.set(number + 1);
  record_->chunk_count.set(number + 1);
}

void LaneMonitor::judge(double now) {
  if (!has_unjudged()) return;
  detector_.add(std::exchange(open_, {}));
  if (!detector_.is_ready()) return;
  if (condition_ != Condition::dropped) {
    const bool is_stalled = condition_ == Condition::stalled;
    const std::optional<Drop> found = detector_.find_drop(now, stall_limit(options_.gap), is_stalled);
    if (!found && detector_.learn()) record_->usual.set(usual());
    if (found) begin_drop(*found);
    if (!found || !is_stalled) return;
  }
  const std::optional<Drop> over = detector_.find_end(now);
  if (!over) return;
  set_condition(Condition::normal, Cause::none);
  report(EventKind::lane_recovered, *over, over->rate);
}

void LaneMonitor::begin_drop(const Drop& drop) {
  record_->drops.add(1);
  set_condition(Condition::dropped, drop.shares.cause());
  if (!std::exchange(stall_reported_, false)) report(EventKind::lane_dropped, drop, drop.rate);
}

void LaneMonitor::set_condition(Condition condition, Cause cause) {
  condition_ = condition;
  record_->condition.set(static_cast<std::uint32_t>(condition));
  record_->cause.set(static_cast<std::uint32_t>(cause));
}

void LaneMonitor::report(EventKind kind, const Drop& drop, double amount) {
  if (!report_) return;
  const Shares& shares = drop.shares;
  const double all = std::max(shares.sender + shares.receiver + shares.path, 1e-12);
  const std::string text = fmt::format("path {:.0f} %, receiver {:.0f} %, sender {:.0f} %", 100 * shares.path / all,
                                       100 * shares.receiver / all, 100 * shares.sender / all);
  Event event;
  event.kind = kind;
  event.cause = shares.cause();
  event.at = stamp(drop.until);
  event.began = stamp(drop.began);
  event.operation = static_cast<std::uint32_t>(operation_);
  event.values[0] = drop.usual;
  event.values[1] = amount;
  event.values[2] = drop.until - drop.began;
  event.text = text;
  report_(event);
}

}  // namespace tutti::monitor
