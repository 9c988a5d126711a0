// Ranks that called something else under the same number.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "diagnosis/findings.hpp"
#include "diagnosis/stuck_operations.hpp"
#include "diagnosis/wording.hpp"

namespace tutti::diagnosis {
namespace {

struct CallOfRank {
  const MemberFacts* member = nullptr;
  const CallFacts* call = nullptr;
};

/// What differs, in a word.
std::string_view difference_of(const CallFacts& one, const CallFacts& other) {
  if (one.collective != other.collective) return "operation";
  if (one.type != other.type) return "type";
  if (one.bytes != other.bytes) return "count";
  if (one.root != other.root) return "root";
  if (one.op != other.op) return "operator";
  return "something else";
}

Verdict verdict_of(const Telemetry& telemetry, const CommunicatorFacts& communicator,
                   const std::vector<CallOfRank>& fewer, const std::vector<CallOfRank>& most) {
  Verdict verdict;
  verdict.fault = FaultClass::mismatched_call;
  // Of two ranks that differ, nobody can say which is right.
  verdict.confidence = fewer.size() < most.size() ? 0.99 : 0.5;
  for (const CallOfRank& each : fewer) {
    Suspect suspect = suspect_of(telemetry, each.member->process, verdict.confidence);
    if (suspect.rank < 0) suspect.rank = each.member->rank;
    verdict.suspects.push_back(suspect);
  }
  const CallFacts& wrong = *fewer.front().call;
  const CallFacts& right = *most.front().call;
  verdict.communicators = {communicator.id};
  verdict.place = title_of(right);
  verdict.evidence = {{"ranks_that_differ", static_cast<double>(fewer.size())},
                      {"ranks_that_agree", static_cast<double>(most.size())}};
  verdict.text = fmt::format("as #{} of {}, {} called {}, and {} others {}: the {} differs", right.number,
                             name_of(communicator), text_of(verdict.suspects), description_of(wrong), most.size(),
                             description_of(right), difference_of(wrong, right));
  return verdict;
}

/// `calls`: of one number.
void compare(const Telemetry& telemetry, const CommunicatorFacts& communicator, std::vector<CallOfRank> calls,
             std::vector<Verdict>& verdicts) {
  std::stable_sort(calls.begin(), calls.end(), [](const CallOfRank& one, const CallOfRank& other) {
    return one.call->signature < other.call->signature;
  });
  std::vector<std::vector<CallOfRank>> groups;
  for (const CallOfRank& each : calls) {
    if (groups.empty() || groups.back().front().call->signature != each.call->signature) groups.emplace_back();
    groups.back().push_back(each);
  }
  if (groups.size() < 2) return;
  const auto most = std::max_element(groups.begin(), groups.end(),
                                     [](const auto& one, const auto& other) { return one.size() < other.size(); });
  for (auto group = groups.begin(); group != groups.end(); ++group)
    if (group != most) verdicts.push_back(verdict_of(telemetry, communicator, *group, *most));
}

void compare_collectives(const Telemetry& telemetry, const CommunicatorFacts& communicator,
                         std::vector<Verdict>& verdicts) {
  std::vector<CallOfRank> calls;
  bool differ = false;
  for (const MemberFacts& member : communicator.members)
    for (const OperationFacts& each : member.operations) {
      if (!is_collective(each)) continue;
      calls.push_back({&member, &each.call});
      differ = differ || each.call.signature != calls.front().call->signature;
    }
  if (!differ) return;
  std::stable_sort(calls.begin(), calls.end(), [](const CallOfRank& one, const CallOfRank& other) {
    return one.call->number < other.call->number;
  });
  for (auto begin = calls.begin(); begin != calls.end();) {
    const auto end = std::find_if(begin, calls.end(),
                                  [&](const CallOfRank& each) { return each.call->number != begin->call->number; });
    compare(telemetry, communicator, {begin, end}, verdicts);
    begin = end;
  }
}

/// A send and the receive that meets it.
void compare_ends(const Telemetry& telemetry, const CommunicatorFacts& communicator, std::vector<Verdict>& verdicts) {
  for (const MemberFacts& member : communicator.members)
    for (const OperationFacts& send : member.operations) {
      if (is_collective(send) || !send.call.sends) continue;
      const MemberFacts* const peer = find_member(communicator, send.call.root);
      if (peer == nullptr) continue;
      for (const OperationFacts& other : peer->operations) {
        if (is_collective(other) || other.call.sends || other.call.root != member.rank) continue;
        if (other.call.number != send.call.number) continue;
        if (other.call.bytes == send.call.bytes && other.call.type == send.call.type) continue;
        verdicts.push_back(verdict_of(telemetry, communicator, {{peer, &other.call}}, {{&member, &send.call}}));
      }
    }
}

}  // namespace

void find_mismatches(const Telemetry& telemetry, std::vector<Verdict>& verdicts) {
  for (const CommunicatorFacts& communicator : telemetry.communicators) {
    compare_collectives(telemetry, communicator, verdicts);
    compare_ends(telemetry, communicator, verdicts);
  }
}

}  // namespace tutti::diagnosis
