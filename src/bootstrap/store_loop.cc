#include "bootstrap/store_loop.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "base/log.hpp"
#include "base/settings.hpp"

namespace tutti {
namespace {

constexpr std::uint64_t kDoorbell = 0;  // epoll keys: the doorbell, the listeners, then connections
constexpr int kAcceptsPerTurn = 64;     // so that a flood of newcomers does not starve those who are in

double seconds_now() { return microseconds_since(0) * 1e-6; }

Error make_error(ErrorCode code, std::string message, int peer = -1) {
  Error error;
  error.code = code;
  error.message = std::move(message);
  error.peer = peer;
  return error;
}

}  // namespace

std::size_t StoreLoop::stranger_limit() {
  constexpr std::size_t kLeast = 16, kMost = 2048;
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return kLeast;
  return static_cast<std::size_t>(std::clamp<rlim_t>(descriptors.rlim_cur / 4, kLeast, kMost));
}

StoreLoop::StoreLoop(std::vector<Fd> listeners, const JobKey& key, int doorbell,
                     std::shared_ptr<StoreProgress> progress)
    : listeners_(std::move(listeners)),
      key_(key),
      doorbell_(doorbell),
      progress_(std::move(progress)),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      next_id_(listeners_.size() + 1) {}

StoreLoop::~StoreLoop() {
  const std::lock_guard lock(progress_->mutex);
  progress_->over = true;
  progress_->changed.notify_all();
}

Result<std::unique_ptr<StoreLoop>> StoreLoop::make(std::vector<Fd> listeners, const JobKey& key, int doorbell,
                                                   std::shared_ptr<StoreProgress> progress) {
  std::unique_ptr<StoreLoop> loop(new StoreLoop(std::move(listeners), key, doorbell, std::move(progress)));
  if (auto watched = loop->watch_listeners(); !watched) return tl::unexpected(watched.error());
  return loop;
}

Status StoreLoop::watch_listeners() {
  if (!epoll_) return system_error("opening the store's event loop");
  const auto add = [&](int descriptor, std::uint64_t key) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = key;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
  };
  bool added = add(doorbell_, kDoorbell);
  for (std::size_t i = 0; i < listeners_.size(); ++i) added = added && add(listeners_[i].get(), i + 1);
  if (!added) return system_error("watching the store's listeners");
  return {};
}

void StoreLoop::run() {
  std::array<epoll_event, 256> events;
  while (!stopped_ && !over()) {
    const int count =
        ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), milliseconds_to_wait());
    if (count < 0 && errno != EINTR) {
      log::error("the store stops: epoll_wait: errno {}", errno);
      return;
    }
    for (int i = 0; i < count; ++i) handle(events[i].data.u64);
    expire();
    publish();
  }
}

bool StoreLoop::over() const {
  if (!connections_.empty()) return false;
  return complete_ || (failure_ && attendance_.ranks() > 0 && static_cast<int>(told_.size()) >= attendance_.ranks());
}

int StoreLoop::milliseconds_to_wait() const {
  const Deadline of_connections = Deadline::earlier(next_expiry_, next_log_line_);
  return Deadline::earlier(Deadline::earlier(of_connections, patience_), late_warning_).poll_milliseconds(60000);
}

void StoreLoop::handle(Id id) {
  if (id == kDoorbell)
    stopped_ = true;
  else if (id > listeners_.size() || complete_)
    serve(id);
  else
    accept_all(listeners_[id - 1].get());
}

// With as many strangers as there may be, newcomers wait in the listener's queue for a moment: when many ranks start at
// once, each needs a little time to prove itself, and one that is dropped would take its secret for wrong.
bool StoreLoop::make_room() {
  if (strangers_ < stranger_limit_) return true;
  const auto oldest = oldest_stranger();
  if (oldest == connections_.end()) return true;
  if (kStrangerSeconds - oldest->second.deadline.seconds_left() < kFairSeconds) return false;
  return drop_oldest_stranger("too many connections that have not asked to join");
}

void StoreLoop::accept_all(int listener) {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    if (!make_room()) return std::this_thread::sleep_for(std::chrono::milliseconds(1));
    auto accepted = accept_one(listener);
    if (!accepted) {
      // Out of descriptors. The connection stays queued; make room, or wait a moment rather than spin on it.
      if (!drop_oldest_stranger(accepted.error().message)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return;
    }
    if (!*accepted) return;
    welcome(std::move(**accepted));
  }
}

