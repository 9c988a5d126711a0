#include "control/subscriptions.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace tutti {

Subscriptions::Key Subscriptions::on_death(DeathHandler handler) {
  const Key key = next_key_++;
  // Those who died before are told below; the control thread remembers what it has told.
  using Told = std::vector<std::optional<Certainty>>;
  deaths_.set(key, [handler = std::move(handler), told = Told()](int process, const Death& death) mutable {
    if (told.size() <= static_cast<std::size_t>(process)) told.resize(static_cast<std::size_t>(process) + 1);
    if (told[process] && *told[process] >= death.certainty) return;
    told[process] = death.certainty;
    handler(process, death);
  });
  loop_.post([this, key] {
    for (int process = 0; process < roster_.size(); ++process)
      if (const auto death = roster_.death_of(process)) deaths_.call(key, process, *death);
  });
  return key;
}

Subscriptions::Key Subscriptions::on_leave(LeaveHandler handler) {
  const Key key = next_key_++;
  leaves_.set(key, [handler = std::move(handler), told = std::vector<bool>()](int process) mutable {
    if (told.size() <= static_cast<std::size_t>(process)) told.resize(static_cast<std::size_t>(process) + 1);
    if (told[process]) return;
    told[process] = true;
    handler(process);
  });
  loop_.post([this, key] {
    for (int process = 0; process < roster_.size(); ++process)
      if (roster_.left(process)) leaves_.call(key, process);
  });
  return key;
}

Subscriptions::Key Subscriptions::on_pulse(std::function<void()> handler) {
  const Key key = next_key_++;
  pulses_.set(key, std::move(handler));
  loop_.post([this] {
    if (next_pulse_ == 0) next_pulse_ = loop_.now() + pulse_seconds_;
  });
  return key;
}

void Subscriptions::remove(Key key) {
  pulses_.remove(key);
  deaths_.remove(key);
  leaves_.remove(key);
}

double Subscriptions::tick() {
  if (next_pulse_ == 0) return EventLoop::kNever;
  if (loop_.now() >= next_pulse_) {
    next_pulse_ = loop_.now() + pulse_seconds_;
    pulses_.call_all();
  }
  return next_pulse_;
}

}  // namespace tutti
