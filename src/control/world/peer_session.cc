#include "control/world/peer_session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace tutti {
namespace {

constexpr double kExpectSeconds = 1.0;    // for a neighbour whose part it is to dial
constexpr double kRedialPause = 0.05;     // if connections end one after another
constexpr double kLifelineSeconds = 2.0;  // to open one
constexpr double kGoodbyeOnItsWay = 0.2;  // through others, of a process that has ended

// Parts of the time after which a silent process is dead.
constexpr double kSilencePart = 0.25;  // a connection is silent
constexpr double kAnswersPart = 0.5;   // is added if its host answers: the process may just be slow
constexpr double kRefusedPart = 0.05;  // nobody listens at any of its addresses, and nobody hears it

std::string with_trouble(const std::string& why, const std::string& trouble) {
  return trouble.empty() ? why : fmt::format("{} (before that: {})", why, trouble);
}

}  // namespace

PeerSession::PeerSession(WorldState& world, int process, ControlPeer info)
    : world_(world),
      process_(process),
      info_(std::move(info)),
      links_(world.loop, world.connections, world.processes_by_connection, process,
             world.heartbeat_timeout * kSilencePart),
      addresses_(info_.addresses),
      opinion_(world.heartbeat_timeout),
      end_(world.loop) {}

void PeerSession::set_neighbour(bool neighbour) {
  if (std::exchange(neighbour_, neighbour) || !neighbour) return;
  watch();
  if (!living_ || begun_) return;
  if (dial_ && world_.leaving) dial_->hasten(world_.loop.now());
  if (dial_) return;
  if (world_.self < process_ || world_.leaving) return start_dial(0);
  // The lower one dials; but it may be dead with all who could have told. While a world comes together it may just be
  // slow to start, if its end would be seen here.
  const bool slow_start = end_.is_watched() && !world_.joined;
  start_dial(slow_start ? PeerDial::slow_start(world_.heartbeat_timeout)
                        : std::min(kExpectSeconds, world_.heartbeat_timeout / 2));
}

void PeerSession::post(Frame frame) {
  if (!living_ || world_.goodbye) return;
  if (begun_) return entrust(frame);
  pending_.push_back(std::move(frame));
  const bool dials_us = neighbour_ && process_ < world_.self;
  if (dial_ || dials_us) return;
  watch();
  if (living_) start_dial(0);
}

void PeerSession::entrust(const Frame& frame) {
  if (living_) links_.send(frame);
}

void PeerSession::open(Id id) {
  const std::optional<PeerDial::DialStep> ours = dial_ ? dial_->take(id) : std::nullopt;
  const bool detour = ours ? !ours->address : world_.connections.is_local(id);
  if (dial_ && (ours || dial_->is_idle())) dial_.reset();
  links_.add(id, detour);
  trouble_.clear();
  stream_ended_ = false;
  refused_since_.reset();
  opinion_.heard();
  if (!detour) addresses_.note_connection(world_.connections.remote(id));
  links_.close(links_.silent_ones());
  if (!std::exchange(begun_, true)) {
    world_.owner.session_began(*this);
    for (const Frame& frame : std::exchange(pending_, {})) entrust(frame);
  }
  keep_lifeline();
  watch();
  world_.owner.session_connected();
}

void PeerSession::open_lifeline(Id id) { links_.add_lifeline(id); }

void PeerSession::heard(Id id) {
  if (links_.is_lifeline(id)) return;
  links_.heard(id);
  opinion_.heard();
}

void PeerSession::receive(Id id, ControlFrame kind, std::span<const std::byte> payload) {
  if (links_.is_lifeline(id)) return;
  using FrameUse = SessionLinks::FrameUse;
  const auto [use, content] = links_.receive(kind, payload);
  if (use == FrameUse::breach) {
    log::warn("process {} broke the rules of the control connection, which ends", process_);
    world_.connections.close(id);
    return link_ended(id, "it broke the rules of the control connection");
  }
  if (use == FrameUse::next || use == FrameUse::last_words) world_.owner.frame_received(process_, kind, content);
  const bool has_number = use == FrameUse::next || use == FrameUse::seen;
  // One that leaves waits for it.
  if (has_number && (!living_ || links_.session().owes_acknowledgement())) acknowledge(id);
}

