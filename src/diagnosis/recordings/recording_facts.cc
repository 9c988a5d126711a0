#include "diagnosis/recordings/recording_facts.hpp"

#include <algorithm>

#include "diagnosis/merge/stretches.hpp"
#include "diagnosis/rhythm.hpp"

namespace tutti::diagnosis {
namespace {

using monitor::CommunicatorRecord;
using monitor::CommunicatorView;
using monitor::OperationView;
using monitor::ProcessView;

constexpr double kRecent = 60;  // seconds; waits of longer ago say nothing of today
constexpr double kRecentPeriods = 8;
constexpr double kStretchPeriods = 16;  // the same of stretches, which are longer than periods

bool is_collective(const OperationView& operation) { return operation.collective != Collective::point_to_point; }

CallFacts call_facts(const OperationView& view) {
  CallFacts call;
  call.number = view.number;
  call.collective = view.collective;
  call.type = view.type;
  call.op = view.op;
  call.sends = view.sends;
  call.bytes = view.bytes;
  call.root = view.root;
  call.signature = view.signature;
  return call;
}

/// The rank whose fault the error is, as this rank sees it.
int accused_by(const ProcessView& process, const CommunicatorView& view) {
  for (auto event = process.events.rbegin(); event != process.events.rend(); ++event)
    if (event->kind == monitor::EventKind::communicator_broken && event->communicator == view.id)
      return event->peer >= 0 && event->peer < view.size ? event->peer : -1;
  return -1;
}

MemberFacts::State state_of(const CommunicatorView& view) {
  if (view.state == CommunicatorRecord::broken) return MemberFacts::State::broken;
  return view.state == CommunicatorRecord::closed ? MemberFacts::State::left : MemberFacts::State::joined;
}

MemberFacts member_facts(const SeenProcess& process, const CommunicatorView& view) {
  MemberFacts member;
  member.rank = view.rank;
  member.process = process.index;
  member.state = state_of(view);
  const OperationView* failed = nullptr;
  for (const OperationView& each : view.operations) {
    if (!is_collective(each)) continue;
    if (each.failed) {
      failed = &each;
    } else {
      member.last_done = each.number;
      member.done_at = each.done;
    }
  }
  // None is remembered where sends and receives have displaced them; they are counted from 0.
  if (member.last_done < 0 && view.done > 0) member.last_done = static_cast<std::int64_t>(view.done) - 1;
  for (const monitor::PendingView& pending : view.pending)
    member.operations.push_back({call_facts(pending.operation), false, pending.operation.entered, 0, pending.awaited});
  if (member.state == MemberFacts::State::broken) {
    member.accused = accused_by(*process.view, view);
    if (failed != nullptr) member.operations.push_back({call_facts(*failed), true, failed->entered, 0, -1});
  }
  return member;
}

void add_flows(const CommunicatorView& view, CommunicatorFacts& communicator) {
  if (view.pending.empty()) return;
  for (const monitor::LinkView& link : view.links)
    if (!link.receives)
      communicator.flows.push_back(
          {view.rank, link.peer, link.channel, link.operation, link.posted, link.sent, link.acked});
}

RankHistory history_of(const CommunicatorView& view) {
  RankHistory history;
  history.rank = view.rank;
  for (const OperationView& each : view.operations)
    if (is_collective(each) && !each.failed)
      history.operations.push_back(
          {each.number, each.signature, leaves_together(each.collective), each.entered, each.done});
  return history;
}

/// Fills in how the communicator is used. Waits only where all that are known of work.
void learn(CommunicatorFacts& communicator, std::vector<RankHistory> histories, bool works, double now) {
  if (histories.empty()) return;
  const auto most = std::max_element(histories.begin(), histories.end(), [](const auto& one, const auto& other) {
    return one.operations.size() < other.operations.size();
  });
  communicator.rhythm = learn_rhythm(most->operations);
  communicator.sites = learn_sites(most->operations);
  if (!works) return;
  const auto forget = [&](double periods) {
    const double since = now - std::max(kRecent, periods * communicator.rhythm.period);
    for (RankHistory& history : histories)
      std::erase_if(history.operations, [&](const PastOperation& each) { return each.done < since; });
  };
  const bool is_whole = static_cast<int>(communicator.members.size()) == communicator.size;
  forget(kStretchPeriods);
  if (!is_whole) learn_stretches(histories, communicator);
  forget(kRecentPeriods);
  communicator.waits = learn_waits(histories, communicator.rhythm);
}

/// What a rank has called, by collective.
std::vector<TrafficFacts> traffic_of(const CommunicatorView& view) {
  std::vector<TrafficFacts> traffic;
  for (const monitor::TotalView& total : view.totals) {
    const auto known = std::find_if(traffic.begin(), traffic.end(),
                                    [&](const TrafficFacts& each) { return each.collective == total.collective; });
    TrafficFacts& facts = known == traffic.end() ? traffic.emplace_back() : *known;
    facts.collective = total.collective;
    facts.calls += total.operations;
    facts.bytes += total.bytes;
  }
  return traffic;
}

/// A communicator that is put together from what its ranks have recorded.
struct MemberViews {
  CommunicatorFacts facts;
  std::vector<RankHistory> histories;
  bool works = true;
  bool in_use = false;  // by any of them
};

/// Where two processes claim a rank, the one that lives; of two that do not, the later.
void seat(CommunicatorFacts& communicator, MemberFacts member, bool alive) {
  auto& members = communicator.members;
  const auto place = std::lower_bound(members.begin(), members.end(), member.rank,
                                      [](const MemberFacts& each, int rank) { return each.rank < rank; });
  if (place == members.end() || place->rank != member.rank)
    members.insert(place, std::move(member));
  else if (alive)
    *place = std::move(member);
}

}  // namespace

std::map<std::uint64_t, std::vector<SeenProcess>> jobs_of(const monitor::Snapshot& snapshot) {
  std::map<std::uint64_t, std::vector<SeenProcess>> jobs;
  for (const ProcessView& process : snapshot.processes)
    for (const CommunicatorView& communicator : process.communicators) {
      std::vector<SeenProcess>& job = jobs[communicator.job];
      if (job.empty() || job.back().view != &process) job.push_back({&process, static_cast<int>(job.size())});
    }
  return jobs;
}

ProcessFacts process_facts(const ProcessView& view, std::uint64_t job) {
  ProcessFacts process;
  process.pid = view.pid;
  process.host = view.host;
  if (view.alive)
    process.state = view.stopped ? ProcessState::stopped : ProcessState::running;
  else
    process.state = view.ended ? ProcessState::ended : ProcessState::killed;
  process.told_to_end = view.told_to_end != 0;
  for (const CommunicatorView& each : view.communicators)
    if (each.id == job) process.rank = each.rank;
  return process;
}

bool is_on_one_host(const std::vector<SeenProcess>& processes, std::uint64_t job) {
  for (const SeenProcess& process : processes)
    for (const CommunicatorView& each : process.view->communicators)
      if (each.job == job && each.hosts > 1) return false;
  return true;
}

std::vector<CommunicatorFacts> communicator_facts(const std::vector<SeenProcess>& processes, std::uint64_t job,
                                                  double now) {
  std::map<std::uint64_t, MemberViews> gathered;
  for (const SeenProcess& process : processes)
    for (const CommunicatorView& view : process.view->communicators) {
      if (view.job != job) continue;
      MemberViews& known = gathered[view.id];
      CommunicatorFacts& facts = known.facts;
      if (facts.size == 0) {
        facts.id = view.id;
        facts.name = view.name;
        facts.size = view.size;
        facts.traffic = traffic_of(view);
      }
      if (view.size != facts.size) continue;  // a record that contradicts the others is not one of it
      known.in_use = known.in_use || view.state != CommunicatorRecord::closed;
      known.works = known.works && process.view->alive && view.state == CommunicatorRecord::alive;
      seat(facts, member_facts(process, view), process.view->alive);
      add_flows(view, facts);
      known.histories.push_back(history_of(view));
    }
  std::vector<CommunicatorFacts> communicators;
  for (auto& [id, each] : gathered) {
    if (!each.in_use) continue;
    learn(each.facts, std::move(each.histories), each.works, now);
    communicators.push_back(std::move(each.facts));
  }
  return communicators;
}

}  // namespace tutti::diagnosis
