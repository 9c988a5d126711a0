#include "bootstrap/store_loop.hpp"

#include <fmt/core.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"

namespace tutti {
namespace {

Error make_error(ErrorCode code, std::string message, int peer = -1) {
  Error error;
  error.code = code;
  error.message = std::move(message);
  error.peer = peer;
  return error;
}

/// Returns why so many ranks cannot meet here: each holds a connection until all have come. Empty: they can.
std::string lack_of_descriptors(int ranks) {
  constexpr rlim_t kOthers = 16;  // that a process has open besides, at least
  rlimit limit{};
  const rlim_t needed = static_cast<rlim_t>(ranks) + kOthers;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || needed <= limit.rlim_cur) return {};
  return fmt::format("{} ranks meet at rank 0, which needs {} descriptors and may open {} (see ulimit -n)", ranks,
                     needed, limit.rlim_cur);
}

}  // namespace

StoreLoop::StoreLoop(const JobKey& key, std::shared_ptr<StoreProgress> progress, Sockets& sockets,
                     EventLoop::Clock clock)
    : loop_(EventLoop::kNever, clock),
      connector_(loop_, {Purpose::bootstrap, key, kRequestSeconds, kMaxRequestBytes, &sockets}, *this),
      progress_(std::move(progress)),
      next_expiry_(EventLoop::kNever),
      patience_(EventLoop::kNever),
      late_warning_(EventLoop::kNever) {}

StoreLoop::~StoreLoop() {
  while (!connections_.empty()) erase(connections_.begin()->first);
  const std::lock_guard lock(progress_->mutex);
  progress_->over = true;
  progress_->changed.notify_all();
}

Result<std::unique_ptr<StoreLoop>> StoreLoop::make(std::vector<Fd> listeners, const JobKey& key, int doorbell,
                                                   std::shared_ptr<StoreProgress> progress, Sockets& sockets,
                                                   EventLoop::Clock clock) {
  std::unique_ptr<StoreLoop> loop(new StoreLoop(key, std::move(progress), sockets, clock));
  if (auto opened = loop->open(std::move(listeners), doorbell); !opened) return tl::unexpected(opened.error());
  return loop;
}

Status StoreLoop::open(std::vector<Fd> listeners, int doorbell) {
  if (auto opened = loop_.open(); !opened) return opened;
  const auto rung = loop_.watch(doorbell, EPOLLIN, [this](std::uint32_t) { stopped_ = true; });
  if (!rung) return tl::unexpected(rung.error());
  for (Fd& each : listeners)
    if (auto listens = connector_.listen(std::move(each)); !listens) return listens;
  return {};
}

void StoreLoop::run() {
  double next = 0;
  while (!stopped_ && !over()) {
    loop_.run_once(next);
    next = expire();
    publish();
  }
}

bool StoreLoop::over() const {
  if (!connections_.empty() || !connector_.empty()) return false;
  return complete_ || (failure_ && attendance_.ranks() > 0 && static_cast<int>(settled_.size()) >= attendance_.ranks());
}

Connector::Answer StoreLoop::greeted(Id, const Connector::Arrival& arrival) {
  const auto request = decode_request(arrival.greeting);
  if (request) return Connector::Answer::accept();
  return Connector::Answer::drop(arrival.remote.to_string() + ": " + request.error().message);
}

void StoreLoop::accepted(Id id, Fd socket, const Connector::Arrival& arrival) {
  const auto watch = loop_.watch(socket.get(), EPOLLIN, [this, id](std::uint32_t) { serve(id); });
  if (!watch) return log::error("the store cannot watch {}: {}", arrival.remote.to_string(), watch.error().message);
  // A host that loses power sends no farewell.
  (void)watch_silence(socket.get(), settings().heartbeat_timeout);
  StoreConnection& connection = connections_
                                    .emplace(id, StoreConnection{.socket = std::move(socket),
                                                                 .peer = arrival.remote,
                                                                 .watch = *watch,
                                                                 .deadline = EventLoop::kNever,
                                                                 .incoming = {},
                                                                 .answer = {}})
                                    .first->second;
  admit(id, connection, decode_request(arrival.greeting).value());
  const auto found = connections_.find(id);
  if (found != connections_.end() && found->second.phase == Phase::answering) flush(id, found->second);
}

void StoreLoop::serve(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  StoreConnection& connection = found->second;
  const bool next_round = connection.phase == Phase::answered && !connection.newcomer;
  if (connection.phase == Phase::introducing || next_round) {
    auto request = read_request(connection);
    if (!request && next_round) return hung_up(id);
    if (!request) return drop(id, request.error().message);
    if (*request && next_round && complete_) begin_round();
    if (*request) admit(id, connection, std::move(**request));
  } else {
    std::byte unexpected;
    const auto received = recv_some(connection.socket.get(), std::span(&unexpected, 1));
    // A newcomer that introduces itself when all is decided is to hear how.
    if (!received || (*received != 0 && !connection.newcomer)) return hung_up(id);
  }
  if (connection.phase == Phase::answering) return flush(id, connection);
  this->watch(connection);
}

