// What happens to a simulated job: which faults are drawn from its seed, and how each is put in.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "job.hpp"

namespace tutti::simulated {
namespace {

constexpr int kTries = 100'000;  // microseconds for a process that is to stop or end to give up its locks
enum Fault {
  kReset,
  kCutRail,
  kCutOneWay,
  kPortDown,
  kDelay,
  kSlow,
  kStop,
  kClockJump,
  kDescriptors,
  kThreads,
  kCutPair,
  kKill,
  kIsolate,
  kPartition,
  kFaults
};
constexpr const char* kNames[] = {"connections reset", "rail silent",     "rail silent one way",
                                  "port down",         "delay",           "slow rail",
                                  "process stopped",   "clock jump",      "descriptors exhausted",
                                  "threads refused",   "two hosts apart", "process killed",
                                  "host isolated",     "network divided"};

}  // namespace

void SimulatedJob::plan_faults() {
  if (harm_ == Harm::none) return;
  only_kills_ = harm_ == Harm::deadly && draw_.chance(0.5);
  const int count = static_cast<int>(draw_.pick(1, 5));
  for (int i = 0; i < count; ++i) {
    const int last = harm_ == Harm::survivable ? kCutPair : harm_ == Harm::deadly ? kKill : kFaults - 1;
    int kind = static_cast<int>(draw_.pick(0, last));
    if (harm_ == Harm::deadly && (i == 0 || only_kills_)) kind = kKill;
    if (i == 0 && harm_ == Harm::splitting) kind = static_cast<int>(draw_.pick(kIsolate, kPartition));
    const Time latest = draw_.chance(0.3) ? 20 * kMillisecond : 2 * kSecond;
    kernel_.after(draw_.pick(0, latest), [this, kind] { inject(kind); });
  }
}

/// In half of the recoveries one more fault happens while those who are left agree on who that is.
void SimulatedJob::disturb_recovery(std::uint64_t lineage) {
  if (!recoveries_.insert(lineage).second || !draw_.chance(0.5)) return;
  const int last = harm_ == Harm::splitting ? kFaults - 1 : kKill;
  const int kind = only_kills_ || draw_.chance(0.4) ? kKill : static_cast<int>(draw_.pick(0, last));
  kernel_.after(draw_.chance(0.5) ? draw_.pick(0, 3000) * kMicrosecond : draw_.pick(0, 2000) * kMillisecond,
                [this, kind] { inject(kind); });
}

/// Returns how long an outage may last that leaves no way, at most `wanted`.
Time SimulatedJob::spend_outage(Time wanted) {
  const Time spent = std::min(wanted, outages_left_);
  outages_left_ -= spent;
  return spent;
}

/// Returns whether two hosts may lose sight of each other: a third one relays, and nothing else takes its time.
bool SimulatedJob::spend_relays() {
  if (harm_ == Harm::splitting) return true;
  if (network_.hosts() < 3 || killed_ > 0 || outages_left_ < kOutages) return false;
  outages_left_ = 0;
  relays_ = true;
  return true;
}

void SimulatedJob::inject(int kind) {
  const int from = static_cast<int>(draw_.pick(0, network_.hosts() - 1));
  const int to = (from + static_cast<int>(draw_.pick(1, network_.hosts() - 1))) % network_.hosts();
  const bool splits = harm_ == Harm::splitting;
  // Of two rails the second stays as it is, so that there is a way; a single one is gone for a short time only, since
  // what lasts longer than the heartbeat time-out is a death.
  const bool spares_one = !splits && network_.rails() > 1;
  const int rail = spares_one ? 0 : static_cast<int>(draw_.pick(0, network_.rails() - 1));
  Rank& rank = ranks_[static_cast<std::size_t>(draw_.pick(0, static_cast<Time>(ranks_.size()) - 1))];
  const bool is_new = created_ < static_cast<int>(ranks_.size());
  if (!splits && is_new && (kind == kDescriptors || kind == kThreads)) return;  // a creation may fail for want of them
  if (kind == kCutPair && !spend_relays()) return;
  Time outage = draw_.pick(10, splits ? 4000 : 3000) * kMillisecond;
  const bool takes_all = kind == kCutRail || kind == kCutOneWay || kind == kPortDown;
  if (!splits && takes_all && relays_) return;  // those who relay, or tell who lives, have to be heard
  if (!splits && !spares_one && takes_all) outage = spend_outage(outage / 10);
  if (spares_one && takes_all && draw_.chance(0.3)) outage = 60 * kSecond;  // to the end of the job
  if (kind == kCutPair && !splits) outage = std::min(outage, 2 * kSecond);  // no data pass: operations would time out
  const bool breaks = kind == kReset || kind == kCutRail || kind == kCutOneWay || kind == kPortDown || kind == kCutPair;
  if (is_new && breaks) creation_may_fail_ = true;  // a rank whose connection to the store breaks counts as gone
  ++counts_[fmt::format("faults: {}", kNames[kind])];
  kernel_.trace(fmt::format("fault: {} (hosts {}, {}, rail {}, process {}, {} ms)", kNames[kind], from, to, rail,
                            rank.process->pid, outage / kMillisecond));
  switch (kind) {
    case kReset:
      network_.reset_some(*rank.process, draw_.chance(0.5) ? 1.0 : 0.4);
      // Also while connections are being made again.
      if (draw_.chance(0.5))
        kernel_.after(draw_.pick(10, 3000) * kMicrosecond,
                      [this, &rank = *rank.process] { network_.reset_some(rank, 1.0); });
      break;
    case kCutRail:
    case kCutOneWay:
      network_.cut(from, to, rail, true);
      if (kind == kCutRail) network_.cut(to, from, rail, true);
      kernel_.after(outage, [this, from, to, rail] {
        network_.cut(from, to, rail, false);
        network_.cut(to, from, rail, false);
      });
      break;
    case kPortDown:
      network_.set_port(from, rail, false);
      kernel_.after(outage, [this, from, rail] { network_.set_port(from, rail, true); });
      break;
    case kDelay:
    case kSlow:
      if (kind == kDelay) network_.delay(from, to, rail, draw_.pick(1, 60) * kMillisecond);
      if (kind == kSlow) network_.slow_down(from, to, rail, static_cast<double>(draw_.pick(2, 200)));
      kernel_.after(draw_.pick(1, 2000) * kMillisecond, [this, from, to, rail] {
        network_.delay(from, to, rail, 0);
        network_.slow_down(from, to, rail, 1);
      });
      break;
    case kStop:
      outage = draw_.pick(1, 3000) * kMillisecond;
      stop_process(rank, splits ? outage : spend_outage(outage / 10), kTries);
      break;
    case kClockJump: {
      const Time jump = spend_outage(draw_.pick(1, 400) * kMillisecond);
      rank.process->clock_ahead += jump;
      break;
    }
    case kDescriptors:
      rank.process->memory_fails = splits || draw_.chance(0.5);
      memory_refused_ = memory_refused_ || rank.process->memory_fails;
      rank.process->descriptor_limit = rank.process->descriptors + static_cast<int>(draw_.pick(0, 3));
      kernel_.after(draw_.pick(1, 200) * kMillisecond, [&process = *rank.process] { process.descriptor_limit = 1024; });
      break;
    case kThreads:
      rank.process->thread_failures = static_cast<int>(draw_.pick(1, 2));
      break;
    case kKill:
      if (rank.process->dead || rank.ended) break;
      // Without other faults all deaths are known, and one is enough to go on; otherwise a majority stays.
      if ((only_kills_ ? 1 : 2) * (killed_ + 1) < static_cast<int>(ranks_.size())) {
        ++killed_;
        end_process(*rank.process, kTries);
      }
      break;
    case kCutPair:
      for (int each = 0; each < network_.rails(); ++each) {
        network_.cut(from, to, each, true);
        network_.cut(to, from, each, true);
      }
      kernel_.after(outage, [this, from, to] {
        for (int each = 0; each < network_.rails(); ++each) {
          network_.cut(from, to, each, false);
          network_.cut(to, from, each, false);
        }
      });
      break;
    case kIsolate:
    case kPartition: {
      const auto side = [&](int host) { return kind == kIsolate ? host == from : host < (network_.hosts() + 1) / 2; };
      std::vector<std::array<int, 3>> cut;
      for (int a = 0; a < network_.hosts(); ++a)
        for (int b = 0; b < network_.hosts(); ++b)
          for (int r = 0; r < network_.rails(); ++r)
            if (side(a) != side(b)) cut.push_back({a, b, r});
      for (const auto& [a, b, r] : cut) network_.cut(a, b, r, true);
      kernel_.after(outage, [this, cut] {
        for (const auto& [a, b, r] : cut) network_.cut(a, b, r, false);
      });
      break;
    }
    default:
      break;
  }
}

void SimulatedJob::end_process(Process& process, int tries) {
  if (process.dead) return;
  if (tries == 0) return;
  if (kernel_.holds_no_lock(process)) return kernel_.kill(process);
  kernel_.after(kMicrosecond, [this, &process, tries] { end_process(process, tries - 1); });
}

void SimulatedJob::stop_process(Rank& rank, Time duration, int tries) {
  Process& process = *rank.process;
  if (process.dead || process.stopped || tries == 0) return;
  if (!kernel_.holds_no_lock(process)) {
    kernel_.after(kMicrosecond, [this, &rank, duration, tries] { stop_process(rank, duration, tries - 1); });
    return;
  }
  kernel_.stop(process);
  rank.stopped += duration;
  kernel_.after(duration, [this, &process] { kernel_.go_on(process); });
}

}  // namespace tutti::simulated
