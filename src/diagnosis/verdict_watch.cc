#include "diagnosis/verdict_watch.hpp"

#include <utility>

namespace tutti::diagnosis {
namespace {

// Of what comes and goes: in so many looks, and for so many seconds, however often somebody looks.
constexpr int kSeenOften = 2, kUnseenOften = 3;
constexpr double kSeenFor = 0.5, kUnseenFor = 1.0;
constexpr std::ptrdiff_t kMostPast = 4096;

bool comes_and_goes(FaultClass fault) {
  switch (fault) {
    case FaultClass::slow_link:
    case FaultClass::slow_sender:
    case FaultClass::slow_receiver:
    case FaultClass::slow_path:
    case FaultClass::straggler:
    case FaultClass::starved:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::vector<VerdictChange> VerdictWatch::update(const Telemetry& telemetry, std::vector<Verdict> verdicts) {
  std::vector<VerdictChange> changes;
  for (auto& [key, known] : known_)
    if (key.first == telemetry.job) ++known.unseen;
  for (Verdict& verdict : verdicts) {
    const auto [place, is_new] = known_.try_emplace({telemetry.job, key_of(verdict)});
    Known& known = place->second;
    if (is_new) known.first_seen = telemetry.now;
    known.last_seen = telemetry.now;
    known.unseen = 0;
    ++known.seen;
    known.verdict = std::move(verdict);
    const bool is_short = known.seen < kSeenOften || telemetry.now - known.first_seen < kSeenFor;
    if (known.told || (comes_and_goes(known.verdict.fault) && is_short)) continue;
    known.told = true;
    known.told_at = telemetry.now;
    changes.push_back({true, telemetry.now, 0, known.verdict});
  }
  std::erase_if(known_, [&](const auto& each) {
    const auto& [key, known] = each;
    if (key.first != telemetry.job || known.unseen == 0) return false;
    const bool is_short = known.unseen < kUnseenOften || telemetry.now - known.last_seen < kUnseenFor;
    if (known.told && comes_and_goes(known.verdict.fault) && is_short) return false;
    if (!known.told) return true;
    changes.push_back({false, telemetry.now, telemetry.now - known.told_at, known.verdict});
    if (!known.verdict.suspects.empty()) {
      const Suspect& first = known.verdict.suspects.front();
      if (past_.size() == kMostPast) past_.erase(past_.begin(), past_.begin() + kMostPast / 4);
      past_.push_back({known.verdict.fault, first.host, first.rank, known.verdict.place, telemetry.command});
    }
    return true;
  });
  return changes;
}

}  // namespace tutti::diagnosis