Result<std::optional<JoinRequest>> StoreLoop::read_request(StoreConnection& connection) {
  Blob& incoming = connection.incoming;
  if (incoming.empty()) incoming.resize(kLengthBytes);
  while (true) {
    while (connection.received < incoming.size()) {
      const auto received = recv_some(connection.socket.get(), std::span(incoming).subspan(connection.received));
      if (!received) return tl::unexpected(received.error());
      if (*received == 0) return std::optional<JoinRequest>();
      connection.received += *received;
    }
    const auto length = frame_length(std::span(incoming).first<kLengthBytes>());
    if (length == 0 || length > kMaxRequestBytes)
      return fail(ErrorCode::refused,
                  fmt::format("{} asks to join with a request of {} bytes", connection.peer.to_string(), length));
    if (incoming.size() > kLengthBytes) break;
    incoming.resize(kLengthBytes + length);
  }
  auto request = decode_request(std::span(incoming).subspan(kLengthBytes));
  if (!request) return fail(ErrorCode::refused, connection.peer.to_string() + ": " + request.error().message);
  incoming = Blob();
  connection.received = 0;
  return std::optional(std::move(*request));
}

// The first of them has come back with another blob. Whoever hung up will not.
void StoreLoop::begin_round() {
  complete_ = false;
  if (settled_.empty()) {
    attendance_ = Attendance();
    forget_joined();
    for (auto& [id, connection] : connections_) connection.deadline = EventLoop::kNever;  // as long as the others wait
    return;
  }
  const int gone = *settled_.begin();
  fail_all(make_error(ErrorCode::rank_died, fmt::format("rank {} left before all ranks had joined", gone), gone));
}

void StoreLoop::admit(Id id, StoreConnection& connection, JoinRequest request) {
  connection.rank = request.rank;
  connection.phase = Phase::waiting;
  connection.deadline = EventLoop::kNever;
  (void)watch_silence(connection.socket.get(), settings().heartbeat_timeout);  // it waits, and has room
  if (failure_) return answer(connection, failure_);
  if (request.rank == kNewcomer || connection.newcomer) return admit_newcomer(id, connection, std::move(request));
  const double patience = request.patience;
  const double patience_was = request.patience_was;
  const Attendance::Reply said = attendance_.add(std::move(request), connection.peer.to_string());
  if (said.admission == Attendance::Admission::duplicate) {
    log::warn("{}", said.why);
    const auto refusal = encode_failure(make_error(ErrorCode::refused, said.why, connection.rank));
    connection.rank = -1;
    return answer(connection, std::make_shared<const Blob>(refusal));
  }
  if (said.admission == Attendance::Admission::mismatch)
    return fail_all(make_error(ErrorCode::refused, said.why, connection.rank));
  tell_joined(connection.rank);
  if (attendance_.joined() == 1) {
    if (std::string why = lack_of_descriptors(attendance_.size()); !why.empty())
      return fail_all(make_error(ErrorCode::system, std::move(why), 0));
    late_warning_ = loop_.now() + settings().late_warning;
    for (auto& [key, other] : connections_)
      if (other.newcomer && other.phase == Phase::waiting) {
        tell_size(other);
        watch(other);
      }
  }
  if (loop_.now() + patience < patience_) {
    patience_ = loop_.now() + patience;
    patience_was_ = patience_was;
  }
  if (attendance_.complete()) complete();
}

void StoreLoop::forget_joined() {
  const std::lock_guard lock(progress_->mutex);
  progress_->joined.clear();
}

void StoreLoop::tell_joined(int rank) {
  const std::lock_guard lock(progress_->mutex);
  progress_->joined.push_back(rank);
  if (progress_->on_joined) progress_->on_joined(rank);
}

// How long it waits is its own affair: it hangs up when it has had enough.
void StoreLoop::admit_newcomer(Id id, StoreConnection& connection, JoinRequest request) {
  const bool asks = !connection.newcomer;
  connection.newcomer = true;
  if (asks)
    attendance_.add_newcomer(id);
  else
    attendance_.introduce(id, std::move(request.blob));
  if (asks && attendance_.joined() > 0) tell_size(connection);
  if (attendance_.complete()) complete();
}

void StoreLoop::tell_size(StoreConnection& connection) {
  answer(connection, std::make_shared<const Blob>(encode_size(attendance_.size())));
  set_deadline(connection, kRequestSeconds);
  connection.tells_size = true;
}

void StoreLoop::answer(StoreConnection& connection, std::shared_ptr<const Blob> with) {
  if (with == failure_ && connection.rank >= 0) settled_.insert(connection.rank);
  connection.answer = std::move(with);
  connection.sent = 0;
  connection.tells_size = false;
  connection.phase = Phase::answering;
  set_deadline(connection, kAnswerSeconds);
  // A process that waits for a core reads its answer late. Its receive window is then closed, and the kernel here would
  // take that for silence.
  (void)watch_silence(connection.socket.get(), kAnswerSeconds);
}

