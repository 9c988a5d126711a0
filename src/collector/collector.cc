#include "collector/collector.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "diagnosis/stuck_operations.hpp"
#include "diagnosis/telemetry/telemetry_json.hpp"

namespace tutti::collector {
namespace {

using agent::Frame;
using agent::FrameKind;
using diagnosis::JudgedJob;
using diagnosis::Telemetry;
using diagnosis::VerdictChange;

constexpr double kPause = 1, kIncidentPause = 0.25;  // seconds between judgements
// Agents that were here before come back within their longest pause.
constexpr double kSettle = 2.25;                              // seconds from the start to the first judgement
constexpr double kCloseLook = 300;                            // seconds after the last change of a verdict
constexpr double kDeaf = 30;                                  // seconds in which a peer must take what is for it
constexpr double kSilence = 30;                               // seconds until a host that is gone counts as such
constexpr std::size_t kMostFromAgent = std::size_t{4} << 20;  // bytes of a frame
constexpr std::size_t kMostFromAsker = 64;

double realtime() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::int64_t nanoseconds_now() { return static_cast<std::int64_t>(1e9 * monotonic_seconds()); }

}  // namespace

Result<std::unique_ptr<Collector>> Collector::open(CollectorOptions options) {
  std::unique_ptr<Collector> collector(new Collector(std::move(options)));
  if (Status prepared = collector->prepare(); !prepared) return tl::unexpected(prepared.error());
  return collector;
}

Collector::~Collector() {
  for (const auto& [id, peer] : peers_) loop_.unwatch(peer->watch);
}

Status Collector::prepare() {
  if (!options_.store.empty()) {
    auto store = VerdictStore::open(options_.store, realtime());
    if (!store) return tl::unexpected(store.error());
    store_ = std::move(*store);
    auto past = store_->past(realtime());
    if (!past) return tl::unexpected(past.error());
    watch_ = diagnosis::JobWatch(*std::move(past));
  }
  if (!options_.events.empty()) events_.emplace(options_.events);
  if (options_.webhook) {
    auto webhook = Webhook::start(*options_.webhook);
    if (!webhook) return tl::unexpected(webhook.error());
    webhook_ = std::move(*webhook);
  }
  if (Status opened = loop_.open(); !opened) return opened;
  Result<Fd> listener = listen_on(options_.listen, PortRange{});
  if (!listener) return tl::unexpected(listener.error());
  const auto bound = local_address(listener->get());
  if (!bound) return tl::unexpected(bound.error());
  address_ = *bound;
  Connector::Options connecting;
  connecting.purpose = Purpose::report;
  connecting.key = options_.key;
  connecting.greeting_limit = agent::kMostHelloBytes;
  connector_.reset(new Connector(loop_, connecting, *this));  // as the owner that only it may know
  return connector_->listen(std::move(*listener));
}

Status Collector::run(int stop) {
  bool stopping = false;
  const auto watched = loop_.watch(stop, EPOLLIN, [&](std::uint32_t) { stopping = true; });
  if (!watched) return tl::unexpected(watched.error());
  next_judgement_ = loop_.now() + kSettle;
  while (!stopping) {
    loop_.run_once(next_turn());
    if (loop_.now() >= next_judgement_) judge();
    if (events_) events_->work(loop_.now());
  }
  loop_.unwatch(*watched);
  return {};
}

double Collector::next_turn() {
  double next = std::min({next_judgement_, connector_->tick(), log_.catch_up(loop_.now())});
  if (events_) next = std::min(next, std::max(events_->due(), loop_.now()));
  return next;
}

std::size_t Collector::count(agent::Hello::Speaker speaker) const {
  return static_cast<std::size_t>(std::count_if(
      peers_.begin(), peers_.end(), [&](const auto& each) { return each.second->hello.speaker == speaker; }));
}

Connector::Answer Collector::greeted(Connector::Id, const Connector::Arrival& arrival) {
  const auto hello = agent::decode_hello(arrival.greeting);
  const std::string name = arrival.remote.to_string();
  if (!hello) return Connector::Answer::drop(fmt::format("{}: {}", name, hello.error().message));
  const std::size_t most = hello->speaker == agent::Hello::Speaker::agent ? kMostAgents : kMostAskers;
  if (count(hello->speaker) >= most)
    return Connector::Answer::drop(fmt::format("{}: {} of its kind are connected already", name, most));
  if (hello->speaker == agent::Hello::Speaker::agent && hosts_.size() >= kMostHosts &&
      !hosts_.knows({hello->host, hello->place}))
    return Connector::Answer::drop(fmt::format("{}: {} hosts are known already", name, kMostHosts));
  return Connector::Answer::accept(encode(*hello));
}

void Collector::accepted(Connector::Id id, Fd socket, const Connector::Arrival& arrival) {
  const auto hello = agent::decode_hello(arrival.greeting);
  if (!hello) return;
  const bool is_agent = hello->speaker == agent::Hello::Speaker::agent;
  // An agent that is back may be here before its old connection is known to be gone.
  for (const auto& [other, peer] : peers_)
    if (is_agent && peer->is_agent() && peer->key() == KnownHosts::Key(hello->host, hello->place)) {
      drop(other, "");
      break;
    }
  if (const Status watched = watch_silence(socket.get(), kSilence); !watched)
    return log_.warn(watched.error().message, loop_.now());
  auto peer = std::make_unique<Peer>(agent::FrameStream(std::move(socket), is_agent ? kMostFromAgent : kMostFromAsker),
                                     *hello, fmt::format("{} ({})", arrival.remote.to_string(), hello->host));
  peer->taken_at = loop_.now();
  const auto watch = loop_.watch(peer->stream.descriptor(), EPOLLIN, [this, id](std::uint32_t) { on_events(id); });
  if (!watch) return log_.warn(watch.error().message, loop_.now());
  peer->watch = *watch;
  if (is_agent) hosts_.connected(peer->key(), loop_.now());
  peers_[id] = std::move(peer);
}

void Collector::on_events(Connector::Id id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = *found->second;
  const Status received = peer.stream.receive([&](const Frame& frame) { return take(peer, frame); });
  if (!received) return drop(id, received.error().message);
  after_writing(id);
}

/// Sends what there is for a peer, and waits for room where there is more.
void Collector::after_writing(Connector::Id id) {
  Peer& peer = *peers_.at(id);
  if (const Status sent = peer.stream.flush(); !sent) return drop(id, sent.error().message);
  if (!peer.stream.has_backlog()) peer.taken_at = loop_.now();
  loop_.change(peer.watch, EPOLLIN | (peer.stream.has_backlog() ? std::uint32_t{EPOLLOUT} : 0U));
}

void Collector::drop(Connector::Id id, const std::string& why) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  loop_.unwatch(found->second->watch);
  if (found->second->is_agent()) {
    hosts_.disconnected(found->second->key());
    if (!why.empty())
      log_.warn(fmt::format("no connection to the agent {}: {}", found->second->name, why), loop_.now());
  }
  peers_.erase(found);
}

