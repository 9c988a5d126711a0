#include "control/world/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/wire.hpp"

namespace tutti {
namespace {

// Seconds in which goodbyes are gathered before neighbours are drawn again: at the end of a job all leave at once.
constexpr double kOverlayPause = 0.1;
constexpr double kBeatPart = 0.1;  // of the time after which a silent process is dead

std::vector<std::byte> encode_death(int process, const Death& death) {
  WireWriter out;
  out.put(static_cast<std::uint32_t>(process));
  out.put(death.certainty);
  out.put_text(death.error.message);
  return encode_frame(ControlFrame::death, out.take());
}

std::vector<std::byte> encode_goodbye(int process) {
  WireWriter out;
  out.put(static_cast<std::uint32_t>(process));
  return encode_frame(ControlFrame::left, out.take());
}

}  // namespace

World::World(EventLoop& loop, ControlConnections& connections, Mailbox& mailbox, Roster& roster, News news,
             double heartbeat_timeout)
    : state_{loop, connections, *this, heartbeat_timeout}, mailbox_(mailbox), roster_(roster), news_(std::move(news)) {}

ControlConnections::Events World::events() {
  return {[this](Id id, const Greeting& greeting, bool is_local) { return greeted(id, greeting, is_local); },
          [this](Id id, const Greeting& greeting) { opened(id, greeting); },
          [this](Id id, ControlFrame kind, std::span<const std::byte> payload) {
            PeerSession* const session = session_of(id);
            if (session != nullptr && !alone_) session->receive(id, kind, payload);
          },
          [this](Id id) {
            if (PeerSession* const session = session_of(id)) session->heard(id);
          },
          [this](Id id, const Error& error, const ControlConnections::Ending& ending) { ended(id, error, ending); }};
}

void World::join(std::vector<ControlPeer> all, int self, double seconds, Done done) {
  state_.self = self;
  state_.id = all[static_cast<std::size_t>(self)].id;
  std::vector<AddressBook::Process> addresses;
  for (const ControlPeer& each : all) addresses.push_back({{each.id, each.addresses, each.local_path}, each.host});
  state_.book.set_processes(std::move(addresses), state_.id);
  for (ControlPeer& each : all)
    sessions_.push_back(std::make_unique<PeerSession>(state_, static_cast<int>(sessions_.size()), std::move(each)));
  seen_ = SeenBroadcasts(sessions_.size());
  mailbox_.make_room(sessions_.size());
  roster_.resize(static_cast<int>(sessions_.size()));
  joining_ = std::move(done);
  join_deadline_ = state_.loop.now() + seconds;
  next_beat_ = state_.loop.now();
  draw_overlay();
  for (const Early& each : std::exchange(early_, {}))
    state_.connections.answer(each.id, judge(each.greeting, each.is_local));
  finish_join();
}

void World::finish_join() {
  if (!joining_) return;
  Status status;
  if (first_death_) {
    status = tl::unexpected(*first_death_);
  } else if (const std::string missing = missing_neighbours(); missing.empty()) {
    state_.joined = true;
  } else if (state_.loop.now() >= join_deadline_) {
    status = fail(ErrorCode::timed_out, fmt::format("no control connection in time with process {}", missing));
  } else {
    return;
  }
  std::exchange(joining_, nullptr)(status);
}

std::string World::missing_neighbours() const {
  std::vector<int> missing;
  for (const auto& session : sessions_)
    if (session->is_missing()) missing.push_back(session->process());
  return fmt::format("{}", fmt::join(missing, ", "));
}

Connector::Answer World::greeted(Id id, const Greeting& greeting, bool is_local) {
  if (state_.self >= 0) return judge(greeting, is_local);
  early_.push_back({id, greeting, is_local});
  return Connector::Answer::later();
}

Connector::Answer World::judge(const Greeting& greeting, bool is_local) const {
  const int process = state_.book.number_of(greeting.from);
  const int to = state_.book.number_of(greeting.to);
  if (process < 0 || to < 0 || process == state_.self || alone_)
    return Connector::Answer::drop(fmt::format("process {} is not of this world", greeting.from.to_string()));
  if (to != state_.self) return relay(process, to, is_local);
  if (greeting.lifeline && (!session(process).is_living() || state_.goodbye)) return Connector::Answer::drop();
  return Connector::Answer::accept(Greeting{state_.id, greeting.from, greeting.lifeline}.encode());
}

// If this process is on a third host, it relays only to where the peer surely is, so that nobody relays it once more.
Connector::Answer World::relay(int from, int to, bool came_locally) const {
  std::vector<Route> routes = state_.book.forward_routes(from, to, came_locally, session(to).connected_at());
  if (!routes.empty()) return Connector::Answer::pass_on(std::move(routes));
  log::info("process {} looks for process {} here, which cannot be reached from here", from, to);
  return Connector::Answer::drop();
}

void World::opened(Id id, const Greeting& greeting) {
  if (alone_) return state_.connections.close(id);
  const int process = state_.book.number_of(greeting.from);
  PeerSession& session = this->session(process);
  if (greeting.lifeline) return session.open_lifeline(id);
  if (state_.goodbye && !session.has_begun())
    return state_.connections.hang_up(id, *state_.goodbye, PeerSession::kFarewellSeconds);
  if (session.is_living()) return session.open(id);
  session.acknowledge(id);
  if (roster_.left(process)) {
    state_.processes_by_connection[id] = process;  // what it said before it left may still be to come
    return;
  }
  // It was declared dead, and does not know.
  for (const Frame& absence : absences_) state_.connections.queue(id, absence);
  state_.connections.drain(id, PeerSession::kFarewellSeconds);
}

void World::ended(Id id, const Error& error, const ControlConnections::Ending& ending) {
  std::erase_if(early_, [&](const Early& each) { return each.id == id; });
  if (PeerSession* const session = session_of(id)) return session->connection_ended(id, error, ending);
  for (const auto& session : sessions_)
    if (session->attempt_ended(id, error, ending.nobody_listens)) return;
}

PeerSession* World::session_of(Id id) {
  const auto found = state_.processes_by_connection.find(id);
  return found == state_.processes_by_connection.end() ? nullptr : &session(found->second);
}

void World::draw_overlay() {
  draw_again_at_ = EventLoop::kNever;
  if (alone_ || state_.goodbye) return;
  if (state_.leaving)  // those who were neighbours before are to be reached at once, too
    for (const auto& session : sessions_) session->set_neighbour(false);
  std::vector<bool> living;
  for (const auto& session : sessions_) living.push_back(session->is_living());
  const std::vector<int> drawn = overlay_neighbours(state_.self, living);
  for (const auto& session : sessions_)
    session->set_neighbour(std::binary_search(drawn.begin(), drawn.end(), session->process()));
}

void World::session_began(PeerSession& session) {
  for (const Frame& absence : absences_) session.entrust(absence);
  for (const Frame& frame : history_.frames()) session.entrust(frame);
}

bool World::hears_others_than(int process) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [&](const auto& session) { return session->process() != process && session->hears(); });
}

