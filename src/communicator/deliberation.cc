#include "communicator/deliberation.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "communicator/impl.hpp"
#include "communicator/job.hpp"

namespace tutti {
namespace {

constexpr double kGrace = 1.0;         // seconds for a rank that takes part to answer
constexpr double kLongestWait = 0.05;  // seconds between looks at who has died
constexpr double kShortestWait = 0.001;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Deliberation::Deliberation(const CommunicatorImpl& impl, ShrinkOptions options)
    : job_(impl.job()),
      id_(impl.identity().id),
      rank_(impl.rank()),
      options_(std::move(options)),
      agreement_(impl.size(), impl.rank(), {options_.seconds, kGrace}, options_.quorum) {
  for (const Member& member : impl.identity().members) processes_.push_back(member.process);
}

Result<Survivors> Deliberation::run(CommunicatorImpl& impl, Blob blob) {
  number_ = impl.begin_agreement();
  impl.on_agreement([self = shared_from_this()](const Message& message) { self->hear(message); });
  std::unique_lock lock(mutex_);
  losses_ = impl.losses();
  for (const int rank : options_.dead) losses_.push_back({rank, Certainty::known});
  agreement_.start(now(), losses_, std::move(blob));
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
  lock.unlock();
  if (const auto job = job_.lock(); job != nullptr && decided) job->keep(shared_from_this());
  return result;
}

void Deliberation::take_losses(const CommunicatorImpl& impl) {
  for (const Loss& loss : impl.losses())
    if (std::find(losses_.begin(), losses_.end(), loss) == losses_.end()) {
      losses_.push_back(loss);
      agreement_.on_death(now(), loss);
    }
}

void Deliberation::hear(const Message& message) {
  std::unique_lock lock(mutex_);
  if (message.number != number_) return;
  agreement_.on_message(now(), message.from, message.body);
  flush(lock);
  changed_.notify_all();
}

// Unlocked while it sends: in one process delivery may come back to us.
void Deliberation::flush(std::unique_lock<std::mutex>& lock) {
  const auto job = job_.lock();
  auto outgoing = agreement_.take_outgoing();
  if (outgoing.empty() || job == nullptr) return;
  lock.unlock();
  Status sent;
  for (auto& each : outgoing) {
    Message message;
    message.kind = Message::Kind::agreement;
    message.from = rank_;
    message.to = each.member;
    message.number = number_;
    message.body = std::move(each.bytes);
    if (Status status = job->send(id_, processes_[static_cast<std::size_t>(each.member)], message); !status)
      sent = std::move(status);
  }
  lock.lock();
  if (!sent && !failure_) failure_ = sent.error();
}

}  // namespace tutti