void StoreLoop::set_deadline(StoreConnection& connection, double seconds) {
  connection.deadline = loop_.now() + seconds;
  next_expiry_ = std::min(next_expiry_, connection.deadline);
}

void StoreLoop::flush(Id id, StoreConnection& connection) {
  const auto rest = std::span(*connection.answer).subspan(connection.sent);
  const auto sent = send_some(connection.socket.get(), rest);
  if (!sent) return hung_up(id);
  connection.sent += *sent;
  if (connection.sent == connection.answer->size())
    connection.phase = connection.tells_size ? Phase::introducing : Phase::answered;
  watch(connection);
}

void StoreLoop::complete() {
  complete_ = true;
  patience_ = late_warning_ = EventLoop::kNever;
  connector_.stop_listening();  // those who have not asked lose nothing: all who belong here are in
  const std::vector<Blob> blobs = attendance_.blobs();
  const auto gathered = std::make_shared<const Blob>(encode_gathered({kNewcomer, blobs}));
  answer_newcomers(blobs);
  for (auto& [id, connection] : connections_)
    if (connection.phase == Phase::waiting) answer(connection, gathered);
  for (auto& [id, connection] : connections_)
    if (connection.phase == Phase::answering) watch(connection);
}

void StoreLoop::answer_newcomers(const std::vector<Blob>& blobs) {
  int rank = attendance_.ranks();
  for (const Id id : attendance_.admitted())
    answer(connections_.at(id), std::make_shared<const Blob>(encode_gathered({rank++, blobs})));
  const std::string why = "all places are taken: no newcomer is wanted any more";
  const auto refusal = std::make_shared<const Blob>(encode_failure(make_error(ErrorCode::refused, why)));
  for (auto& [id, connection] : connections_)
    if (connection.newcomer && connection.undecided()) answer(connection, refusal);
}

void StoreLoop::fail_all(Error error) {
  log::error("the ranks cannot join: {}", error.message);
  failure_ = std::make_shared<const Blob>(encode_failure(error));
  patience_ = late_warning_ = EventLoop::kNever;
  for (auto& [id, connection] : connections_)
    if (connection.undecided()) {
      answer(connection, failure_);
      watch(connection);
    } else {
      set_deadline(connection, kAnswerSeconds);
    }
}

void StoreLoop::hung_up(Id id) {
  const StoreConnection& connection = connections_.at(id);
  const bool is_rank = connection.rank >= 0 && !connection.newcomer;
  const bool too_early = is_rank && (connection.phase == Phase::waiting || (!complete_ && !failure_));
  const int rank = connection.rank;
  const std::string peer = connection.peer.to_string();
  erase(id);
  if (is_rank) settled_.insert(rank);
  if (!too_early) return;
  fail_all(
      make_error(ErrorCode::rank_died, fmt::format("rank {} ({}) left before all ranks had joined", rank, peer), rank));
}

void StoreLoop::drop(Id id, const std::string& why) {
  log::warn("dropped a connection to the store: {}", why);
  hung_up(id);
}

void StoreLoop::erase(Id id) {
  const auto found = connections_.find(id);
  loop_.unwatch(found->second.watch);
  if (found->second.newcomer) attendance_.remove_newcomer(id);
  connections_.erase(found);
}

void StoreLoop::watch(const StoreConnection& connection) {
  loop_.change(connection.watch, EPOLLIN | (connection.phase == Phase::answering ? std::uint32_t{EPOLLOUT} : 0u));
}

double StoreLoop::expire() {
  const double now = loop_.now();
  if (late_warning_ <= now) {
    late_warning_ = EventLoop::kNever;
    log::warn("{} not joined yet", attendance_.absent());
  }
  if (patience_ <= now && attendance_.suffices())
    complete();
  else if (patience_ <= now)
    fail_all(make_error(ErrorCode::timed_out,
                        fmt::format("{} not joined within {}", attendance_.absent(), name_seconds(patience_was_))));
  if (next_expiry_ <= now) {
    next_expiry_ = EventLoop::kNever;
    for (auto entry = connections_.begin(); entry != connections_.end();) {
      const Id id = entry->first;
      const StoreConnection& connection = (entry++)->second;
      next_expiry_ = std::min(next_expiry_, connection.deadline > now ? connection.deadline : EventLoop::kNever);
      if (connection.deadline > now) continue;
      const char* why = connection.phase == Phase::introducing ? "has not asked to join" : "has not taken its answer";
      drop(id, fmt::format("{} {} in time", connection.peer.to_string(), why));
    }
  }
  return std::min({connector_.tick(), next_expiry_, patience_, late_warning_});
}

void StoreLoop::publish() {
  const bool decided = complete_ || failure_;
  const bool answered = decided && std::none_of(connections_.begin(), connections_.end(),
                                                [](const auto& entry) { return entry.second.phase >= Phase::waiting; });
  const std::lock_guard lock(progress_->mutex);
  progress_->newcomers = attendance_.newcomers();
  if (progress_->answered == answered) return;
  progress_->answered = answered;
  progress_->changed.notify_all();
}

}  // namespace tutti