void StoreLoop::welcome(Accepted accepted) {
  const Id id = next_id_++;
  Handshake handshake(Side::acceptor, Purpose::bootstrap, key_, accepted.peer);
  Connection connection{.socket = std::move(accepted.connection),
                        .peer = accepted.peer,
                        .handshake = handshake,
                        .deadline = Deadline::in(kStrangerSeconds),
                        .incoming = {},
                        .answer = {}};
  next_expiry_ = Deadline::earlier(next_expiry_, connection.deadline);
  connections_.emplace(id, std::move(connection));
  ++strangers_;
  serve(id);
}

std::map<StoreLoop::Id, StoreLoop::Connection>::iterator StoreLoop::oldest_stranger() {
  return std::find_if(connections_.begin(), connections_.end(), [](const auto& entry) {
    return entry.second.phase == Phase::handshake || entry.second.phase == Phase::request;
  });
}

bool StoreLoop::drop_oldest_stranger(const std::string& why) {
  const auto oldest = oldest_stranger();
  if (oldest == connections_.end()) return false;
  drop(oldest->first, oldest->second.peer.to_string() + ": " + why);
  return true;
}

void StoreLoop::serve(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.phase == Phase::handshake) {
    const auto proven = connection.handshake.advance(connection.socket.get());
    if (!proven) return drop(id, proven.error().message);
    if (*proven) connection.phase = Phase::request;
  }
  if (connection.phase == Phase::request || connection.phase == Phase::introducing) {
    auto request = read_request(connection);
    if (!request) return drop(id, request.error().message);
    if (*request) admit(id, connection, std::move(**request));
  } else if (connection.phase != Phase::handshake) {
    std::byte unexpected;
    const auto received = recv_some(connection.socket.get(), std::span(&unexpected, 1));
    // A newcomer that introduces itself when all is decided is to hear how.
    if (!received || (*received != 0 && !connection.newcomer)) return left(id);
  }
  if (connection.phase == Phase::answering) return flush(id, connection);
  watch(id, connection);
}

Result<std::optional<JoinRequest>> StoreLoop::read_request(Connection& connection) {
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
  return std::optional(std::move(*request));
}

void StoreLoop::admit(Id id, Connection& connection, JoinRequest request) {
  if (connection.phase == Phase::request) --strangers_;
  connection.rank = request.rank;
  connection.phase = Phase::waiting;
  connection.deadline = Deadline::never();
  if (failure_) return answer(connection, failure_);
  // A host that loses power sends no farewell.
  (void)watch_silence(connection.socket.get(), settings().heartbeat_timeout);
  if (request.rank == kNewcomer || connection.newcomer) return admit_newcomer(id, connection, std::move(request));
  const double patience = request.patience;
  const double patience_was = request.patience_was;
  const Attendance::Answer said = attendance_.add(std::move(request), connection.peer.to_string());
  if (said.admission == Attendance::Admission::duplicate) {
    log::warn("{}", said.why);
    const auto refusal = encode_failure(make_error(ErrorCode::refused, said.why, connection.rank));
    connection.rank = -1;
    return answer(connection, std::make_shared<const Blob>(refusal));
  }
  if (said.admission == Attendance::Admission::mismatch)
    return fail_all(make_error(ErrorCode::refused, said.why, connection.rank));
  if (attendance_.joined() == 1) {
    late_warning_ = Deadline::in(settings().late_warning);
    for (auto& [key, other] : connections_)
      if (other.newcomer && other.phase == Phase::waiting) {
        tell_size(other);
        watch(key, other);
      }
  }
  if (patience < patience_.seconds_left()) {
    patience_ = Deadline::in(patience);
    patience_was_ = patience_was;
  }
  if (attendance_.complete()) complete();
}

// How long it waits is its own affair: it hangs up when it has had enough.
void StoreLoop::admit_newcomer(Id id, Connection& connection, JoinRequest request) {
  const bool asks = !connection.newcomer;
  connection.newcomer = true;
  connection.received = 0;
  if (asks)
    attendance_.add_newcomer(id);
  else
    attendance_.introduce(id, std::move(request.blob));
  if (asks && attendance_.joined() > 0) tell_size(connection);
  if (attendance_.complete()) complete();
}

void StoreLoop::tell_size(Connection& connection) {
  answer(connection, std::make_shared<const Blob>(encode_size(attendance_.size())));
  connection.deadline = Deadline::in(kStrangerSeconds);
  connection.tells_size = true;
}

void StoreLoop::answer(Connection& connection, std::shared_ptr<const Blob> with) {
  if (with == failure_ && connection.rank >= 0) told_.insert(connection.rank);
  connection.answer = std::move(with);
  connection.sent = 0;
  connection.tells_size = false;
  connection.phase = Phase::answering;
  connection.deadline = Deadline::in(kAnswerSeconds);
  next_expiry_ = Deadline::earlier(next_expiry_, connection.deadline);
}

