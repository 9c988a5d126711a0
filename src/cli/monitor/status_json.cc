#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/monitor/status_view.hpp"

namespace tutti::cli {
namespace {

using namespace monitor;  // NOLINT(google-build-using-namespace): this file speaks of nothing else
using Json = nlohmann::ordered_json;

std::string hex(std::uint64_t id) { return fmt::format("{:016x}", id); }

template <typename Values, typename Turn>
Json list_of(const Values& values, const Turn& turn) {
  Json list = Json::array();
  for (const auto& value : values) list.push_back(turn(value));
  return list;
}

/// Everything as JSON. Moments are seconds since 1970, null where they have not come; what lasts, seconds.
class StatusJson {
 public:
  StatusJson(const Snapshot& snapshot, const ClusterReport& report) : snapshot_(snapshot), report_(report) {}

  Json document() const {
    return {{"version", 1},
            {"time", moment(report_.now)},
            {"ok", !report_.is_wrong()},
            {"findings", list_of(report_.findings,
                                 [](const Finding& each) {
                                   return Json{{"wrong", each.wrong}, {"text", each.text}};
                                 })},
            {"problems", report_.problems},
            {"jobs", list_of(report_.jobs, [&](const JobReport& each) { return job(each); })},
            {"processes", list_of(report_.processes, [&](const ProcessReport& each) { return process(each); })}};
  }

 private:
  Json moment(double monotonic) const {
    return monotonic == 0 ? Json(nullptr) : Json(monotonic + snapshot_.realtime_offset);
  }

  Json job(const JobReport& job) const {
    return {{"id", hex(job.id)},
            {"launcher_job", job.launcher_job},
            {"command", job.command},
            {"pids", list_of(job.processes, [&](std::size_t index) { return Json(report_.processes[index].pid); })},
            {"communicators", list_of(job.communicators, [&](const auto& each) { return communicator(each); })}};
  }

  Json communicator(const CommunicatorReport& each) const {
    return {{"id", hex(each.id)},
            {"name", each.name},
            {"size", each.size},
            {"hosts", each.hosts},
            {"state", name_of(each.state)},
            {"not_seen", list_of(each.not_seen,
                                 [](const RankRange& range) {
                                   return Json::array({range.first, range.last});
                                 })},
            {"ranks", list_of(each.ranks, [&](const RankReport& value) { return rank(value); })},
            {"waits", list_of(each.waits, [&](const Wait& value) { return wait(value); })},
            {"blockers", list_of(each.blockers, blocker)},
            {"stragglers", list_of(each.stragglers,
                                   [](const Straggler& value) {
                                     return Json{{"rank", value.rank},       {"why", name_of(value.why)},
                                                 {"share", value.share()},   {"lost_seconds", value.lost},
                                                 {"seconds", value.seconds}, {"times", value.times},
                                                 {"of", value.of},           {"late_seconds", value.late}};
                                   })},
            {"mismatches", list_of(each.mismatches, [](const Mismatch& value) {
               return Json{{"number", value.number}, {"ranks", value.ranks}, {"text", value.text}};
             })}};
  }

  Json rank(const RankReport& rank) const {
    return {{"rank", rank.rank},
            {"pid", rank.pid},
            {"alive", rank.alive},
            {"stopped", rank.stopped},
            {"ended", rank.ended},
            {"told_to_end", rank.told_to_end == 0 ? Json() : Json(rank.told_to_end)},
            {"state", name_of(rank.state)},
            {"error", rank.error},
            {"entered", rank.entered},
            {"done", rank.done},
            {"ends_entered", rank.ends_entered},
            {"ends_done", rank.ends_done},
            {"operations", rank.operations},
            {"bytes", rank.bytes},
            {"seconds", rank.seconds},
            {"waited_seconds", rank.waited},
            {"waited_for",
             list_of(rank.waited_for,
                     [](const WaitedView& each) {
                       return Json{{"rank", each.rank < 0 ? Json() : Json(each.rank)}, {"seconds", each.seconds}};
                     })},
            {"pending", list_of(rank.pending, [&](const PendingView& each) { return pending(each); })},
            {"last_operations", list_of(rank.recent, [&](const OperationView& each) { return operation(each); })},
            {"links", list_of(rank.links, link)}};
  }

