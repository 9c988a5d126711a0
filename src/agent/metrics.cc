#include "agent/metrics.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "agent/names.hpp"
#include "base/version.hpp"
#include "monitor/read/cluster_report.hpp"

namespace tutti::agent {
namespace {

using monitor::CommunicatorRecord;
using monitor::CommunicatorView;
using monitor::LaneView;
using monitor::LinkView;
using monitor::PendingView;
using monitor::ProcessView;
using monitor::Snapshot;
using monitor::TotalView;
using Type = Exposition::Type;

constexpr const char* kLaneStates[] = {"probing", "healthy", "suspect", "dead", "held down"};
constexpr int kLinkPeers = 64;  // told of each communicator

Labels labels_of(const ProcessView& process) {
  Labels labels;
  labels.add("slurm_job_id", process.launcher_job.empty() ? "unknown" : process.launcher_job)
      .add("node", process.host)
      .add("pid", process.pid);
  return labels;
}

Labels labels_of(const ProcessView& process, const CommunicatorView& communicator) {
  return labels_of(process)
      .add("comm_id", fmt::format("{:016x}", communicator.id))
      .add("comm_name", communicator_name(communicator.name, communicator.id))
      .add("n_nodes", communicator.hosts)
      .add("nranks", communicator.size)
      .add("rank", communicator.rank);
}

Labels labels_of(const ProcessView& process, const LaneView& lane) {
  return labels_of(process)
      .add("slot", lane.slot)
      .add("lane", lane.index)
      .add("peer", lane.peer)
      .add("peer_name", lane.peer_name)
      .add("address", lane.name)
      .add("relayed", lane.relayed ? "yes" : "no");
}

bool is_told(const CommunicatorView& communicator) { return communicator.state != CommunicatorRecord::closed; }

/// Calls `with(process, communicator)` for each that is told.
template <typename With>
void each_communicator(const Snapshot& snapshot, With with) {
  for (const ProcessView& process : snapshot.processes)
    for (const CommunicatorView& communicator : process.communicators)
      if (is_told(communicator)) with(process, communicator);
}

/// The pending operation that waits for longest; null: none.
const PendingView* oldest(const CommunicatorView& communicator) {
  const auto& pending = communicator.pending;
  const auto found = std::min_element(pending.begin(), pending.end(), [](const PendingView& a, const PendingView& b) {
    return a.operation.entered < b.operation.entered;
  });
  return found == pending.end() ? nullptr : &*found;
}

/// Links by peer and direction, summed up over their channels; the last stands for all peers there is no room for.
std::map<std::pair<int, bool>, LinkView> by_peer(const CommunicatorView& communicator) {
  std::map<std::pair<int, bool>, LinkView> links;
  for (const LinkView& each : communicator.links) {
    const bool fits = links.size() < 2 * kLinkPeers || links.count({each.peer, each.receives}) != 0;
    LinkView& sum = links[{fits ? each.peer : -1, each.receives}];
    sum.posted += each.posted;
    sum.sent += each.sent;
    sum.acked += each.acked;
    sum.bytes += each.bytes;
  }
  return links;
}

struct LaneFamily {
  const char* name;
  Type type;
  const char* help;
  double (*value)(const LaneView&);
  bool is_seconds = false;
};
constexpr auto kCount = [](std::uint64_t count) { return static_cast<double>(count); };
constexpr LaneFamily kLaneFamilies[] = {
    {"tutti_lane_bytes_total", Type::counter, "Bytes the lane has brought over",
     [](const LaneView& lane) { return kCount(lane.done_bytes + lane.quick_bytes); }},
    {"tutti_lane_chunks_total", Type::counter, "Chunks the lane has brought over",
     [](const LaneView& lane) { return kCount(lane.done_chunks + lane.quick_chunks); }},
    {"tutti_lane_outstanding_bytes", Type::gauge, "Bytes posted and not acknowledged",
     [](const LaneView& lane) { return kCount(lane.posted_bytes - std::min(lane.done_bytes, lane.posted_bytes)); }},
    {"tutti_lane_rate_bytes_per_second", Type::gauge, "Throughput of the last window in which there was something",
     [](const LaneView& lane) { return lane.rate; }},
    {"tutti_lane_usual_rate_bytes_per_second", Type::gauge, "What it is as a rule",
     [](const LaneView& lane) { return lane.usual; }},
    {"tutti_lane_busy_seconds_total", Type::counter, "Time something was outstanding",
     [](const LaneView& lane) { return lane.busy; }, true},
    {"tutti_lane_receiver_late_seconds_total", Type::counter, "Of that, time the receiver was not ready",
     [](const LaneView& lane) { return lane.receiver_late; }, true},
    {"tutti_lane_starved_seconds_total", Type::counter, "Time within operations that there was nothing to send",
     [](const LaneView& lane) { return lane.starved; }, true},
    {"tutti_lane_drops_total", Type::counter, "Drops of its throughput",
     [](const LaneView& lane) { return kCount(lane.drops); }},
    {"tutti_lane_stalls_total", Type::counter, "Times nothing came through",
     [](const LaneView& lane) { return kCount(lane.stalls); }},
    {"tutti_lane_checked_chunks_total", Type::counter, "Chunks that came and were compared with their checksum",
     [](const LaneView& lane) { return kCount(lane.checked_chunks + lane.corrupted_chunks); }},
    {"tutti_lane_corrupted_chunks_total", Type::counter, "Chunks that came other than they were sent",
     [](const LaneView& lane) { return kCount(lane.corrupted_chunks); }},
    {"tutti_lane_returned_chunks_total", Type::counter, "Chunks sent again because they came corrupted at the peer",
     [](const LaneView& lane) { return kCount(lane.returned_chunks); }},
    {"tutti_lane_incarnation", Type::gauge, "How often it was connected",
     [](const LaneView& lane) { return kCount(lane.epoch); }},
};

}  // namespace

std::string Metrics::text(const Snapshot& snapshot, const AgentCounts& counts) {
  recent_.look(snapshot);
  recent_.write(out_);
  write_processes(snapshot);
  write_communicators(snapshot);
  write_waits(snapshot);
  write_culprits(snapshot);
  write_totals(snapshot);
  write_links(snapshot);
  write_lanes(snapshot);
  write_agent(snapshot, counts);
  before_ = std::exchange(now_, {});
  return out_.take();
}

double Metrics::never_less(const std::string& key, double value) {
  const auto known = before_.find(key);
  if (known != before_.end() && value < known->second && value > 0.999 * known->second) value = known->second;
  return now_[key] = value;
}

void Metrics::write_processes(const Snapshot& snapshot) {
  out_.family("tutti_process_alive", Type::gauge, "1: the process runs; 0: it is gone and its recording is left");
  for (const ProcessView& each : snapshot.processes)
    out_.sample(labels_of(each).add("command", each.command), each.alive ? 1 : 0);
  out_.family("tutti_process_killed", Type::gauge,
              "1: the process is gone, and neither left in order nor was told to end");
  for (const ProcessView& each : snapshot.processes)
    out_.sample(labels_of(each).add("command", each.command), !each.alive && !each.ended ? 1 : 0);
  out_.family("tutti_process_events_total", Type::counter, "Events the process told");
  for (const ProcessView& each : snapshot.processes)
    out_.sample(labels_of(each), static_cast<double>(each.event_count));
  out_.family("tutti_process_unrecorded", Type::gauge, "Communicators and lanes for which its recording had no room");
  for (const ProcessView& each : snapshot.processes)
    out_.sample(labels_of(each), each.lost_communicators + each.lost_lanes);
  out_.family("tutti_clock_offset_seconds", Type::gauge, "From this host's clock to that of the job's first process");
  for (const ProcessView& each : snapshot.processes)
    if (each.clock_error) out_.sample(labels_of(each), 1e-9 * static_cast<double>(each.clock_offset));
  out_.family("tutti_clock_error_seconds", Type::gauge, "How wrong tutti_clock_offset_seconds may be");
  for (const ProcessView& each : snapshot.processes)
    if (each.clock_error) out_.sample(labels_of(each), 1e-9 * static_cast<double>(*each.clock_error));
}

void Metrics::write_communicators(const Snapshot& snapshot) {
  out_.family("tutti_communicator_broken", Type::gauge, "1: the communicator is broken");
  each_communicator(snapshot, [&](const ProcessView& process, const CommunicatorView& each) {
    // Of ranks that are told to end, those that are told last see the others go.
    const bool told = !process.alive && process.told_to_end != 0;
    out_.sample(labels_of(process, each), each.state == CommunicatorRecord::broken && !told ? 1 : 0);
  });
  out_.family("tutti_pending_operations", Type::gauge, "Operations under way");
  each_communicator(snapshot, [&](const ProcessView& process, const CommunicatorView& each) {
    if (process.alive) out_.sample(labels_of(process, each), static_cast<double>(each.pending.size()));
  });
  out_.family("tutti_pending_operation_age_seconds", Type::gauge, "For how long the oldest of them is; 0: none");
  each_communicator(snapshot, [&](const ProcessView& process, const CommunicatorView& each) {
    const PendingView* const pending = oldest(each);
    if (process.alive)
      out_.sample(labels_of(process, each), pending == nullptr ? 0 : snapshot.now - pending->operation.entered);
  });
  out_.family("tutti_awaited_rank", Type::gauge, "The rank the oldest of them waits for; -1: none");
  each_communicator(snapshot, [&](const ProcessView& process, const CommunicatorView& each) {
    const PendingView* const pending = oldest(each);
    if (process.alive) out_.sample(labels_of(process, each), pending == nullptr ? -1 : pending->awaited);
  });
  out_.family("tutti_awaited_seconds", Type::gauge, "For how long it has waited for that rank");
  each_communicator(snapshot, [&](const ProcessView& process, const CommunicatorView& each) {
    const PendingView* const pending = oldest(each);
    const bool waits = pending != nullptr && pending->awaited >= 0;
    if (process.alive) out_.sample(labels_of(process, each), waits ? snapshot.now - pending->awaited_since : 0);
  });
}

void Metrics::write_waits(const Snapshot& snapshot) {
  const std::string name = "tutti_waited_seconds_total";
  out_.family(name, Type::counter, "Time operations waited, by the rank that was waited for");
  each_communicator(snapshot, [&](const ProcessView& process, const CommunicatorView& each) {
    for (const monitor::WaitedView& waited : each.waits) {
      Labels labels = labels_of(process, each);
      labels.add("awaited", waited.rank < 0 ? "others" : std::to_string(waited.rank));
      out_.sample(labels, never_less(name + labels.text(), waited.seconds));
    }
  });
}

/// The ranks that hold others up, as this host knows them.
void Metrics::write_culprits(const Snapshot& snapshot) {
  constexpr double kWorthATime = 1;  // seconds; what is over sooner would only make series
  const monitor::ClusterReport report = monitor::analyze(snapshot);
  const auto labels_of_rank = [&](const monitor::JobReport& job, const monitor::CommunicatorReport& of, int rank) {
    const auto found =
        std::find_if(of.ranks.begin(), of.ranks.end(), [&](const auto& each) { return each.rank == rank; });
    const bool is_here = found != of.ranks.end();
    Labels labels;
    labels.add("slurm_job_id", job.launcher_job.empty() ? "unknown" : job.launcher_job)
        .add("node", is_here ? report.processes[found->process].host : "")
        .add("pid", is_here ? std::to_string(found->pid) : "")
        .add("comm_id", fmt::format("{:016x}", of.id))
        .add("comm_name", communicator_name(of.name, of.id))
        .add("n_nodes", of.hosts)
        .add("nranks", of.size)
        .add("rank", rank);
    return labels;
  };
  out_.family("tutti_blocking_rank", Type::gauge, "For how long others wait for this rank, which waits for nobody");
  for (const monitor::JobReport& job : report.jobs)
    for (const monitor::CommunicatorReport& each : job.communicators)
      for (const monitor::Blocker& blocker : each.blockers)
        if (blocker.why != monitor::Blocker::Why::circle && !blocker.waiters.empty() && blocker.seconds >= kWorthATime)
          out_.sample(labels_of_rank(job, each, blocker.rank)
                          .add("why", name_of(blocker.why))
                          .add("waiters", monitor::text_of(blocker.waiters)),
                      blocker.seconds);
  out_.family("tutti_straggler_share", Type::gauge, "The share of the time this rank costs the others");
  for (const monitor::JobReport& job : report.jobs)
    for (const monitor::CommunicatorReport& each : job.communicators)
      for (const monitor::Straggler& straggler : each.stragglers)
        out_.sample(labels_of_rank(job, each, straggler.rank).add("why", name_of(straggler.why)), straggler.share());
}

void Metrics::write_totals(const Snapshot& snapshot) {
  struct TotalFamily {
    const char* name;
    const char* help;
    double (*value)(const TotalView&);
    bool is_seconds;
  };
  static constexpr TotalFamily kFamilies[] = {
      {"tutti_operations_total", "Operations that are over",
       [](const TotalView& total) { return static_cast<double>(total.operations); }, false},
      {"tutti_operations_bytes_total", "Bytes of their vectors",
       [](const TotalView& total) { return static_cast<double>(total.bytes); }, false},
      {"tutti_operations_seconds_total", "Time from entering them to their end",
       [](const TotalView& total) { return total.seconds; }, true},
      {"tutti_operations_waited_seconds_total", "Of that, time in which they waited for other ranks",
       [](const TotalView& total) { return total.waited; }, true},
  };
  for (const TotalFamily& family : kFamilies) {
    out_.family(family.name, Type::counter, family.help);
    each_communicator(snapshot, [&](const ProcessView& process, const CommunicatorView& each) {
      const Labels common = labels_of(process, each);
      for (const TotalView& total : each.totals) {
        const Labels labels = Labels(common)
                                  .add("collective", name_of(total.collective))
                                  .add("message_size", size_range(total.size_class));
        const double value = family.value(total);
        out_.sample(labels, family.is_seconds ? never_less(family.name + labels.text(), value) : value);
      }
    });
  }
}

void Metrics::write_links(const Snapshot& snapshot) {
  struct LinkFamily {
    const char* name;
    const char* help;
    std::uint64_t LinkView::*count;
  };
  static constexpr LinkFamily kFamilies[] = {
      {"tutti_link_posted_total", "Chunks posted; where it receives, expected", &LinkView::posted},
      {"tutti_link_sent_total", "Chunks handed to a lane; where it receives, received", &LinkView::sent},
      {"tutti_link_acked_total", "Chunks acknowledged; where it receives, done with", &LinkView::acked},
      {"tutti_link_bytes_total", "Bytes of the chunks posted or expected", &LinkView::bytes},
  };
  for (const LinkFamily& family : kFamilies) {
    out_.family(family.name, Type::counter, family.help);
    each_communicator(snapshot, [&](const ProcessView& process, const CommunicatorView& each) {
      const Labels common = labels_of(process, each);
      for (const auto& [end, link] : by_peer(each)) {
        Labels labels = common;
        labels.add("peer", end.first < 0 ? "others" : std::to_string(end.first));
        out_.sample(labels.add("direction", end.second ? "receive" : "send"), static_cast<double>(link.*family.count));
      }
    });
  }
}

void Metrics::write_lanes(const Snapshot& snapshot) {
  // Of processes that live: the lanes of others are gone with them.
  Lanes lanes;
  for (const ProcessView& process : snapshot.processes)
    for (const LaneView& lane : process.lanes)
      if (process.alive) lanes.emplace_back(labels_of(process, lane), &lane);
  for (const LaneFamily& family : kLaneFamilies) {
    out_.family(family.name, family.type, family.help);
    for (const auto& [labels, lane] : lanes) {
      const double value = family.value(*lane);
      out_.sample(labels, family.is_seconds ? never_less(family.name + labels.text(), value) : value);
    }
  }
  write_lane_states(lanes);
}

void Metrics::write_lane_states(const Lanes& lanes) {
  out_.family("tutti_lane_state", Type::gauge, "1 for the state the lane is in, 0 for the others");
  for (const auto& [labels, lane] : lanes)
    for (const char* const state : kLaneStates)
      out_.sample(Labels(labels).add("state", state), lane->state == state ? 1 : 0);
  out_.family("tutti_lane_condition", Type::gauge, "1 for the condition its throughput is in, 0 for the others");
  for (const auto& [labels, lane] : lanes)
    for (const auto condition : {monitor::Condition::normal, monitor::Condition::dropped, monitor::Condition::stalled})
      out_.sample(Labels(labels).add("condition", name_of(condition)), lane->condition == condition ? 1 : 0);
  out_.family("tutti_lane_cause", Type::gauge, "1 for the cause of the drop or stall the lane is in");
  for (const auto& [labels, lane] : lanes)
    for (const auto cause :
         {monitor::Cause::sender_starved, monitor::Cause::receiver_late, monitor::Cause::path_congested}) {
      const bool is_it = lane->condition != monitor::Condition::normal && lane->cause == cause;
      out_.sample(Labels(labels).add("cause", name_of(cause)), is_it ? 1 : 0);
    }
}

void Metrics::write_events(const AgentCounts& counts) {
  out_.family("tutti_events_total", Type::counter, "Events since the agent started");
  for (int kind = 0; kind < monitor::kEventKinds; ++kind)
    for (int cause = 0; cause < 4; ++cause) {
      const auto count = counts.events[static_cast<std::size_t>(kind)][static_cast<std::size_t>(cause)];
      if (cause != 0 && count == 0 &&
          (kind < static_cast<int>(monitor::EventKind::lane_dropped) ||
           kind > static_cast<int>(monitor::EventKind::lane_stalled)))
        continue;
      Labels labels;
      labels.add("kind", name_of(static_cast<monitor::EventKind>(kind)));
      out_.sample(labels.add("cause", name_of(static_cast<monitor::Cause>(cause))), static_cast<double>(count));
    }
}

void Metrics::write_agent(const Snapshot& snapshot, const AgentCounts& counts) {
  write_events(counts);
  const auto single = [&](const char* name, Type type, const char* help, double value) {
    out_.family(name, type, help);
    out_.sample({}, value);
  };
  out_.family("tutti_agent_info", Type::gauge, "1, with the agent's version");
  out_.sample(Labels().add("version", library_version().to_string()), 1);
  single("tutti_agent_scrapes_total", Type::counter, "Scrapes answered", static_cast<double>(counts.scrapes));
  single("tutti_agent_refused_total", Type::counter, "Scrapes without the token", static_cast<double>(counts.refused));
  single("tutti_agent_snapshot_seconds", Type::gauge, "What reading the recordings took", counts.snapshot_seconds);
  single("tutti_agent_cpu_seconds_total", Type::counter, "CPU time of the agent", counts.cpu_seconds);
  single("tutti_agent_unreadable_recordings", Type::gauge, "Files that are no recordings this agent can read",
         static_cast<double>(snapshot.problems.size()));
  single("tutti_agent_processes_killed_total", Type::counter, "Processes seen to die without leaving in order",
         static_cast<double>(counts.processes_killed));
  single("tutti_agent_events_missed_total", Type::counter, "Events overwritten before they were read",
         static_cast<double>(counts.events_missed));
  out_.family("tutti_agent_events_dropped_total", Type::counter, "Events an outlet had no room for");
  out_.sample(Labels().add("outlet", "file"), static_cast<double>(counts.file_dropped));
  out_.sample(Labels().add("outlet", "forward"), static_cast<double>(counts.forward_dropped));
  single("tutti_agent_write_failures_total", Type::counter, "Writes of files that failed",
         static_cast<double>(counts.write_failures));
  single("tutti_agent_forward_connected", Type::gauge, "1: whoever events are forwarded to is connected",
         counts.forward_connected ? 1 : 0);
  single("tutti_agent_collector_connected", Type::gauge, "1: the collector is connected",
         counts.collector_connected ? 1 : 0);
}

}  // namespace tutti::agent
