#include "communicator/shrink_agreement.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "communicator/impl.hpp"
#include "communicator/job/job.hpp"
#include "control/world/overlay.hpp"

namespace tutti {
namespace {

constexpr double kGrace = 1.0;         // seconds for a rank that takes part to answer
constexpr double kLongestWait = 0.05;  // seconds between looks at who has died
constexpr double kShortestWait = 0.001;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

ShrinkAgreement::ShrinkAgreement(const CommunicatorImpl& impl, ShrinkOptions options)
    : job_(impl.job()),
      id_(impl.identity().id),
      rank_(impl.rank()),
      options_(std::move(options)),
      agreement_(impl.size(), impl.rank(), {options_.seconds, kGrace}, options_.quorum) {
  processes_ = impl.identity().processes();
}

std::uint32_t ShrinkAgreement::number() const {
  const std::lock_guard lock(mutex_);
  return number_;
}

void ShrinkAgreement::restart(std::uint32_t number) {
  number_ = number;
  agreement_ = Agreement(static_cast<int>(processes_.size()), rank_, {options_.seconds, kGrace}, options_.quorum);
  agreement_.start(now(), losses_, blob_);
}

Result<Survivors> ShrinkAgreement::run(CommunicatorImpl& impl, Blob blob) {
  {
    const std::lock_guard lock(mutex_);
    losses_ = impl.failure().losses();
    for (const int rank : options_.dead) losses_.push_back({rank, Certainty::known});
    blob_ = std::move(blob);
    restart(impl.agreements().begin());
  }
  impl.agreements().set_handler([self = shared_from_this()](const Message& message) { return self->hear(message); });
  std::unique_lock lock(mutex_);
  if (number_ > 1) {
    tell_number(lock, neighbours());
    lock.lock();
  }
  while (!agreement_.result() && !failure_) {
    flush(lock);
    if (agreement_.result() || failure_) break;
    const double wait = std::clamp(agreement_.next_tick() - now(), kShortestWait, kLongestWait);
    changed_.wait_for(lock, std::chrono::duration<double>(wait));
    take_losses(impl);
    agreement_.tick(now());
  }
  flush(lock);
  if (!agreement_.result()) return tl::unexpected(*failure_);
  const Result<Survivors> result = *agreement_.result();
  const bool decided = agreement_.decided();
  impl.agreements().end(number_);
  lock.unlock();
  if (const auto job = job_.lock(); job != nullptr && decided) job->keep(shared_from_this());
  return result;
}

void ShrinkAgreement::take_losses(const CommunicatorImpl& impl) {
  for (const Loss& loss : impl.failure().losses())
    if (std::find(losses_.begin(), losses_.end(), loss) == losses_.end()) {
      losses_.push_back(loss);
      agreement_.on_death(now(), loss);
    }
}

bool ShrinkAgreement::hear(const Message& message) {
  std::unique_lock lock(mutex_);
  const bool over = agreement_.result() || failure_;
  if (message.number > number_ && over) return false;
  // A rank that ran out of time may call shrink() again, and meets the others then. To answer now that it gave up would
  // have them go on without it.
  const bool gave_up = agreement_.result() && !agreement_.decided() && !agreement_.result()->has_value() &&
                       agreement_.result()->error().code == ErrorCode::timed_out;
  if (message.number == number_ && gave_up) return false;
  if (message.number < number_) {
    const int behind[1] = {message.from};
    if (!over) tell_number(lock, behind);
    return true;
  }
  const bool ahead = message.number > number_;
  if (ahead) restart(message.number);
  if (!message.body.empty()) agreement_.on_message(now(), message.from, message.body);
  flush(lock);
  changed_.notify_all();
  if (ahead) tell_number(lock, neighbours());
  return true;
}

// All other ranks, if they are few. Otherwise some of those that live: whoever hears a number that is new to it tells
// its own neighbours, so that all hear it, and each tells few.
std::vector<int> ShrinkAgreement::neighbours() const {
  const int ranks = static_cast<int>(processes_.size());
  std::vector<int> others;
  if (g_agreement_trees.fan_out_for(ranks) >= ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != rank_) others.push_back(rank);
    return others;
  }
  std::vector<bool> living(processes_.size(), true);
  for (const Loss& loss : losses_) living[static_cast<std::size_t>(loss.member)] = false;
  return overlay_neighbours(rank_, living);
}

// Ranks that are behind hear of the number by a message that says nothing else. Leaves the mutex unlocked.
void ShrinkAgreement::tell_number(std::unique_lock<std::mutex>& lock, std::span<const int> ranks) {
  Message message;
  message.kind = Message::Kind::agreement;
  message.from = rank_;
  message.number = number_;
  lock.unlock();
  const auto job = job_.lock();
  for (const int rank : ranks) {
    if (job == nullptr || rank < 0 || static_cast<std::size_t>(rank) >= processes_.size()) continue;
    message.to = rank;
    (void)job->send(id_, processes_[static_cast<std::size_t>(rank)], message);  // Job::send reports what fails
  }
}

// Unlocked while it sends: in one process delivery may come back to us.
void ShrinkAgreement::flush(std::unique_lock<std::mutex>& lock) {
  const auto job = job_.lock();
  auto outgoing = agreement_.take_outgoing();
  if (outgoing.empty() || job == nullptr) return;
  const std::uint32_t number = number_;
  lock.unlock();
  Status sent;
  for (auto& each : outgoing) {
    Message message;
    message.kind = Message::Kind::agreement;
    message.from = rank_;
    message.to = each.member;
    message.number = number;
    message.body = *each.bytes;
    if (Status status = job->send(id_, processes_[static_cast<std::size_t>(each.member)], message); !status)
      sent = std::move(status);
  }
  lock.lock();
  if (!sent && !failure_ && number == number_) failure_ = sent.error();
}

}  // namespace tutti