  Json operation(const OperationView& each) const {
    return {{"number", each.number},
            {"collective", name_of(each.collective)},
            {"type", name_of(each.type)},
            {"operator", name_of(each.op)},
            {"sends", each.sends},
            {"failed", each.failed},
            {"bytes", each.bytes},
            {"root", each.root},
            {"program", each.program},
            {"signature", fmt::format("{:08x}", each.signature)},
            {"entered", moment(each.entered)},
            {"met", moment(each.met())},
            {"waited_seconds", each.waited},
            {"waited_most_for", each.waited_for < 0 ? Json() : Json(each.waited_for)},
            {"done", moment(each.done)}};
  }

  Json pending(const PendingView& each) const {
    Json value = operation(each.operation);
    value["seconds"] = report_.now - each.operation.entered;
    value["workers"] = list_of(each.workers, [](const auto& worker) {
      return Json{{"tile", worker.tile}, {"steps_done", worker.steps_done}};
    });
    return value;
  }

  Json wait(const Wait& each) const {
    return {{"waiter", each.waiter},           {"awaited", each.awaited}, {"operation", title_of(each.operation)},
            {"number", each.operation.number}, {"worker", each.worker},   {"step", each.step},
            {"seconds", each.seconds}};
  }

  static Json blocker(const Blocker& each) {
    return {{"rank", each.rank},       {"why", name_of(each.why)},    {"waiters", each.waiters},
            {"seconds", each.seconds}, {"operation", each.operation}, {"text", each.text}};
  }

  static Json link(const LinkView& each) {
    Json value{{"peer", each.peer}, {"channel", each.channel}, {"receives", each.receives}};
    value[each.receives ? "expected" : "posted"] = each.posted;
    value[each.receives ? "received" : "sent"] = each.sent;
    value[each.receives ? "done" : "acknowledged"] = each.acked;
    value["bytes"] = each.bytes;
    value["operation"] = each.operation;
    return value;
  }

  Json process(const ProcessReport& each) const {
    return {{"pid", each.pid},
            {"file", each.file},
            {"host", each.host},
            {"command", each.command},
            {"launcher_job", each.launcher_job},
            {"alive", each.alive},
            {"ended", each.ended},
            {"rank", each.rank ? Json(*each.rank) : Json(nullptr)},
            {"lanes", list_of(each.lanes, [&](const LaneReport& value) { return lane(value); })}};
  }

  Json lane(const LaneReport& each) const {
    const LaneView& view = each.lane;
    return {{"index", view.index},
            {"peer", view.peer},
            {"peer_name", view.peer_name},
            {"name", view.name},
            {"state", view.state},
            {"since", moment(view.since)},
            {"reason", view.reason},
            {"epoch", view.epoch},
            {"relayed", view.relayed},
            {"bytes_per_second", view.rate},
            {"usual_bytes_per_second", view.usual},
            {"condition", name_of(view.condition)},
            {"cause", name_of(view.cause)},
            {"drops", view.drops},
            {"stalls", view.stalls},
            {"checked_chunks", view.checked_chunks + view.corrupted_chunks},
            {"corrupted_chunks", view.corrupted_chunks},
            {"returned_chunks", view.returned_chunks},
            {"share", each.share},
            {"posted_chunks", view.posted_chunks},
            {"posted_bytes", view.posted_bytes},
            {"done_chunks", view.done_chunks},
            {"done_bytes", view.done_bytes},
            {"quick_chunks", view.quick_chunks},
            {"quick_bytes", view.quick_bytes},
            {"busy_seconds", view.busy},
            {"receiver_late_seconds", view.receiver_late},
            {"starved_seconds", view.starved}};
  }

  const Snapshot& snapshot_;
  const ClusterReport& report_;
};

}  // namespace

Json status_json(const Snapshot& snapshot, const ClusterReport& report) {
  return StatusJson(snapshot, report).document();
}

}  // namespace tutti::cli
