#include "diagnosis/stuck_operations.hpp"

#include <algorithm>
#include <optional>

namespace tutti::diagnosis {
namespace {

constexpr std::uint64_t kKnown = 8;  // operations, after which the rhythm says how long a silence is usual
constexpr double kPeriods = 3;       // of silence
constexpr double kGaps = 1.5;        // of the longest that was seen, as at a checkpoint
constexpr double kSpreads = 10;      // beyond what is usual of an operation
constexpr double kHeldUp = 0.25;     // of the patience, after which an operation holds up whoever is in it

bool is_bad(const Telemetry& telemetry, const MemberFacts& member) {
  if (member.process < 0) return false;
  const ProcessState state = telemetry.processes[static_cast<std::size_t>(member.process)].state;
  return state == ProcessState::stopped || state == ProcessState::killed;
}

/// Whether there is nothing to judge it by.
bool is_out_of_sight(const Telemetry& telemetry, const MemberFacts& member) {
  if (member.process < 0) return true;
  const ProcessState state = telemetry.processes[static_cast<std::size_t>(member.process)].state;
  return state == ProcessState::unreachable || state == ProcessState::elsewhere;
}

/// Builds the operations of one communicator.
class StuckCollector {
 public:
  StuckCollector(const Telemetry& telemetry, std::size_t index, const DiagnosisOptions& options)
      : telemetry_(telemetry), communicator_(telemetry.communicators[index]), index_(index), options_(options) {}

  void collect(std::vector<StuckOperation>& found) {
    if (auto operation = collective()) found.push_back(std::move(*operation));
    for (std::size_t i = 0; i < communicator_.members.size(); ++i) collect_ends(i, found);
  }

 private:
  std::optional<StuckOperation> collective();
  void fill_members(StuckOperation& operation) const;
  void collect_ends(std::size_t member, std::vector<StuckOperation>& found);
  void judge_age(StuckOperation& operation, double entered, double moved);
  bool waits(const MemberFacts& member) const {
    return member.state == MemberFacts::State::joined && is_alive(telemetry_, member);
  }

