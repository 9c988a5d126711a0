#include "communicator/impl.hpp"

#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "communicator/describe.hpp"
#include "memory/region.hpp"
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

/// How long a rank that gives up waits for peers in other processes to come out of a step that writes into its memory.
/// One step takes milliseconds; a process that takes longer stands still, and the memory is taken away from it.
constexpr double kStandstillSeconds = 0.5;

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
      departed_(identity_.members.size()),
      left_(identity_.members.size()) {
  options_.cancel = {};  // that was for its creation
  wait_policy_ = WaitPolicy::of(is_crowded(identity_));
  uses_tcp_ = layout_.hosts > 1;
}

Result<std::shared_ptr<CommunicatorImpl>> CommunicatorImpl::create(std::shared_ptr<Job> job, Identity identity,
                                                                   Segment segment, const Options& options) {
  std::vector<SegmentName> names;
  const std::uint64_t own_host = identity.members[static_cast<std::size_t>(identity.rank)].host;
  for (const Member& member : identity.members)
    names.push_back(member.host == own_host ? member.segment : SegmentName{});
  Result<std::vector<Rule>> rules = parse_rules(options.select);
  if (!rules) return tl::unexpected(rules.error());
  auto host = std::make_unique<Host>(std::move(segment), std::move(names), identity.rank);
  std::shared_ptr<CommunicatorImpl> impl(
      new CommunicatorImpl(std::move(job), std::move(identity), std::move(host), options));
  impl->open_record();
  PlanCache::Setting setting;
  setting.rank = impl->rank();
  setting.layout.host_of = impl->layout_.host_of_rank;
  setting.reproducible = options.reproducible;
  Result<std::vector<Rule>> tuned = load_tuning(tuning_path(impl->size(), impl->layout_.hosts));
  if (!tuned) return tl::unexpected(tuned.error());
  Result<PlanFolder> planned = load_plan_folder(settings().plans, impl->size());
  if (!planned) return tl::unexpected(planned.error());
  setting.own_rules = *rules;
  impl->rules_ = std::move(*rules);
  impl->rules_.insert(impl->rules_.end(), tuned->begin(), tuned->end());
  impl->links_ = std::make_unique<LinkTable>(*impl->job_, impl->identity_, *impl->host_, impl->log_.record());
  impl->plans_ = std::make_unique<PlanCache>(std::move(setting), *impl->links_);
  impl->planned_ = std::move(*planned);
  if (impl->identity_.settled) impl->settle(impl->identity_.pull);
  impl->job_->enroll(impl->identity_.id, impl);
  return impl;
}

void CommunicatorImpl::settle(bool pull) {
  identity_.settled = true;
  identity_.pull = pull;
  plans_->set_pull(pull);
  plans_->set_rules(rules_);
  plans_->set_planned(planned_.programs);
  open_profiler();  // not before, so that plugins see the operations of users only
  log_description(*this);
}

CommunicatorImpl::~CommunicatorImpl() {
  host_->leave();
  job_->dismiss(identity_.id, rank());
  plans_.reset();
  links_.reset();  // they write into the record
  close_record();
}

Status CommunicatorImpl::status() const {
  const std::lock_guard lock(mutex_);
  if (broken_error_ == nullptr) return {};
  return tl::unexpected(*broken_error_);
}

void CommunicatorImpl::break_with(Error error, bool tell) {
  {
    const std::lock_guard lock(mutex_);
    if (broken_error_ != nullptr) return;
    if (error.rank < 0) error.rank = rank();
    broken_error_ = std::make_unique<Error>(error);
    record_broken(error);
  }
  broken_.store(true, std::memory_order_seq_cst);
  host_->own().ring();
  if (!tell) return;
  log::error("{}", error.to_string());
  Message message;
  message.kind = Message::Kind::broken;
  message.from = rank();
  message.code = error.code;
  message.peer = error.peer;
  message.text = error.message;
  if (error.code == ErrorCode::timed_out || error.code == ErrorCode::system)
    message.text = fmt::format("rank {} gave up: {}", rank(), error.message);
  tell_all(message);
}

