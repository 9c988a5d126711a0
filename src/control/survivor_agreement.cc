#include "control/survivor_agreement.hpp"

#include <algorithm>
#include <chrono>

namespace tutti {
namespace {

using Clock = std::chrono::steady_clock;

double now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

Clock::time_point at(double seconds) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)));
}

}  // namespace

SurvivorAgreement::SurvivorAgreement(Control& control, std::vector<int> members, int self, std::uint64_t topic,
                                     AgreementTiming timing)
    : control_(control),
      members_(std::move(members)),
      topic_(topic),
      agreement_(static_cast<int>(members_.size()), self, timing) {
  control_.on_message(topic_, [this](int from, std::span<const std::byte> bytes) { receive(from, bytes); });
  deaths_ = control_.on_death([this](int process, const Error&) { lose(process); });
  leaves_ = control_.on_leave([this](int process) { lose(process); });
}

SurvivorAgreement::~SurvivorAgreement() {
  control_.remove_topic(topic_);
  control_.unsubscribe(deaths_);
  control_.unsubscribe(leaves_);
}

Result<Survivors> SurvivorAgreement::run(Blob blob) {
  std::unique_lock lock(mutex_);
  // The control thread may not have told of these yet.
  std::vector<int> gone;
  for (std::size_t place = 0; place < members_.size(); ++place)
    if (!control_.alive(members_[place])) gone.push_back(static_cast<int>(place));
  agreement_.start(now(), gone, std::move(blob));
  while (true) {
    send_outgoing();
    if (agreement_.result()) return *agreement_.result();
    changed_.wait_until(lock, at(agreement_.next_tick()));
    agreement_.tick(now());
  }
}

void SurvivorAgreement::receive(int process, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex_);
  agreement_.on_message(now(), place_of(process), bytes);
  send_outgoing();
  changed_.notify_all();
}

void SurvivorAgreement::lose(int process) {
  const std::lock_guard lock(mutex_);
  agreement_.on_death(now(), place_of(process));
  send_outgoing();
  changed_.notify_all();
}

// -1, which the agreement ignores, for processes that do not take part.
int SurvivorAgreement::place_of(int process) const {
  const auto found = std::find(members_.begin(), members_.end(), process);
  return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
}

void SurvivorAgreement::send_outgoing() {
  for (const auto& message : agreement_.take_outgoing())
    (void)control_.send(members_[message.member], topic_, message.bytes);
}

}  // namespace tutti
