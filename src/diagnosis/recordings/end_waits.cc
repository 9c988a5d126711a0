#include "diagnosis/recordings/end_waits.hpp"

#include <algorithm>

#include "diagnosis/robust.hpp"

namespace tutti::diagnosis {
namespace {

constexpr double kBetweenLooks = 0.5;  // seconds at least, so that one holds several operations
constexpr std::size_t kFewest = 6, kLooks = 16;

bool sends_and_receives(const monitor::CommunicatorView& view) {
  bool sends = false, receives = false;
  for (const monitor::OperationView& each : view.operations)
    if (each.collective == Collective::point_to_point) (each.sends ? sends : receives) = true;
  return sends && receives;
}

}  // namespace

void EndWaits::Member::look(const monitor::CommunicatorView& view, double now) {
  if (at > 0 && now - at < kBetweenLooks) return;
  Waits so_far;
  for (const monitor::WaitedView& wait : view.waits)
    if (wait.rank >= 0 && wait.rank < view.size) so_far[wait.rank] = wait.seconds;
  // A look in which nothing was called says nothing: what is called now and then is no rhythm, what never ends is
  // stuck.
  const bool is_used = at > 0 && view.ends_done > ends;
  if (is_used && view.ends_done - ends < view.done - std::min(view.done, collectives)) {
    shares.clear();
  } else if (is_used) {
    Waits& share = shares.emplace_back();
    for (const auto& [rank, waited] : so_far) share[rank] = std::clamp((waited - seconds[rank]) / (now - at), 0.0, 1.0);
    if (shares.size() > kLooks) shares.pop_front();
  }
  at = now;
  ends = view.ends_done;
  collectives = view.done;
  seconds = std::move(so_far);
}

std::vector<WaitFacts> EndWaits::Member::waits(int rank) const {
  std::vector<WaitFacts> waits;
  for (const auto& [awaited, waited] : seconds) {
    std::vector<double> each;
    for (const Waits& share : shares) {
      const auto known = share.find(awaited);
      each.push_back(known == share.end() ? 0 : known->second);
    }
    waits.push_back({rank, awaited, waited, median_of(each)});
  }
  return waits;
}

void EndWaits::note(const std::vector<SeenProcess>& processes, double now, Telemetry& telemetry) {
  struct Known {
    bool exchanges = true, learning = false;
    std::vector<WaitFacts> waits;
  };
  std::map<std::uint64_t, Known> communicators;
  for (const SeenProcess& process : processes)
    for (const monitor::CommunicatorView& view : process.view->communicators) {
      Member& member = members_[{process.view->file, view.id}];
      member.look(view, now);
      Known& known = communicators[view.id];
      known.exchanges =
          known.exchanges && process.view->alive && view.ends_done > view.done && sends_and_receives(view);
      known.learning = known.learning || member.shares.size() < kFewest;
      const std::vector<WaitFacts> own = member.waits(view.rank);
      known.waits.insert(known.waits.end(), own.begin(), own.end());
    }
  for (CommunicatorFacts& communicator : telemetry.communicators) {
    const auto known = communicators.find(communicator.id);
    if (known == communicators.end() || !known->second.exchanges) continue;
    communicator.exchanges = true;
    communicator.learning = known->second.learning;
    communicator.waits = communicator.learning ? std::vector<WaitFacts>() : std::move(known->second.waits);
  }
}

void EndWaits::keep(const std::set<std::string>& files) {
  std::erase_if(members_, [&](const auto& each) { return !files.contains(each.first.first); });
}

}  // namespace tutti::diagnosis
