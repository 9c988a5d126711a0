#include "diagnosis/verdict_watch.hpp"

#include <utility>

namespace tutti::diagnosis {
namespace {

constexpr int kSeenOften = 2, kUnseenOften = 3;  // looks, of what comes and goes

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
    Known& known = known_[{telemetry.job, key_of(verdict)}];
    known.unseen = 0;
    ++known.seen;
    known.verdict = std::move(verdict);
    if (known.told || (comes_and_goes(known.verdict.fault) && known.seen < kSeenOften)) continue;
    known.told = true;
    known.told_at = telemetry.now;
    changes.push_back({true, telemetry.now, 0, known.verdict});
  }
  std::erase_if(known_, [&](const auto& each) {
    const auto& [key, known] = each;
    if (key.first != telemetry.job || known.unseen == 0) return false;
    if (known.told && comes_and_goes(known.verdict.fault) && known.unseen < kUnseenOften) return false;
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