void PeerSession::connection_ended(Id id, const Error& error, const ControlConnections::Ending& ending) {
  if (links_.remove_lifeline(id)) {
    if (ending.in_order) stream_ended();
    return;
  }
  if (ending.in_order && !links_.is_detour(id) && living_ && links_.size() == 1) stream_ended_ = true;
  link_ended(id, error.message);
}

// The process may live: only its own end, or an address at which nobody listens, or long silence tell.
void PeerSession::link_ended(Id id, const std::string& why) {
  links_.remove(id);
  if (!living_ || !links_.empty()) return;
  if (goodbye_announced_) return world_.owner.process_left(process_);
  if (world_.goodbye && !has_kept()) return;
  trouble_ = why;
  log::info("the connection with process {} ended, another is opened: {}", process_, why);
  const double now = world_.loop.now();
  const double delay = std::max(0.0, redial_from_ - now);
  redial_from_ = now + delay + kRedialPause;
  if (!dial_) return start_dial(delay);
  dial_->hasten(now + delay);
}

// Proof of half a death. What the process said last may have been goodbye.
void PeerSession::stream_ended() {
  links_.read_now();
  if (!living_ || goodbye_announced_ || world_.goodbye) return;
  stream_ended_ = true;
  if (!dial_) return start_dial(0);
  dial_->hasten(world_.loop.now());
}

// The lower one opens it, beside a connection that needs nobody else.
void PeerSession::keep_lifeline() {
  if (links_.has_lifeline() || world_.self > process_ || world_.goodbye) return;
  const SocketAddress* const address = connected_at();
  if (address == nullptr || world_.book.share_host(world_.self, process_)) return;
  const auto dialed =
      world_.connections.dial(Route::to(*address), {world_.id, info_.id, true}, {kLifelineSeconds, kLifelineSeconds});
  if (dialed) open_lifeline(*dialed);
}

void PeerSession::watch() {
  if (!living_ || !world_.book.share_host(world_.self, process_)) return;
  end_.watch(info_, [this] {
    links_.read_now();  // it may have said goodbye; if it never was connected, through others: see tick()
    if (begun_) lose(fmt::format("process {} of this host has ended", info_.pid), Certainty::known);
  });
}

void PeerSession::start_dial(double delay) {
  if (addresses_.all().empty()) return lose("it has no address", Certainty::presumed);
  const PeerDial::Target target{
      process_, {world_.id, info_.id}, addresses_, opinion_.hearers(), world_.heartbeat_timeout};
  dial_.emplace(world_.connections, world_.book, target, situation(), world_.loop.now(), delay);
  if (delay == 0) attempt();
}

void PeerSession::attempt() {
  const auto failure = dial_->attempt(situation(), world_.loop.now());
  if (failure) attempt_failed(failure->step, failure->error, false);
}

bool PeerSession::attempt_ended(Id id, const Error& error, bool nobody_listens) {
  const auto step = dial_ ? dial_->take(id) : std::nullopt;
  if (step) attempt_failed(*step, error, nobody_listens);
  return step.has_value();
}

void PeerSession::attempt_failed(const PeerDial::DialStep& step, const Error& error, bool nobody_listens) {
  if (!links_.empty() && !links_.are_silent()) {
    if (dial_->is_idle()) dial_.reset();
    return;
  }
  // Who joins has listened since before the others knew of it. Who leaves looks for one who stays.
  const bool listened = begun_ || !world_.joined || world_.leaving;
  if (step.address && dial_->note_ending(*step.address, nobody_listens) && listened) {
    refused(with_trouble(error.message, trouble_));
    if (!living_) return;
  }
  if (step.address || trouble_.empty()) trouble_ = error.message;
  // A process of this host is watched: as long as it lives it may be stopped, but is not dead.
  const double unheard = world_.loop.now() - dial_->began();
  if (world_.joined && !begun_ && !end_.is_watched() && is_given_up(unheard, world_.heartbeat_timeout))
    return lose(fmt::format("it could not be reached: {}", trouble_), Certainty::presumed);
  dial_->go_on();
}