void StoreLoop::flush(Id id, Connection& connection) {
  const auto rest = std::span(*connection.answer).subspan(connection.sent);
  const auto sent = send_some(connection.socket.get(), rest);
  if (!sent) return left(id);
  connection.sent += *sent;
  if (connection.sent == connection.answer->size())
    connection.phase = connection.tells_size ? Phase::introducing : Phase::answered;
  watch(id, connection);
}

void StoreLoop::complete() {
  complete_ = true;
  patience_ = late_warning_ = Deadline::never();
  for (const Fd& listener : listeners_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener.get(), nullptr);
  for (Fd& listener : listeners_) listener.reset();
  const std::vector<Blob> blobs = attendance_.blobs();
  const auto gathered = std::make_shared<const Blob>(encode_gathered({kNewcomer, blobs}));
  answer_newcomers(blobs);
  for (auto& [id, connection] : connections_)
    if (connection.phase == Phase::waiting) answer(connection, gathered);
  for (auto& [id, connection] : connections_)
    if (connection.phase == Phase::answering) watch(id, connection);
  // Strangers lose nothing: all who belong here are in.
  std::erase_if(connections_, [](const auto& entry) {
    return entry.second.phase == Phase::handshake || entry.second.phase == Phase::request;
  });
  strangers_ = 0;
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
  patience_ = late_warning_ = Deadline::never();
  for (auto& [id, connection] : connections_)
    if (connection.undecided()) {
      answer(connection, failure_);
      watch(id, connection);
    }
}

void StoreLoop::left(Id id) {
  const Connection& connection = connections_.at(id);
  const bool too_early = connection.phase == Phase::waiting && !connection.newcomer;
  const int rank = connection.rank;
  const std::string peer = connection.peer.to_string();
  erase(id);
  if (!too_early) return;
  told_.insert(rank);
  fail_all(
      make_error(ErrorCode::rank_died, fmt::format("rank {} ({}) left before all ranks had joined", rank, peer), rank));
}

void StoreLoop::drop(Id id, const std::string& why) {
  log_.warn(fmt::format("dropped a connection to the store: {}", why), seconds_now());
  erase(id);
}

void StoreLoop::erase(Id id) {
  const auto found = connections_.find(id);
  if (found->second.phase == Phase::handshake || found->second.phase == Phase::request) --strangers_;
  if (found->second.newcomer) attendance_.remove_newcomer(id);
  connections_.erase(found);
}

void StoreLoop::watch(Id id, Connection& connection) {
  std::uint32_t wanted = EPOLLIN;
  if (connection.phase == Phase::handshake && (connection.handshake.events() & POLLOUT) != 0) wanted |= EPOLLOUT;
  if (connection.phase == Phase::answering) wanted |= EPOLLOUT;
  if (wanted == connection.watched) return;
  epoll_event event{};
  event.events = wanted;
  event.data.u64 = id;
  const int operation = connection.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  if (::epoll_ctl(epoll_.get(), operation, connection.socket.get(), &event) != 0)
    log::error("the store cannot watch {}: errno {}", connection.peer.to_string(), errno);
  connection.watched = wanted;
}

void StoreLoop::expire() {
  const double now = seconds_now();
  const double next = log_.catch_up(now);
  next_log_line_ = next == RateLimitedLog::kNothingKept ? Deadline::never() : Deadline::in(next - now);
  if (late_warning_.passed()) {
    late_warning_ = Deadline::never();
    log::warn("{} not joined yet", attendance_.absent());
  }
  if (patience_.passed() && attendance_.suffices())
    complete();
  else if (patience_.passed())
    fail_all(make_error(ErrorCode::timed_out,
                        fmt::format("{} not joined within {}", attendance_.absent(), name_seconds(patience_was_))));
  if (!next_expiry_.passed()) return;
  next_expiry_ = Deadline::never();
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    const Id id = entry->first;
    const Connection& connection = (entry++)->second;
    if (!connection.deadline.passed()) {
      next_expiry_ = Deadline::earlier(next_expiry_, connection.deadline);
    } else if (connection.phase == Phase::handshake) {
      drop(id, connection.handshake.late().message);
    } else {
      const char* why = connection.phase <= Phase::introducing ? "has not asked to join" : "has not taken its answer";
      drop(id, fmt::format("{} {} in time", connection.peer.to_string(), why));
    }
  }
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
