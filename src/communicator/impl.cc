#include "communicator/impl.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "communicator/describe.hpp"
#include "selection/tuning.hpp"

namespace tutti {
namespace {

HostLayout layout_of(const Identity& identity) {
  HostLayout layout;
  std::map<std::uint64_t, int> numbers;
  for (const Member& member : identity.members)
    layout.host_of_rank.push_back(numbers.try_emplace(member.host, static_cast<int>(numbers.size())).first->second);
  layout.hosts = static_cast<int>(numbers.size());
  const int own = layout.host_of_rank[static_cast<std::size_t>(identity.rank)];
  layout.local_size = static_cast<int>(std::count(layout.host_of_rank.begin(), layout.host_of_rank.end(), own));
  layout.local_rank =
      static_cast<int>(std::count(layout.host_of_rank.begin(), layout.host_of_rank.begin() + identity.rank, own));
  return layout;
}

/// Whether the ranks of our host are more than the cores they may run on. Ranks may be bound to one core each.
bool is_crowded(const Identity& identity) {
  const std::uint64_t host = identity.members[static_cast<std::size_t>(identity.rank)].host;
  cpu_set_t own;
  cpu_set_t all;
  CPU_ZERO(&all);
  if (sched_getaffinity(0, sizeof own, &own) == 0) all = own;
  int ranks = 0;
  int within_own = 0;
  for (const Member& member : identity.members) {
    if (member.host != host) continue;
    ++ranks;
    cpu_set_t set;
    if (sched_getaffinity(member.segment.pid, sizeof set, &set) != 0) continue;
    CPU_OR(&all, &all, &set);
    cpu_set_t shared;
    CPU_AND(&shared, &set, &own);
    if (CPU_EQUAL(&shared, &set)) ++within_own;
  }
  return ranks > CPU_COUNT(&all) || within_own > CPU_COUNT(&own);
}

}  // namespace

CommunicatorImpl::CommunicatorImpl(std::shared_ptr<Job> job, Identity identity, std::unique_ptr<Host> host,
                                   const Options& options)
    : job_(std::move(job)),
      identity_(std::move(identity)),
      options_(options),
      layout_(layout_of(identity_)),
      host_(std::move(host)),
      recorder_(identity_, layout_, options_),
      failure_(*job_, identity_, *host_, recorder_),
      query_(*job_, identity_, *host_),
      agreements_(size()) {
  options_.cancel = {};  // that was for its creation
}

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::create(std::shared_ptr<Job> job, Identity identity,
                                                                   Segment segment, const Options& options) {
  std::vector<SegmentName> names;
  const std::uint64_t own_host = identity.members[static_cast<std::size_t>(identity.rank)].host;
  for (const Member& member : identity.members)
    names.push_back(member.host == own_host ? member.segment : SegmentName{});
  Result<std::vector<SelectionRule>> rules = parse_rules(options.select);
  if (!rules) return tl::unexpected(rules.error());
  auto host = std::make_unique<Host>(std::move(segment), std::move(names), identity.rank);
  std::shared_ptr<CommunicatorImpl> impl(
      new CommunicatorImpl(std::move(job), std::move(identity), std::move(host), options));
  impl->recorder_.open(impl->job_->id() != 0 ? impl->job_->id() : impl->identity_.id);
  PlanCache::Setting setting;
  setting.rank = impl->rank();
  setting.layout.host_of = impl->layout_.host_of_rank;
  setting.reproducible = options.reproducible;
  Result<std::vector<SelectionRule>> tuned = load_tuning(tuning_path(impl->size(), impl->layout_.hosts));
  if (!tuned) return tl::unexpected(tuned.error());
  Result<PlanFolder> planned = load_plan_folder(settings().plans, impl->size(), impl->rank());
  if (!planned) return tl::unexpected(planned.error());
  setting.own_rules = std::move(*rules);
  setting.tuned_rules = std::move(*tuned);
  setting.planned = std::move(*planned);
  impl->links_ = std::make_unique<LinkTable>(*impl->job_, impl->identity_, *impl->host_, impl->recorder_.record());
  impl->plans_ = std::make_unique<PlanCache>(std::move(setting), *impl->links_);
  const OperationDriver::Parts parts{
      {impl->identity_, impl->options_, *impl->host_, impl->failure_, impl->query_, impl->recorder_},
      impl->layout_.hosts > 1 ? impl->job_->tcp() : nullptr,
      *impl->plans_};
  impl->driver_.emplace(parts, WaitPolicy::of(is_crowded(impl->identity_)), impl);
  if (impl->identity_.settled) impl->settle(impl->identity_.pull);
  impl->job_->enroll(impl->identity_.id, impl);
  return impl;
}

void CommunicatorImpl::settle(bool pull) {
  identity_.settled = true;
  identity_.pull = pull;
  plans_->settle(pull);
  recorder_.open_profiler();  // not before, so that plugins see the operations of users only
  log_description(*this);
}

CommunicatorImpl::~CommunicatorImpl() {
  host_->leave();
  job_->dismiss(identity_.id, rank());
  plans_.reset();
  links_.reset();  // they write into the record
  recorder_.close();
}

void CommunicatorImpl::close() {
  // A child made by fork holds a copy, whose end is none of the rank's business.
  const Member& self = identity_.members[static_cast<std::size_t>(rank())];
  if (self.segment.pid != ::getpid()) return;
  driver_->finish_pending();
  if (!failure_.is_broken())
    if (const std::string difference = query_.find_difference(); !difference.empty())
      log::error("rank {}: ranks called different operations, and results are wrong: {}", rank(), difference);
  driver_->close_profiler();
}

void CommunicatorImpl::process_left(int process) {
  for (int peer = 0; peer < size(); ++peer)
    if (identity_.process_of(peer) == process) failure_.add_departure(peer, Certainty::known);
}

void CommunicatorImpl::process_died(int process, const Death& death) {
  int first = -1;
  for (int peer = 0; peer < size(); ++peer) {
    if (identity_.process_of(peer) != process) continue;
    if (failure_.add_departure(peer, death.certainty) && first < 0) first = peer;
  }
  if (first < 0) return;
  Error error;
  error.code = ErrorCode::rank_died;
  error.rank = rank();
  error.peer = first;
  error.message = fmt::format("rank {} {} ({})", first,
                              death.certainty == Certainty::known ? "died" : "is presumed dead", death.error.message);
  log::error("{}", error.to_string());
  failure_.break_with(std::move(error), Notify::nobody);
}

void CommunicatorImpl::hear(const Message& message) {
  if (message.from == rank() && message.kind != Message::Kind::agreement) return;
  if (message.to >= 0 && message.to != rank()) return;
  switch (message.kind) {
    case Message::Kind::broken: {
      Error error;
      error.code = message.code;
      error.message = message.text;
      error.peer = message.peer;
      error.rank = rank();
      return failure_.break_with(std::move(error), Notify::nobody);
    }
    case Message::Kind::left:
      if (message.from >= 0 && message.from < size()) failure_.add_left(message.from);
      return;
    case Message::Kind::agreement:
      return agreements_.deliver(message);
    default:
      return query_.hear(message);
  }
}

}  // namespace tutti