void Collector::drop_deaf() {
  std::vector<Connector::Id> deaf;
  for (const auto& [id, peer] : peers_)
    if (peer->stream.has_backlog() && loop_.now() - peer->taken_at > kDeaf) deaf.push_back(id);
  for (const Connector::Id id : deaf) drop(id, fmt::format("it has taken nothing for {} s", kDeaf));
}

Status Collector::take(Peer& peer, const Frame& frame) {
  if (peer.is_agent()) {
    switch (frame.kind) {
      case FrameKind::telemetry:
        // Of what is wrong within a line nothing is taken; the agent's next one may be right.
        if (const Status taken = hosts_.take_telemetry(peer.key(), frame.payload, loop_.now()); !taken)
          log_.warn(fmt::format("the agent {} told of a job: {}", peer.name, taken.error().message), loop_.now());
        return {};
      case FrameKind::look:
        return take_look(peer, frame.payload);
      case FrameKind::alive:
        hosts_.take_alive(peer.key(), loop_.now());
        return {};
      default:
        break;
    }
  } else if (frame.kind == FrameKind::ask) {
    answer(peer);
    return {};
  }
  return fail(ErrorCode::refused, fmt::format("a frame of {} is not expected of it", name_of(frame.kind)));
}

Status Collector::take_look(Peer& peer, const std::string& payload) {
  const std::int64_t heard = nanoseconds_now();
  const auto look = agent::decode_look(payload);
  if (!look) return tl::unexpected(look.error());
  if (Status taken = hosts_.take_look(peer.key(), *look, loop_.now(), 1e-9 * static_cast<double>(heard)); !taken)
    return taken;
  tell_pace(peer, look->sent, heard);
  return {};
}

