#include "diagnosis/stuck_transfer.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "diagnosis/findings.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::diagnosis {
namespace {

constexpr double kSure = 0.95;
constexpr double kOneOfSeveral = 0.8;  // all of those that are out and have done the least
constexpr double kAtWork = 0.5;

/// The flows of this operation that have chunks out, those that have done least first. Sends and receives have numbers
/// of their own: of these the ends must agree, too.
std::vector<const FlowFacts*> flows_out(const CommunicatorFacts& communicator, const StuckOperation& operation) {
  const CallFacts& call = operation.call;
  const int sender = communicator.members[operation.inside.front()].rank;
  std::vector<const FlowFacts*> out;
  for (const FlowFacts& flow : communicator.flows) {
    if (flow.operation != call.number || flow.posted <= flow.done) continue;
    if (call.collective == Collective::point_to_point && (flow.source != sender || flow.destination != call.root))
      continue;
    out.push_back(&flow);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const FlowFacts* one, const FlowFacts* other) { return one->done < other->done; });
  return out;
}

Suspect link_of(const Telemetry& telemetry, const CommunicatorFacts& communicator, const FlowFacts& flow,
                double confidence) {
  const MemberFacts* const source = find_member(communicator, flow.source);
  const MemberFacts* const destination = find_member(communicator, flow.destination);
  Suspect suspect = suspect_of(telemetry, source == nullptr ? -1 : source->process, confidence);
  if (suspect.rank < 0) suspect.rank = flow.source;
  suspect.path = flow.path;
  suspect.peer = flow.destination;
  if (destination != nullptr && destination->process >= 0)
    suspect.peer = telemetry.processes[static_cast<std::size_t>(destination->process)].rank;
  return suspect;
}

void blame_flows(const Telemetry& telemetry, const CommunicatorFacts& communicator,
                 const std::vector<const FlowFacts*>& out, Verdict& verdict) {
  const FlowFacts& least = *out.front();
  const auto alike = static_cast<std::size_t>(
      std::count_if(out.begin(), out.end(), [&](const FlowFacts* each) { return each->done == least.done; }));
  verdict.confidence = alike == 1 ? kSure : kOneOfSeveral;
  for (std::size_t i = 0; i < alike; ++i)
    verdict.suspects.push_back(
        link_of(telemetry, communicator, *out[i], verdict.confidence / static_cast<double>(alike)));
  verdict.evidence.push_back({"posted", static_cast<double>(least.posted)});
  verdict.evidence.push_back({"sent", static_cast<double>(least.sent)});
  verdict.evidence.push_back({"done", static_cast<double>(least.done)});
  const Suspect& first = verdict.suspects.front();
  const char* const where = least.sent < least.posted
                                ? "they wait to be sent: its sender has no room on the way, or the "
                                  "receiver gives none"
                                : "they are on the way: the path or the receiver";
  verdict.text = fmt::format(
      "all ranks are in {} of {} and nothing moves: from {} to rank {}{} {} of {} chunks are done, {} are sent; {}",
      verdict.place, name_of(communicator), text_of(first), first.peer,
      least.path >= 0 ? fmt::format(" on path {}", least.path) : "", least.done, least.posted, least.sent, where);
  if (alike > 1) verdict.text += fmt::format(" ({} flows alike)", alike);
}

/// Nothing is on the way: whoever waits for nobody has something to do and does not do it.
void blame_workers(const Telemetry& telemetry, const CommunicatorFacts& communicator, const StuckOperation& operation,
                   Verdict& verdict) {
  std::vector<int> processes;
  for (const std::size_t member : operation.inside)
    for (const OperationFacts& each : communicator.members[member].operations)
      if (each.call.number == operation.call.number && each.call.collective == operation.call.collective &&
          each.awaited < 0)
        processes.push_back(communicator.members[member].process);
  verdict.confidence = kAtWork;
  for (const int process : processes)
    verdict.suspects.push_back(suspect_of(telemetry, process, kAtWork / static_cast<double>(processes.size())));
  verdict.text = fmt::format("all ranks are in {} of {} and nothing moves; nothing is on the way either", verdict.place,
                             name_of(communicator));
  if (!verdict.suspects.empty())
    verdict.text += fmt::format(": {} waits for nobody, and does not go on", text_of(verdict.suspects));
}

}  // namespace

Verdict judge_transfer(const Telemetry& telemetry, const StuckOperation& operation) {
  const CommunicatorFacts& communicator = telemetry.communicators[operation.communicator];
  Verdict verdict;
  verdict.fault = FaultClass::transfer_stuck;
  verdict.place = title_of(operation.call);
  const std::vector<const FlowFacts*> out = flows_out(communicator, operation);
  if (out.empty())
    blame_workers(telemetry, communicator, operation, verdict);
  else
    blame_flows(telemetry, communicator, out, verdict);
  return verdict;
}

}  // namespace tutti::diagnosis
