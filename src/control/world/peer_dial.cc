#include "control/world/peer_dial.hpp"

#include <algorithm>
#include <utility>

#include "net/event_loop.hpp"

namespace tutti {
namespace {

constexpr double kAttemptSeconds = 2.0;      // for the host to answer, and then for the process
constexpr double kStaggerSeconds = 0.25;     // from one attempt to the next, at most
constexpr std::size_t kAttempts = 8;         // at a time
constexpr std::size_t kDetours = 16;         // in a round; the next one takes others
constexpr double kFirstPause = 0.01;         // between attempts; doubles
constexpr double kFirstRedialPause = 0.001;  // a process that ends may still listen for a moment
constexpr double kLongestPause = 0.25;

// Parts of the time after which a silent process is dead.
constexpr double kRoundPart = 0.25;   // all addresses are tried once, or all detours of a round
constexpr double kAttemptPart = 0.4;  // an attempt gets no longer

}  // namespace

PeerDial::PeerDial(ControlConnections& connections, const AddressBook& book, const Target& target,
                   const Situation& situation, double now, double delay)
    : connections_(connections),
      book_(book),
      target_(target),
      refused_(target.addresses.all().size()),
      began_(now + delay),
      next_at_(began_),
      pause_(situation.known ? kFirstRedialPause : kFirstPause, kLongestPause) {
  begin_round(situation);
}

// Its own addresses first: a connection that needs nobody else is the better one, and one that is refused there tells
// of a death.
void PeerDial::begin_round(const Situation& situation) {
  round_.clear();
  step_ = 0;
  const auto& addresses = target_.addresses.all();
  for (std::size_t at = 0; at < addresses.size(); ++at) {
    const std::size_t address = (target_.addresses.first() + at) % addresses.size();
    round_.push_back({Route::to(addresses[address]), address});
  }
  if (!situation.has_detours && rounds_ == 0) return;
  const std::vector<Route> detours = book_.relay_routes(target_.process, target_.hearers);
  const std::size_t count = std::min(detours.size(), kDetours);
  for (std::size_t at = 0; at < count; ++at)
    round_.push_back({detours[(detours_ + at) % detours.size()], std::nullopt});
  detours_ += count;
}

Connector::DialTimes PeerDial::patience(const Situation& situation) const {
  if (is_slow_start(situation)) return {kAttemptSeconds, slow_start(target_.heartbeat_timeout)};
  const double seconds = is_first_contact(situation)
                             ? kAttemptSeconds
                             : std::min(kAttemptSeconds, kAttemptPart * target_.heartbeat_timeout);
  return {seconds, seconds};
}

// How long after an attempt the next one begins.
double PeerDial::stagger(const DialStep& step, const Situation& situation) const {
  if (is_slow_start(situation)) return slow_start(target_.heartbeat_timeout);
  if (is_first_contact(situation)) return kAttemptSeconds;
  const std::size_t addresses = target_.addresses.all().size();
  const std::size_t sharing = step.address ? addresses : std::max<std::size_t>(1, round_.size() - addresses);
  return std::min(kStaggerSeconds, kRoundPart * target_.heartbeat_timeout / static_cast<double>(sharing));
}

std::optional<PeerDial::Failure> PeerDial::attempt(const Situation& situation, double now) {
  DialStep step = round_[step_];
  plan_next(step, situation, now);
  if (attempts_.size() >= kAttempts) {
    connections_.close(attempts_.front().id);
    attempts_.erase(attempts_.begin());
  }
  auto connection = connections_.dial(step.route, target_.greeting, patience(situation));
  if (!connection) return Failure{std::move(step), connection.error()};
  attempts_.push_back({*connection, std::move(step)});
  return std::nullopt;
}

void PeerDial::plan_next(const DialStep& last, const Situation& situation, double now) {
  not_before_ = now;
  next_at_ = now + stagger(last, situation);
  if (++step_ < round_.size()) return;
  ++rounds_;
  begin_round(situation);
  pause_.set_longest(situation.known && situation.watched ? target_.heartbeat_timeout : kLongestPause);
  not_before_ = now + pause_.next();
  next_at_ = std::max(next_at_, not_before_);
}

std::optional<PeerDial::DialStep> PeerDial::take(Id id) {
  const auto found =
      std::find_if(attempts_.begin(), attempts_.end(), [&](const DialAttempt& attempt) { return attempt.id == id; });
  if (found == attempts_.end()) return std::nullopt;
  DialStep step = std::move(found->step);
  attempts_.erase(found);
  return step;
}

bool PeerDial::note_ending(std::size_t address, bool nobody_listens) {
  refused_[address] = nobody_listens;
  const bool all_refused = std::find(refused_.begin(), refused_.end(), false) == refused_.end();
  return nobody_listens && (target_.addresses.is_proven(address) || all_refused);
}

bool PeerDial::host_answers() const {
  return std::any_of(attempts_.begin(), attempts_.end(), [&](const DialAttempt& attempt) {
    return attempt.step.address && connections_.is_connected(attempt.id);
  });
}

void PeerDial::hasten(double time) { next_at_ = std::min(next_at_, time); }

void PeerDial::hold() { next_at_ = EventLoop::kNever; }

void PeerDial::go_on() {
  if (attempts_.empty()) hasten(not_before_);
}

void PeerDial::hang_up(const std::vector<std::byte>& last_words, double seconds) {
  for (const DialAttempt& attempt : std::exchange(attempts_, {})) connections_.hang_up(attempt.id, last_words, seconds);
}

// The peer may count those that are under way as open; they end there.
void PeerDial::close() {
  for (const DialAttempt& attempt : std::exchange(attempts_, {})) connections_.close(attempt.id);
}

}  // namespace tutti