void World::send(int process, std::uint64_t topic, std::span<const std::byte> bytes) {
  if (process == state_.self) return mailbox_.deliver(process, topic, bytes);
  WireWriter out;
  out.put(topic);
  out.put_raw(bytes);
  session(process).post(encode_frame(ControlFrame::message, out.take()));
}

void World::broadcast(std::uint64_t topic, std::span<const std::byte> bytes, const std::vector<int>& to) {
  std::vector<bool> receivers(sessions_.size(), to.empty());
  for (const int process : to) receivers[static_cast<std::size_t>(process)] = true;
  WireWriter out;
  out.put(static_cast<std::uint32_t>(state_.self));
  out.put(next_broadcast_++);
  out.put(topic);
  out.put_set(receivers);
  out.put_raw(bytes);
  Frame frame = encode_frame(ControlFrame::broadcast, out.take());
  flood(frame);
  history_.add(std::move(frame));
}

void World::flood(const Frame& frame, int except) {
  if (alone_ || state_.goodbye) return;
  for (const auto& session : sessions_)
    if (session->process() != except && session->has_begun()) session->entrust(frame);
}

void World::flood_opinion(int process, bool hears) {
  WireWriter out;
  out.put(static_cast<std::uint32_t>(state_.self));
  out.put(next_broadcast_++);
  out.put(static_cast<std::uint32_t>(process));
  out.put(static_cast<std::uint8_t>(hears ? 1 : 0));
  flood(encode_frame(ControlFrame::opinion, out.take()));
}