void CommunicatorImpl::process_left(int process) {
  const std::lock_guard lock(mutex_);
  for (std::size_t peer = 0; peer < identity_.members.size(); ++peer)
    if (identity_.members[peer].process == process) departed_[peer] = Certainty::known;
}

void CommunicatorImpl::process_died(int process, const Death& death) {
  int first = -1;
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t peer = 0; peer < identity_.members.size(); ++peer) {
      if (identity_.members[peer].process != process) continue;
      if (!departed_[peer] && first < 0) first = static_cast<int>(peer);
      departed_[peer] = std::max(departed_[peer].value_or(Certainty::presumed), death.certainty);
    }
  }
  if (first < 0) return;
  Error error;
  error.code = ErrorCode::rank_died;
  error.rank = rank();
  error.peer = first;
  error.message = fmt::format("rank {} {} ({})", first,
                              death.certainty == Certainty::known ? "died" : "is presumed dead", death.error.message);
  log::error("{}", error.to_string());
  break_with(std::move(error), false);
}

std::vector<Loss> CommunicatorImpl::losses() const {
  const std::lock_guard lock(mutex_);
  std::vector<Loss> losses;
  for (std::size_t peer = 0; peer < departed_.size(); ++peer)
    if (departed_[peer]) losses.push_back({static_cast<int>(peer), *departed_[peer]});
  return losses;
}

std::uint32_t CommunicatorImpl::begin_agreement() {
  const std::lock_guard lock(mutex_);
  agreement_handler_ = nullptr;
  ++agreement_handlers_;
  return ++agreements_;
}

void CommunicatorImpl::end_agreement(std::uint32_t number) {
  const std::lock_guard lock(mutex_);
  agreements_ = std::max(agreements_, number);
}

void CommunicatorImpl::on_agreement(const AgreementHandler& handler) {
  std::vector<Message> early;
  {
    const std::lock_guard lock(mutex_);
    agreement_handler_ = handler;
    ++agreement_handlers_;
    early.swap(early_agreement_);
  }
  for (const Message& message : early) hear_agreement(message);
}

/// A message that the handler does not take waits for the next one. The handler is called without the mutex: if another
/// was set meanwhile, that one has taken what waited before it, and gets this message, too.
void CommunicatorImpl::hear_agreement(const Message& message) {
  while (true) {
    AgreementHandler handler;
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (agreement_handler_ == nullptr) return keep_for_agreement(message);
      handler = agreement_handler_;
      number = agreement_handlers_;
    }
    if (handler(message)) return;
    const std::lock_guard lock(mutex_);
    if (number == agreement_handlers_) return keep_for_agreement(message);
  }
}

void CommunicatorImpl::keep_for_agreement(const Message& message) {
  if (Agreement::is_withdrawal(size(), message.from, message.body))
    std::erase_if(early_agreement_, [&](const Message& each) { return each.from == message.from; });
  else
    early_agreement_.push_back(message);
}

/// Makes the memory of calls that fail their callers' again: when this returns, nobody else touches it. Peers of other
/// processes that do not come out of a step in time (they may stand still) lose what they could write into.
void CommunicatorImpl::leave_peers_alone() {
  plans_->clear();
  if (collectives_.active == nullptr && active_ends_.empty()) return;
  const std::vector<int> at_it = host_->stop_peers(kStandstillSeconds);
  if (at_it.empty() || collectives_.active == nullptr) return;
  for (const std::span<std::byte> buffer : collectives_.active->execution.exposed()) {
    if (buffer.empty() || buffer.data() == nullptr) continue;
    if (const Status revoked = revoke(buffer.data(), buffer.size()); !revoked)
      log::error("rank {}: rank {} may still write into the {} bytes at {}: {}", rank(), at_it.front(), buffer.size(),
                 static_cast<const void*>(buffer.data()), revoked.error().message);
    else
      log::debug("rank {}: rank {} is still in the operation; it can no longer write into the {} bytes at {}", rank(),
                 at_it.front(), buffer.size(), static_cast<const void*>(buffer.data()));
  }
}

}  // namespace tutti