  const Telemetry& telemetry_;
  const CommunicatorFacts& communicator_;
  std::size_t index_;
  const DiagnosisOptions& options_;
};

/// Sets `still` and `overdue`; an operation that does not even hold up anybody keeps `still` at 0.
void StuckCollector::judge_age(StuckOperation& operation, double entered, double moved) {
  double patience = patience_for(communicator_, operation.call.signature, options_);
  const auto any_bad = [&](const std::vector<std::size_t>& members) {
    return std::any_of(members.begin(), members.end(),
                       [&](std::size_t each) { return is_bad(telemetry_, communicator_.members[each]); });
  };
  if (any_bad(operation.inside) || any_bad(operation.missing)) patience = options_.stopped_patience;
  const double still = telemetry_.now - std::max(entered, moved);
  operation.since = entered;
  operation.overdue = still > patience;
  operation.still = still > kHeldUp * patience ? still : 0;
}

void StuckCollector::fill_members(StuckOperation& operation) const {
  const std::uint32_t number = operation.call.number;
  int next = 0;
  for (std::size_t i = 0; i < communicator_.members.size(); ++i) {
    const MemberFacts& member = communicator_.members[i];
    for (; next < member.rank; ++next) operation.unknown.push_back(next);
    next = member.rank + 1;
    const bool is_inside = std::any_of(
        member.operations.begin(), member.operations.end(),
        [&](const OperationFacts& each) { return is_collective(each) && !each.failed && each.call.number == number; });
    if (is_out_of_sight(telemetry_, member))
      operation.unknown.push_back(member.rank);
    else if (is_inside)
      operation.inside.push_back(i);
    else if (!has_entered(member, number) && member.state != MemberFacts::State::broken)
      operation.missing.push_back(i);
  }
  for (; next < communicator_.size; ++next) operation.unknown.push_back(next);
}

std::optional<StuckOperation> StuckCollector::collective() {
  std::optional<StuckOperation> first;
  double entered = 0, moved = 0;
  // The lowest number that a rank is in: those in later ones wait for it, or will.
  for (const MemberFacts& member : communicator_.members)
    for (const OperationFacts& operation : member.operations) {
      if (operation.failed || !is_collective(operation) || !waits(member)) continue;
      if (first && is_later(operation.call.number, first->call.number)) continue;
      if (!first || is_later(first->call.number, operation.call.number)) {
        first.emplace();
        first->communicator = index_;
        first->call = operation.call;
        entered = operation.entered;
        moved = operation.moved;
      }
      entered = std::min(entered, operation.entered);
      moved = std::max(moved, operation.moved);
    }
  if (!first) return std::nullopt;
  fill_members(*first);
  judge_age(*first, entered, moved);
  if (first->still == 0) return std::nullopt;
  return first;
}

void StuckCollector::collect_ends(std::size_t member, std::vector<StuckOperation>& found) {
  const MemberFacts& self = communicator_.members[member];
  if (!waits(self)) return;
  for (const OperationFacts& operation : self.operations) {
    if (operation.failed || is_collective(operation)) continue;
    StuckOperation stuck;
    stuck.communicator = index_;
    stuck.call = operation.call;
    stuck.inside = {member};
    double moved = operation.moved;
    const MemberFacts* const peer = find_member(communicator_, operation.call.root);
    if (peer == nullptr || is_out_of_sight(telemetry_, *peer)) {
      stuck.unknown = {operation.call.root};
    } else {
      const auto meets = std::find_if(peer->operations.begin(), peer->operations.end(), [&](const auto& other) {
        return !is_collective(other) && !other.failed && other.call.root == self.rank &&
               other.call.sends != operation.call.sends;
      });
      const auto place = static_cast<std::size_t>(peer - communicator_.members.data());
      if (meets == peer->operations.end()) {
        stuck.missing = {place};
      } else {
        if (!operation.call.sends) continue;  // told once, by the end that sends
        stuck.inside.push_back(place);
        moved = std::max(moved, meets->moved);
      }
    }
    judge_age(stuck, operation.entered, moved);
    if (stuck.still > 0) found.push_back(std::move(stuck));
  }
}

/// Fills in `free` and `held_up`.
void connect(const Telemetry& telemetry, std::vector<StuckOperation>& operations) {
  std::vector<std::vector<std::uint32_t>> in(telemetry.processes.size());  // the operations of each process
  const auto process_of = [&](const StuckOperation& operation, std::size_t member) {
    return telemetry.communicators[operation.communicator].members[member].process;
  };
  for (std::size_t i = 0; i < operations.size(); ++i)
    for (const std::size_t member : operations[i].inside)
      if (const int process = process_of(operations[i], member); process >= 0)
        in[static_cast<std::size_t>(process)].push_back(static_cast<std::uint32_t>(i));
  for (std::size_t i = 0; i < operations.size(); ++i)
    for (const std::size_t member : operations[i].missing) {
      const std::size_t held_up = operations[i].held_up.size();
      if (const int process = process_of(operations[i], member); process >= 0)
        for (const std::uint32_t other : in[static_cast<std::size_t>(process)])
          if (other != i) operations[i].held_up.push_back({member, other});
      if (operations[i].held_up.size() == held_up) operations[i].free.push_back(member);
    }
}

}  // namespace

double patience_for(const CommunicatorFacts& communicator, std::uint32_t signature, const DiagnosisOptions& options) {
  const RhythmFacts& rhythm = communicator.rhythm;
  double patience = std::max({options.least_patience, kPeriods * rhythm.period, kGaps * rhythm.longest_gap});
  for (const CallSiteFacts& site : communicator.sites)
    if (site.signature == signature) patience = std::max(patience, 2 * site.usual + kSpreads * site.spread);
  return rhythm.operations < kKnown ? std::max(patience, options.warm_up_patience) : patience;
}

const MemberFacts* find_member(const CommunicatorFacts& communicator, int rank) {
  const auto& members = communicator.members;
  const auto place = std::lower_bound(members.begin(), members.end(), rank,
                                      [](const MemberFacts& each, int number) { return each.rank < number; });
  return place != members.end() && place->rank == rank ? &*place : nullptr;
}

std::int64_t last_entered(const MemberFacts& member) {
  std::int64_t last = member.last_done;
  for (const OperationFacts& operation : member.operations)
    if (is_collective(operation) && (last < 0 || is_later(operation.call.number, static_cast<std::uint32_t>(last))))
      last = operation.call.number;
  return last;
}

bool has_entered(const MemberFacts& member, std::uint32_t number) {
  const std::int64_t last = last_entered(member);
  return last >= 0 && !is_later(number, static_cast<std::uint32_t>(last));
}

bool is_collective(const OperationFacts& operation) { return operation.call.collective != Collective::point_to_point; }

bool is_alive(const Telemetry& telemetry, const MemberFacts& member) {
  if (member.process < 0) return false;
  const ProcessState state = telemetry.processes[static_cast<std::size_t>(member.process)].state;
  return state == ProcessState::running || state == ProcessState::stopped;
}

std::vector<StuckOperation> stuck_operations(const Telemetry& telemetry, const DiagnosisOptions& options) {
  std::vector<StuckOperation> operations;
  for (std::size_t i = 0; i < telemetry.communicators.size(); ++i)
    StuckCollector(telemetry, i, options).collect(operations);
  connect(telemetry, operations);
  return operations;
}

}  // namespace tutti::diagnosis