void World::frame_received(int process, ControlFrame kind, std::span<const std::byte> payload) {
  if (state_.goodbye && kind != ControlFrame::left) return;
  WireReader in(payload);
  switch (kind) {
    case ControlFrame::message: {
      const auto topic = in.get<std::uint64_t>();
      if (in.ok()) mailbox_.deliver(process, topic, in.rest());
      return;
    }
    case ControlFrame::broadcast:
      return broadcast_received(process, payload);
    case ControlFrame::death:
      return death_received(payload);
    case ControlFrame::left: {
      const auto who = in.get<std::uint32_t>();
      if (in.complete() && has(who)) learn_goodbye(static_cast<int>(who), process);
      return;
    }
    case ControlFrame::opinion:
      return opinion_received(process, payload);
    case ControlFrame::heartbeat:
      return;
  }
}

void World::broadcast_received(int from, std::span<const std::byte> payload) {
  WireReader in(payload);
  const auto origin = in.get<std::uint32_t>();
  const auto number = in.get<std::uint64_t>();
  const auto topic = in.get<std::uint64_t>();
  const auto receivers = in.get_set(sessions_.size());
  if (!in.ok() || !has(origin) || static_cast<int>(origin) == state_.self) return;
  if (!seen_.first_time(static_cast<int>(origin), number)) return;
  Frame frame = encode_frame(ControlFrame::broadcast, payload);
  flood(frame, from);  // passed on first: the handler may take its time, or its life
  history_.add(std::move(frame));
  if (receivers[static_cast<std::size_t>(state_.self)]) mailbox_.deliver(static_cast<int>(origin), topic, in.rest());
}

void World::death_received(std::span<const std::byte> payload) {
  WireReader in(payload);
  const auto process = in.get<std::uint32_t>();
  Death death;
  death.certainty = in.get<Certainty>() == Certainty::known ? Certainty::known : Certainty::presumed;
  death.error.code = ErrorCode::rank_died;
  death.error.message = in.get_text();
  death.error.peer = static_cast<int>(process);
  if (in.complete() && has(process)) learn_death(static_cast<int>(process), std::move(death));
}

// Opinions are of use at once or never: new neighbours do not get those of before.
void World::opinion_received(int from, std::span<const std::byte> payload) {
  WireReader in(payload);
  const auto origin = in.get<std::uint32_t>();
  const auto number = in.get<std::uint64_t>();
  const auto process = in.get<std::uint32_t>();
  const bool hears = in.get<std::uint8_t>() != 0;
  if (!in.complete() || !has(origin) || !has(process)) return;
  if (static_cast<int>(origin) == state_.self || !seen_.first_time(static_cast<int>(origin), number)) return;
  flood(encode_frame(ControlFrame::opinion, payload), from);
  PeerSession& session = this->session(static_cast<int>(process));
  if (hears)
    session.heard_by(static_cast<int>(origin));
  else if (session.answers())
    flood_opinion(session.process(), true);
}

void World::process_lost(int process, const std::string& why, Certainty certainty) {
  if (!session(process).is_living() || alone_) return;
  if (leaving_) {
    draw_again_at_ = state_.loop.now();
    return part_from(process, state_.goodbye.value_or(Frame()));
  }
  Death death;
  death.certainty = certainty;
  death.error.code = ErrorCode::rank_died;
  death.error.message =
      fmt::format("process {} {}: {}", process, certainty == Certainty::known ? "died" : "is presumed dead", why);
  death.error.peer = process;
  log::warn("{}", death.error.message);
  learn_death(process, std::move(death));
}

void World::learn_death(int process, Death death) {
  if (alone_) return;
  if (!session(process).is_living()) return confirm_death(process, std::move(death));
  absences_.push_back(encode_death(process, death));
  roster_.set_dead(process, death);
  if (process == state_.self) {
    log::error("the other processes declared this one dead: {}", death.error.message);
    leave_alone(absences_.back());
  } else {
    flood(absences_.back());  // to the dead one too: it may live, and must know
    part_from(process, absences_.back());
  }
  if (!first_death_) first_death_ = death.error;
  news_.died(process, death);
  draw_overlay();
  finish_join();
}

// Of a process that counts as dead already: only that it is certain is news.
void World::confirm_death(int process, Death death) {
  const auto before = roster_.death_of(process);
  if (!before || before->certainty == Certainty::known || death.certainty != Certainty::known) return;
  absences_.push_back(encode_death(process, death));
  roster_.set_dead(process, death);
  flood(absences_.back());
  news_.died(process, death);
}

