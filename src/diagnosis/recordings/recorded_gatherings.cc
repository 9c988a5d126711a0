#include "diagnosis/recordings/recorded_gatherings.hpp"

#include <algorithm>

#include "diagnosis/recordings/recording_facts.hpp"
#include "monitor/read/rank_meetings.hpp"

namespace tutti::diagnosis {
namespace {

using monitor::ProcessView;
using monitor::RankMeeting;
using monitor::Snapshot;
using monitor::WaitingRank;

/// The job that a rank of it is in; null: none.
Telemetry* find_job(const RankMeeting& gathering, const Snapshot& snapshot, std::vector<Telemetry>& jobs) {
  for (const WaitingRank& waiting : gathering.waiting)
    for (const monitor::CommunicatorView& communicator : snapshot.processes[waiting.process].communicators)
      for (Telemetry& job : jobs)
        if (job.job == communicator.job) return &job;
  return nullptr;
}

Telemetry start_of(const RankMeeting& gathering, const Snapshot& snapshot) {
  Telemetry telemetry;
  telemetry.job = gathering.key;
  telemetry.command = snapshot.processes[gathering.waiting.front().process].command;
  telemetry.now = snapshot.now;
  telemetry.realtime_offset = snapshot.realtime_offset;
  for (const WaitingRank& waiting : gathering.waiting) {
    ProcessFacts process = process_facts(snapshot.processes[waiting.process], 0);
    process.rank = waiting.rank;
    telemetry.processes.push_back(std::move(process));
  }
  return telemetry;
}

GatheringFacts facts_of(RankMeeting gathering, const Snapshot& snapshot, const Telemetry& job) {
  GatheringFacts facts;
  facts.key = gathering.key;
  facts.size = gathering.size;
  facts.began = gathering.began;
  facts.whole = gathering.whole;
  facts.joined = std::move(gathering.joined);
  for (const WaitingRank& waiting : gathering.waiting) {
    const int pid = snapshot.processes[waiting.process].pid;
    const auto found = std::find_if(job.processes.begin(), job.processes.end(), [&](const ProcessFacts& each) {
      return each.pid == pid && each.host == snapshot.processes[waiting.process].host;
    });
    if (found != job.processes.end())
      facts.waiting.push_back({waiting.rank, static_cast<int>(found - job.processes.begin())});
  }
  return facts;
}

}  // namespace

void add_gatherings(const Snapshot& snapshot, std::vector<Telemetry>& jobs) {
  for (RankMeeting& gathering : monitor::rank_meetings_of(snapshot)) {
    Telemetry* job = find_job(gathering, snapshot, jobs);
    if (job == nullptr) job = &jobs.emplace_back(start_of(gathering, snapshot));
    job->gatherings.push_back(facts_of(std::move(gathering), snapshot, *job));
  }
}

}  // namespace tutti::diagnosis