void Collector::tell_pace(Peer& peer, std::int64_t sent, std::int64_t heard) {
  peer.incident = is_in_incident(peer);
  peer.stream.push(FrameKind::pace, encode(agent::PaceMessage{sent, heard, nanoseconds_now(), peer.incident}));
}

bool Collector::is_in_incident(const Peer& peer) const {
  const auto jobs = hosts_.jobs_of(peer.key());
  return std::any_of(jobs.begin(), jobs.end(), [&](std::uint64_t job) { return incidents_.contains(job); });
}

/// All that is known, unless it has not taken yet what it asked for before.
void Collector::answer(Peer& peer) {
  if (peer.stream.has_backlog()) return;
  peer.stream.push(FrameKind::hosts, hosts_.as_json(loop_.now(), monotonic_seconds()).dump());
  for (const auto& [id, job] : watch_.jobs()) peer.stream.push(FrameKind::job, line_of(job.telemetry));
  peer.stream.push(FrameKind::end, "");
}

/// Agents whose words wait to be read are not silent: it is the collector that is late.
void Collector::hear_late() {
  for (const auto& [id, peer] : peers_) {
    if (!peer->is_agent() || hosts_.answers(peer->key(), loop_.now())) continue;
    pollfd entry{peer->stream.descriptor(), POLLIN, 0};
    if (::poll(&entry, 1, 0) == 1 && (entry.revents & POLLIN) != 0) hosts_.take_alive(peer->key(), loop_.now());
  }
}

void Collector::judge() {
  hear_late();
  std::vector<Telemetry> jobs = hosts_.merged(loop_.now());
  const double offset = realtime() - monotonic_seconds();
  for (Telemetry& job : jobs) job.realtime_offset = offset;
  watch_.look(std::move(jobs), [this](const JudgedJob& job, const VerdictChange& change) { pass_on(job, change); });
  note_incidents();
  if (store_) store_->tick(realtime());
  drop_deaf();
  next_judgement_ = loop_.now() + (incidents_.empty() && !hosts_.is_joining() ? kPause : kIncidentPause);
}

void Collector::pass_on(const JudgedJob& job, const VerdictChange& change) {
  alerted_[job.telemetry.job] = loop_.now();
  const std::string line = json_of(change, job.telemetry).dump();
  if (events_) events_->push(line);
  if (store_) store_->add(change, job.telemetry);
  if (webhook_) webhook_->push(line);
}

/// Has agents look closely where something is wrong, or may soon be.
void Collector::note_incidents() {
  incidents_.clear();
  for (const auto& [id, job] : watch_.jobs()) {
    const bool stands_still =
        std::any_of(job.verdicts.begin(), job.verdicts.end(),
                    [](const diagnosis::Verdict& each) { return each.fault <= diagnosis::FaultClass::deadlocked; }) ||
        !stuck_operations(job.telemetry, {}).empty();
    if (!stands_still) {
      alerted_.erase(id);
      continue;
    }
    const auto [alerted, is_new] = alerted_.try_emplace(id, loop_.now());
    if (loop_.now() - alerted->second < kCloseLook) incidents_.insert(id);
  }
  std::erase_if(alerted_, [&](const auto& each) { return !watch_.jobs().contains(each.first); });
  std::vector<Connector::Id> changed;
  for (const auto& [id, peer] : peers_)
    if (peer->is_agent() && is_in_incident(*peer) != peer->incident) changed.push_back(id);
  for (const Connector::Id id : changed) {
    tell_pace(*peers_.at(id), 0, 0);
    after_writing(id);
  }
}

}  // namespace tutti::collector