void World::learn_goodbye(int process, int from) {
  PeerSession& session = this->session(process);
  if (!session.is_living() || alone_ || process == state_.self) return;
  // Passed on at once: this process may say goodbye itself before the word of that one has come.
  const bool is_news = !state_.goodbye && !session.is_goodbye_announced();
  if (is_news) flood(absences_.emplace_back(encode_goodbye(process)));
  if (from != process && session.announce_goodbye()) return;
  if (state_.goodbye) {
    session.answer_goodbye(*state_.goodbye);
    return part_from(process, *state_.goodbye);
  }
  roster_.set_left(process);
  part_from(process, encode_goodbye(process));
  news_.left(process);
  draw_again_at_ = std::min(draw_again_at_, state_.loop.now() + (state_.leaving ? 0 : kOverlayPause));
  finish_join();
}

void World::part_from(int process, const Frame& last_words) {
  state_.book.remove(process);
  session(process).part(last_words);
}

void World::leave_alone(const Frame& last_words) {
  alone_ = true;
  state_.connections.stop_listening();
  for (const auto& session : sessions_) part_from(session->process(), last_words);
}

void World::leave(Done done) {
  if (joining_) std::exchange(joining_, nullptr)(fail(ErrorCode::aborted, "this process leaves while it joins"));
  leaving_ = std::move(done);
  leave_deadline_ = state_.loop.now() + kGoodbyeLimit;
  state_.leaving = true;
  if (is_cut_off()) draw_again_at_ = state_.loop.now();
  finish_leave();
}

/// Returns whether others stay, and none of them is going to hear that this process leaves: they would take its end for
/// a death. A process passes on what it hears before it says goodbye itself, and nothing afterwards, so all who could
/// be told may leave at the same time.
bool World::is_cut_off() const {
  if (told_ || alone_ || !state_.joined) return false;
  bool others_stay = false;
  for (const auto& session : sessions_) {
    if (session->process() == state_.self || !session->is_living()) continue;
    if (session->has_begun()) return false;
    others_stay = true;
  }
  return others_stay;
}

void World::finish_leave() {
  if (!leaving_) return;
  const bool late = state_.loop.now() >= leave_deadline_;
  const auto is_told = [](const auto& session) {
    return session->is_living() && session->has_begun() && !session->has_kept();
  };
  told_ = told_ || (state_.goodbye && std::any_of(sessions_.begin(), sessions_.end(), is_told));
  if (!late && is_cut_off()) {
    if (state_.goodbye) draw_again_at_ = state_.loop.now();
    return state_.goodbye.reset();  // it is said again once there is one who stays
  }
  const auto waits = [&](auto&& why) { return !late && std::any_of(sessions_.begin(), sessions_.end(), why); };
  if (!state_.goodbye && !waits([](const auto& session) { return session->has_pending(); })) say_goodbye();
  if (state_.goodbye && !alone_ && !waits([](const auto& session) { return session->has_kept(); }))
    leave_alone(*state_.goodbye);
  if (late || (alone_ && state_.connections.empty())) std::exchange(leaving_, nullptr)({});
}

void World::say_goodbye() {
  Frame goodbye = encode_goodbye(state_.self);
  flood(goodbye);
  state_.goodbye = std::move(goodbye);
  for (const Early& each : std::exchange(early_, {})) state_.connections.close(each.id);
}

void World::beat() {
  if (alone_ || state_.self < 0 || state_.loop.now() < next_beat_) return;
  next_beat_ = state_.loop.now() + state_.heartbeat_timeout * kBeatPart;
  state_.own_silence.beat(state_.loop.real_now());
  for (const auto& session : sessions_) session->beat();
}

double World::tick() {
  beat();
  if (state_.loop.now() >= draw_again_at_) draw_overlay();
  for (const auto& session : sessions_) session->tick();
  finish_join();
  finish_leave();
  double next = state_.self >= 0 && !alone_ && sessions_.size() > 1 ? next_beat_ : EventLoop::kNever;
  next = std::min(next, draw_again_at_);
  if (joining_) next = std::min(next, join_deadline_);
  if (leaving_) next = std::min(next, leave_deadline_);
  for (const auto& session : sessions_) next = std::min(next, session->next_tick());
  return next;
}

}  // namespace tutti
