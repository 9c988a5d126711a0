#include "diagnosis/parallel_groups.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace tutti::diagnosis {
namespace {

constexpr double kPayload = 64 * 1024;  // bytes of a call; less is control, such as a loss or a norm
constexpr double kMoreOften = 2;     // calls, by which tensor groups exceed data groups: each layer against each step
constexpr double kMostOfThem = 0.8;  // of the members must agree on a group's role

/// What is called most, by bytes.
enum class Use : std::uint8_t { control, reduction, exchange, ends };

struct GroupUse {
  Use use = Use::control;
  double calls = 0;  // of that use
  bool on_one_host = true;
};

Use use_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return Use::reduction;
    case Collective::all_to_all:
      return Use::exchange;
    case Collective::point_to_point:
      return Use::ends;
    default:
      return Use::control;
  }
}

GroupUse use_of(const Telemetry& telemetry, const CommunicatorFacts& communicator) {
  std::array<double, 4> calls{}, bytes{};
  for (const TrafficFacts& each : communicator.traffic) {
    // Calls with little in them say nothing of the model.
    if (static_cast<double>(each.bytes) < kPayload * static_cast<double>(each.calls)) continue;
    const auto use = static_cast<std::size_t>(use_of(each.collective));
    calls[use] += static_cast<double>(each.calls);
    bytes[use] += static_cast<double>(each.bytes);
  }
  GroupUse found;
  const auto most = static_cast<std::size_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  if (bytes[most] > 0) found.use = static_cast<Use>(most);
  found.calls = calls[most];
  const auto host_of = [&](const MemberFacts& member) -> const std::string& {
    static const std::string kNowhere;
    return member.process < 0 ? kNowhere : telemetry.processes[static_cast<std::size_t>(member.process)].host;
  };
  for (const MemberFacts& member : communicator.members)
    if (host_of(member) != host_of(communicator.members.front())) found.on_one_host = false;
  return found;
}

/// Tells the reductions of one process apart.
class OwnGroups {
 public:
  OwnGroups(const std::vector<GroupUse>& uses, const std::vector<std::uint32_t>& groups) : uses_(uses) {
    for (const std::uint32_t group : groups) {
      if (uses[group].use == Use::reduction) reductions_.push_back(group);
      if (uses[group].use == Use::ends || uses[group].use == Use::exchange)
        micro_batches_ = std::max(micro_batches_, uses[group].calls);
    }
    std::sort(reductions_.begin(), reductions_.end(),
              [&](std::uint32_t one, std::uint32_t other) { return uses[one].calls > uses[other].calls; });
  }

  ParallelRole role_of(std::uint32_t group) const {
    if (reductions_.size() == 1) return role_of_only(uses_[group]);
    const GroupUse& first = uses_[reductions_[0]];
    const GroupUse& second = uses_[reductions_[1]];
    if (first.calls >= kMoreOften * second.calls)
      return group == reductions_[0] ? ParallelRole::tensor : ParallelRole::data;
    // As often as one another: tensor groups stay within hosts, data groups do not.
    if (reductions_.size() > 2 || first.on_one_host == second.on_one_host) return ParallelRole::unknown;
    return uses_[group].on_one_host ? ParallelRole::tensor : ParallelRole::data;
  }

 private:
  /// Tensor groups reduce in each layer of each micro-batch, data groups once a step.
  ParallelRole role_of_only(const GroupUse& use) const {
    if (micro_batches_ > 0 && use.calls >= kMoreOften * micro_batches_) return ParallelRole::tensor;
    if (micro_batches_ > 0 && use.calls < micro_batches_) return ParallelRole::data;
    return use.on_one_host ? ParallelRole::unknown : ParallelRole::data;
  }

  const std::vector<GroupUse>& uses_;
  std::vector<std::uint32_t> reductions_;  // those with most calls first
  double micro_batches_ = 0;               // or a multiple, as counted by sends and exchanges
};

/// What most members of each communicator take it for.
class Votes {
 public:
  explicit Votes(std::size_t communicators) : counts_(communicators) {}

  void add(std::uint32_t communicator, ParallelRole role) { ++counts_[communicator][static_cast<std::size_t>(role)]; }
  ParallelRole outcome(std::size_t communicator) const {
    const auto& counts = counts_[communicator];
    const auto most = std::max_element(counts.begin(), counts.end());
    int all = 0;
    for (const int count : counts) all += count;
    if (all == 0 || *most < kMostOfThem * all) return ParallelRole::unknown;
    return static_cast<ParallelRole>(most - counts.begin());
  }

 private:
  std::vector<std::array<int, 5>> counts_;
};

}  // namespace

std::vector<ParallelRole> recognise_groups(const Telemetry& telemetry) {
  std::vector<GroupUse> uses;
  std::vector<std::vector<std::uint32_t>> groups(telemetry.processes.size());  // of each process
  for (std::size_t i = 0; i < telemetry.communicators.size(); ++i) {
    uses.push_back(use_of(telemetry, telemetry.communicators[i]));
    for (const MemberFacts& member : telemetry.communicators[i].members)
      if (member.process >= 0)
        groups[static_cast<std::size_t>(member.process)].push_back(static_cast<std::uint32_t>(i));
  }
  Votes votes(uses.size());
  for (const std::vector<std::uint32_t>& own : groups) {
    const OwnGroups view(uses, own);
    for (const std::uint32_t group : own)
      if (uses[group].use == Use::reduction) votes.add(group, view.role_of(group));
  }
  std::vector<ParallelRole> roles;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (uses[i].use == Use::exchange)
      roles.push_back(ParallelRole::expert);
    else if (uses[i].use == Use::ends)
      roles.push_back(ParallelRole::pipeline);
    else
      roles.push_back(votes.outcome(i));
  }
  return roles;
}

std::string position_of(const Telemetry& telemetry, const std::vector<ParallelRole>& roles, int process) {
  static constexpr const char* kWords[] = {"", "tensor part", "pipeline stage", "data replica", "expert part"};
  std::string text;
  for (const ParallelRole role :
       {ParallelRole::pipeline, ParallelRole::tensor, ParallelRole::expert, ParallelRole::data})
    for (std::size_t i = 0; i < roles.size(); ++i) {
      if (roles[i] != role) continue;
      const CommunicatorFacts& communicator = telemetry.communicators[i];
      for (const MemberFacts& member : communicator.members)
        if (member.process == process)
          text += fmt::format("{}{} {} of {}", text.empty() ? "" : ", ", kWords[static_cast<std::size_t>(role)],
                              member.rank, communicator.size);
    }
  return text;
}

}  // namespace tutti::diagnosis