// Nobody listens at one of its addresses that is surely its own, or at all of them.
void PeerSession::refused(const std::string& why) {
  if (stream_ended_) return lose(why, Certainty::known);
  if (!world_.joined || world_.leaving) return lose(why, Certainty::presumed);
  if (!refused_since_) refused_since_ = world_.loop.now();
  if (is_given_up(world_.loop.now() - *refused_since_, kRefusedPart * world_.heartbeat_timeout))
    lose(why, Certainty::presumed);
}

// Returns whether a process that this one has not heard for so long counts as dead.
bool PeerSession::is_given_up(double unheard, double limit) {
  const double now = world_.loop.now();
  if (unheard <= limit * SecondOpinion::kAskPart) return false;
  if (opinion_.ask(now)) world_.owner.process_doubted(process_);
  const bool answered = opinion_.had_time(now) || !world_.owner.hears_others_than(process_);
  return unheard > limit && answered && !opinion_.is_heard_elsewhere(now);
}

// If one of the two may have presumed the other dead before it ended, it may have gone on without this process.
void PeerSession::lose(const std::string& why, Certainty certainty) {
  if (goodbye_announced_) return world_.owner.process_left(process_);
  const bool out_of_touch = links_.seconds_unheard() > OwnSilence::kSafePart * world_.heartbeat_timeout ||
                            world_.own_silence.may_be_presumed_dead(world_.loop.real_now());
  if (begun_ && out_of_touch) certainty = Certainty::presumed;
  world_.owner.process_lost(process_, why, certainty);
}

void PeerSession::beat() {
  if (!begun_ || !living_) return;
  if (world_.goodbye && !has_kept()) return;
  const double unheard = links_.seconds_unheard();
  const bool host_answers = dial_ && dial_->host_answers();
  const double limit = world_.heartbeat_timeout * (host_answers ? 1 + kAnswersPart : 1);
  // A process of this host that is stopped is silent, but its descriptor would tell if it were dead.
  if (!end_.is_watched() && is_given_up(unheard, limit))
    return lose(with_trouble(fmt::format("silent for {:.1f} s", unheard), trouble_), Certainty::presumed);
  if (links_.session().overflowed() && links_.are_silent())
    return lose(fmt::format("it is silent, and {} MB wait for it", Session::kLimit >> 20), Certainty::presumed);
  links_.close(links_.silent_ones());
  // A process that stood still answers all attempts to connect to it that were made meanwhile. The lower of the two
  // decides: if each kept others, none would be left.
  if (world_.self < process_ && !links_.are_silent()) links_.close(links_.surplus());
  keep_lifeline();
  if (links_.are_silent() && !dial_) {
    log::info("process {} is silent for {:.1f} s, another connection is opened", process_, unheard);
    start_dial(0);
  }
  links_.beat();
}

void PeerSession::tick() {
  const double now = world_.loop.now();
  if (living_ && end_.seen_at() && now >= *end_.seen_at() + kGoodbyeOnItsWay)
    lose(fmt::format("process {} of this host has ended", info_.pid), Certainty::known);
  if (!dial_ || dial_->next_at() > now) return;
  // It has dialed us meanwhile, unless all we have of it is the end of a stream.
  if (stream_ended_ || links_.empty() || links_.are_silent()) return attempt();
  dial_->hold();
  if (dial_->is_idle()) dial_.reset();
}

double PeerSession::next_tick() const {
  const double dial = dial_ ? dial_->next_at() : EventLoop::kNever;
  return living_ && end_.seen_at() ? std::min(dial, *end_.seen_at() + kGoodbyeOnItsWay) : dial;
}

void PeerSession::part(const Frame& last_words) {
  living_ = false;
  pending_.clear();
  // Last words on a second connection could overtake what the first one carries.
  if (dial_ && links_.empty()) dial_->hang_up(last_words, kFarewellSeconds);
  dial_.reset();
  links_.drain(kFarewellSeconds);
  end_.stop();
}

}  // namespace tutti
