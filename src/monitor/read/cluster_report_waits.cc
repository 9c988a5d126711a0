// Who waits for whom, and where the chains end.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "monitor/read/cluster_report_parts.hpp"

namespace tutti::monitor {
namespace {

bool is_collective(const OperationView& operation) { return operation.collective != Collective::point_to_point; }

/// A worker that has gone on since it was said to wait does not wait any more.
bool is_current(const PendingView& pending) {
  const auto worker = static_cast<std::size_t>(pending.awaited_worker);
  if (pending.awaited_worker < 0 || worker >= pending.workers.size()) return true;
  return pending.workers[worker].steps_done == static_cast<std::uint32_t>(pending.awaited_step);
}

void collect_waits(CommunicatorReport& communicator, double now) {
  for (const RankReport& rank : communicator.ranks) {
    // One that is stopped waits for nobody: it cannot even see that others have come.
    if (!rank.alive || rank.stopped || rank.state != CommunicatorRecord::alive) continue;
    for (const PendingView& pending : rank.pending) {
      if (pending.awaited < 0 || pending.awaited == rank.rank || !is_current(pending)) continue;
      communicator.waits.push_back({rank.rank, pending.awaited, pending.operation, pending.awaited_worker,
                                    pending.awaited_step, std::max(0.0, now - pending.awaited_since)});
    }
  }
}

std::string last_of(const RankReport& rank, double now) {
  if (!rank.last_done) return "no operation done yet";
  return fmt::format("last done {}, {} ago", title_of(*rank.last_done),
                     duration_text(std::max(0.0, now - rank.last_done->done)));
}

/// Whether it is on the other end of a send or receive.
bool meets(const RankReport& rank, const Wait& wait) {
  return std::any_of(rank.pending.begin(), rank.pending.end(), [&](const PendingView& pending) {
    return !is_collective(pending.operation) && pending.operation.root == wait.waiter &&
           pending.operation.sends != wait.operation.sends;
  });
}

bool has_entered(const RankReport& rank, const Wait& wait) {
  if (!is_collective(wait.operation)) return meets(rank, wait);
  return rank.last_entered && *rank.last_entered >= wait.operation.number;
}

/// What a rank does instead of what it is awaited for.
void explain(Blocker& blocker, const RankReport* rank, const Wait& wait, double now) {
  const std::string title = title_of(wait.operation);
  if (rank == nullptr) {
    blocker.why = Blocker::Why::not_seen;
    blocker.text = "is not recorded on this host";
  } else if (!rank->alive) {
    blocker.why = Blocker::Why::killed;
    blocker.text = rank->pending.empty()
                       ? fmt::format("{}: {}", end_of(*rank), last_of(*rank, now))
                       : fmt::format("{} in {}, {}", end_of(*rank), title_of(rank->pending[0].operation),
                                     steps_of(rank->pending[0]));
  } else if (!has_entered(*rank, wait)) {
    blocker.why = Blocker::Why::not_entered;
    blocker.text = is_collective(wait.operation)
                       ? fmt::format("has not entered {} yet: {}", title, last_of(*rank, now))
                       : fmt::format("has not come to meet {} of rank {}", title, wait.waiter);
  } else {
    blocker.why = Blocker::Why::at_work;
    blocker.text = rank->pending.empty() ? fmt::format("is through with {}: {}", title, last_of(*rank, now))
                                         : fmt::format("is at work in {}, {}", title_of(rank->pending[0].operation),
                                                       steps_of(rank->pending[0]));
  }
  if (rank != nullptr && rank->stopped) blocker.text = "is stopped, by a signal or a debugger; it " + blocker.text;
}

/// The longest wait of each rank.
std::map<int, const Wait*> by_waiter(const std::vector<Wait>& waits) {
  std::map<int, const Wait*> longest;
  for (const Wait& wait : waits) {
    const Wait*& known = longest[wait.waiter];
    if (known == nullptr || known->seconds < wait.seconds) known = &wait;
  }
  return longest;
}

/// The wait at the end of the chain that begins with this one; null where it runs in a circle.
const Wait* end_of(const Wait& from, const std::map<int, const Wait*>& waits) {
  std::set<int> passed{from.waiter};
  const Wait* last = &from;
  while (passed.insert(last->awaited).second) {
    const auto next = waits.find(last->awaited);
    if (next == waits.end()) return last;
    last = next->second;
  }
  return nullptr;
}

void add_waiter(Blocker& blocker, const Wait& wait) {
  blocker.waiters.push_back(wait.waiter);
  blocker.seconds = std::max(blocker.seconds, wait.seconds);
}

/// Ranks that are missing though nobody has come to wait for them yet: the one before them is awaited first.
void add_absent(const CommunicatorReport& communicator, std::map<int, Blocker>& blockers, double now) {
  const Wait* furthest = nullptr;
  for (const Wait& wait : communicator.waits)
    if (is_collective(wait.operation) && (furthest == nullptr || furthest->operation.number < wait.operation.number))
      furthest = &wait;
  if (furthest == nullptr) return;
  const auto waits_itself = [&](int rank) {
    return std::any_of(communicator.waits.begin(), communicator.waits.end(),
                       [&](const Wait& wait) { return wait.waiter == rank; });
  };
  for (const RankReport& rank : communicator.ranks) {
    if (rank.state != CommunicatorRecord::alive || has_entered(rank, *furthest) || blockers.contains(rank.rank) ||
        waits_itself(rank.rank))
      continue;
    Blocker& blocker = blockers[rank.rank];
    blocker.rank = rank.rank;
    blocker.operation = furthest->operation.number;
    blocker.seconds = furthest->seconds;
    explain(blocker, &rank, *furthest, now);
  }
}

}  // namespace

void find_waits(CommunicatorReport& communicator, double now) {
  collect_waits(communicator, now);
  const std::map<int, const Wait*> longest = by_waiter(communicator.waits);
  std::map<int, Blocker> blockers;
  Blocker circle;
  circle.why = Blocker::Why::circle;
  for (const auto& [waiter, wait] : longest) {
    const Wait* const end = end_of(*wait, longest);
    if (end == nullptr) {
      add_waiter(circle, *wait);
      continue;
    }
    Blocker& blocker = blockers[end->awaited];
    blocker.rank = end->awaited;
    blocker.operation = end->operation.number;
    explain(blocker, find_rank(communicator, end->awaited), *end, now);
    add_waiter(blocker, *wait);
  }
  add_absent(communicator, blockers, now);
  for (auto& [rank, blocker] : blockers) communicator.blockers.push_back(std::move(blocker));
  if (circle.waiters.empty()) return;
  circle.rank = circle.waiters.front();
  circle.text = fmt::format("{} wait for one another, and nothing moves", text_of(circle.waiters));
  communicator.blockers.push_back(std::move(circle));
}

}  // namespace tutti::monitor
