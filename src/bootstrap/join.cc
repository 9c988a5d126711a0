#include "bootstrap/join.hpp"

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>

#include "base/backoff.hpp"
#include "bootstrap/attendance.hpp"
#include "net/handshake.hpp"
#include "net/interfaces.hpp"

namespace tutti {
namespace {

constexpr double kNeverSeconds = 1e8;    // stands for "no limit" on the wire
constexpr double kAnswerGrace = 1.0;     // the store speaks at our deadline; leave it time to be heard
constexpr double kRefusalSeconds = 1.0;  // a refusal this old is final: no earlier join still closes its store
constexpr double kHandshakeSeconds = 5.0;
constexpr int kSecretRefusals = 5;               // by the store of this job, after which the secret is wrong
constexpr double kInterruptCheckSeconds = 0.02;  // between checks of whether the wait was interrupted

tl::unexpected<Error> too_long(const Blob& blob) {
  return fail(ErrorCode::invalid_argument,
              fmt::format("a blob of {} bytes: at most {} may be exchanged", blob.size(), kMaxBlobBytes));
}

Status check(const JoinInfo& info) {
  const bool numbered = info.rank != kNewcomer;
  if (numbered && (info.size < 1 || info.size > kMaxRanks))
    return fail(ErrorCode::invalid_argument, fmt::format("{} ranks: expected 1 to {}", info.size, kMaxRanks));
  if (numbered && (info.rank < 0 || info.rank >= info.size))
    return fail(ErrorCode::invalid_argument, fmt::format("rank {}: expected 0 to {}", info.rank, info.size - 1));
  if (info.blob.size() > kMaxBlobBytes) return too_long(info.blob);
  if (info.endpoints.empty()) return fail(ErrorCode::invalid_argument, "no address to join at");
  return {};
}

// One rank's way into the store.
class Joiner {
 public:
  Joiner(const JoinInfo& info, const JobKey& key)
      : info_(info), key_(key), given_(std::min(info.deadline.seconds_left(), kNeverSeconds)) {
    for (const HostPort& endpoint : info.endpoints) searching_ |= endpoint.port != info.endpoints.front().port;
  }

  Result<Gathered> run() {
    auto store = reach();
    if (!store) return tl::unexpected(store.error());
    return ask(store->get());
  }

 private:
  // Connects and passes the handshake.
  Result<Fd> reach() {
    Backoff backoff(0.002, 0.1);
    for (double patience = 1;; patience = std::min(patience * 2, 8.0)) {
      for (const HostPort& endpoint : info_.endpoints) {
        auto store = try_endpoint(endpoint, patience);
        if (store || is_final(store.error())) return store;
        last_ = store.error();
        if (info_.deadline.passed()) return unreachable();
      }
      if (Status going_on = interrupted(); !going_on) return tl::unexpected(going_on.error());
      std::this_thread::sleep_for(
          std::chrono::duration<double>(std::min(backoff.next(), info_.deadline.seconds_left())));
    }
  }

  Result<Fd> try_endpoint(const HostPort& endpoint, double patience) {
    auto addresses = info_.sockets->resolve(endpoint.host, endpoint.port, info_.deadline);
    if (!addresses) return tl::unexpected(addresses.error());
    Result<Fd> store = fail(ErrorCode::system, fmt::format("'{}' has no address", endpoint.host));
    for (const SocketAddress& address : *addresses) {
      store = try_address(address, patience);
      if (store || is_final(store.error())) return store;
    }
    return store;
  }

  Result<Fd> try_address(const SocketAddress& address, double patience) {
    if (auto allowed = key_.allows(address); !allowed) return not_allowed(allowed.error());
    auto store = connect(address, Deadline::earlier(info_.deadline, Deadline::in(patience)));
    if (!store) return store;
    Handshake handshake(Side::connector, Purpose::bootstrap, key_, address);
    const Deadline deadline = Deadline::earlier(info_.deadline, Deadline::in(kHandshakeSeconds));
    while (true) {
      auto done = handshake.advance(store->get());
      if (!done && handshake.greeted()) refused_once_ = true;
      if (!done && handshake.awaits_verdict()) ++secret_refusals_;
      if (!done) return tl::unexpected(done.error());
      if (*done) return store;
      if (Status ready = await(store->get(), handshake.events(), deadline); !ready)
        return tl::unexpected(ready.error().code == ErrorCode::timed_out ? handshake.late() : ready.error());
    }
  }

  Result<Fd> connect(const SocketAddress& address, Deadline deadline) const {
    auto store = info_.sockets->connect(address, nullptr);
    if (!store) return store;
    const std::string what = fmt::format("connecting to {}", address.to_string());
    if (Status ready = await(store->get(), POLLOUT, deadline); !ready) {
      if (ready.error().code == ErrorCode::timed_out) ready.error().message = what + ": no answer";
      return tl::unexpected(ready.error());
    }
    if (const int error = info_.sockets->connect_result(store->get()); error != 0)
      return fail(ErrorCode::system, fmt::format("{}: {}", what, std::strerror(error)));
    return store;
  }

  Result<Fd> not_allowed(Error error) {
    forbidden_ = true;
    return tl::unexpected(std::move(error));
  }

  // Whether trying again could not help. One who greets and then refuses is a store of another job, or an earlier join
  // of ours that is about to close. The store of this job refuses only a wrong secret; but a connection may end for
  // another reason at that moment (the store makes room when strangers are too many), so it is asked a few times.
  bool is_final(const Error& error) {
    if (!interrupted()) return true;
    if (forbidden_ || secret_refusals_ >= kSecretRefusals) return true;
    if (error.code != ErrorCode::refused || !refused_once_ || searching_) return false;
    if (first_refusal_.is_never()) first_refusal_ = Deadline::in(kRefusalSeconds);
    return first_refusal_.passed();
  }

  tl::unexpected<Error> unreachable() const {
    return fail(ErrorCode::timed_out,
                fmt::format("rank 0's store was not reached within {}: {}", name_seconds(given_), last_.message));
  }

  Status interrupted() const { return info_.interrupted ? info_.interrupted() : Status(); }

  // Until the store is ready for one of the events. timed_out at the deadline; otherwise why it was interrupted.
  Status await(int store, short events, Deadline deadline) const {
    while (info_.interrupted && !deadline.passed()) {
      if (Status going_on = info_.interrupted(); !going_on) return going_on;
      if (wait_for(store, events, Deadline::earlier(deadline, Deadline::in(kInterruptCheckSeconds)))) return {};
    }
    return wait_for(store, events, deadline);
  }

  Result<Gathered> ask(int store) {
    (void)watch_silence(store, settings().heartbeat_timeout);
    JoinRequest request;
    request.rank = info_.rank;
    request.size = info_.size;
    request.newcomers = info_.newcomers;
    request.at_least = info_.at_least;
    request.patience = std::min(info_.deadline.seconds_left(), kNeverSeconds);
    request.patience_was = given_;
    request.settings = info_.settings;
    request.blob = info_.blob;
    if (info_.rank == kNewcomer)
      if (Status introduced = introduce(store, request); !introduced) return tl::unexpected(introduced.error());
    while (true) {
      const auto answer = exchange(store, request);
      if (!answer) return tl::unexpected(answer.error());
      auto gathered = check_answer(decode_answer(*answer));
      if (!gathered || !info_.again) return gathered;
      auto blob = info_.again(gathered->blobs);
      if (!blob) return tl::unexpected(blob.error());
      if (!*blob) return gathered;
      if ((*blob)->size() > kMaxBlobBytes) return too_long(**blob);
      request.blob = std::move(**blob);
      request.patience = std::min(info_.deadline.seconds_left(), kNeverSeconds);
    }
  }

  // Asks for the size, and makes the blob that depends on it.
  Status introduce(int store, JoinRequest& request) const {
    request.size = 0;
    const auto answer = exchange(store, request);
    if (!answer) return tl::unexpected(answer.error());
    const auto size = decode_size(*answer);
    if (!size) return tl::unexpected(size.error());
    request.size = *size;
    auto blob = info_.introduce(*size);
    if (!blob) return tl::unexpected(blob.error());
    request.blob = std::move(*blob);
    return {};
  }

  Result<Blob> exchange(int store, const JoinRequest& request) const {
    const Deadline deadline = Deadline::in(info_.deadline.seconds_left() + kAnswerGrace);
    if (auto sent = send_all(store, encode_request(request), deadline); !sent) return lost(store, sent.error());
    if (Status ready = await(store, POLLIN, deadline); !ready)
      return ready.error().code == ErrorCode::timed_out ? lost(store, ready.error()) : tl::unexpected(ready.error());
    std::array<std::byte, kLengthBytes> header;
    if (auto received = recv_all(store, header, deadline); !received) return lost(store, received.error());
    const std::size_t limit = 4096 + static_cast<std::size_t>(request.size) * (kMaxBlobBytes + 4);
    const std::size_t length = frame_length(header);
    if (length > limit) return fail(ErrorCode::refused, fmt::format("the store answers with {} bytes", length));
    Blob answer(length);
    if (auto received = recv_all(store, answer, deadline); !received) return lost(store, received.error());
    return answer;
  }

  Result<Gathered> check_answer(Result<Gathered> answer) const {
    if (!answer) return answer;
    const auto count = static_cast<int>(answer->blobs.size());
    const int least = info_.size - info_.newcomers + info_.at_least;
    const bool fits = info_.rank == kNewcomer ? answer->rank > 0 && answer->rank < count
                                              : answer->rank == kNewcomer && count >= least && count <= info_.size;
    if (!fits) return fail(ErrorCode::refused, fmt::format("the store answers for {} ranks", count));
    if (info_.rank != kNewcomer) answer->rank = info_.rank;
    return answer;
  }

  tl::unexpected<Error> lost(int store, const Error& error) const {
    if (error.code == ErrorCode::timed_out && info_.rank == kNewcomer)
      return fail(ErrorCode::timed_out, fmt::format("not admitted within {} by the ranks that meet at {}",
                                                    name_seconds(given_), peer_name(store)));
    if (error.code == ErrorCode::timed_out)
      return fail(ErrorCode::timed_out, fmt::format("rank 0's store ({}) fell silent", peer_name(store)));
    auto failure = fail(ErrorCode::rank_died,
                        fmt::format("rank 0's store went away before all ranks had joined: {}", error.message));
    failure.value().peer = 0;
    return failure;
  }

  const JoinInfo& info_;
  const JobKey& key_;
  double given_;
  bool searching_ = false;     // the port is not known for sure
  bool forbidden_ = false;     // no secret, and not loopback
  bool refused_once_ = false;  // by one who speaks our protocol
  int secret_refusals_ = 0;    // by a store of this job
  Deadline first_refusal_;
  Error last_;
};

struct Hosted {
  std::shared_ptr<Store> store;
  HostPort endpoint;  // for this process
};

// Refused where no rank, by any of the addresses, could ever be let in.
Status check_allowed(const HostPort& endpoint, const JobKey& key, const JoinInfo& info) {
  const auto addresses = info.sockets->resolve(endpoint.host, endpoint.port, info.deadline);
  Status allowed;
  if (!addresses) return allowed;
  for (const SocketAddress& address : *addresses) {
    allowed = key.allows(address);
    if (allowed) break;
  }
  return allowed;
}

bool is_own(const SocketAddress& address, Sockets& sockets) {
  const auto all = sockets.interfaces();
  if (!all) return false;
  for (const Interface& interface : *all)
    for (const SocketAddress& own : interface.addresses)
      if (own.with_port(address.port()) == address) return true;
  return false;
}

using Listeners = std::vector<Sockets::Listening>;

// Listens on all of them at one port. Those the host does not have (IPv6 switched off) are left out, but not the first.
Result<Listeners> listen_on_all(const std::vector<SocketAddress>& addresses, Sockets& sockets) {
  Listeners listeners;
  std::uint16_t port = addresses.front().port();
  for (const SocketAddress& address : addresses) {
    auto opened = sockets.listen(address.with_port(port));
    if (!opened && listeners.empty()) return tl::unexpected(opened.error());
    if (!opened) continue;
    port = opened->address.port();
    listeners.push_back(std::move(*opened));
  }
  return listeners;
}

// Opens the listeners of a store. A loopback address or "localhost" is served on loopback only; an address of this host
// there alone; a name (which other hosts may resolve differently) on all addresses.
Result<Listeners> listen_at(const HostPort& where, const JoinInfo& info) {
  Sockets& sockets = *info.sockets;
  const auto both = [&](auto make) {
    return listen_on_all({make(AF_INET, where.port), make(AF_INET6, where.port)}, sockets);
  };
  if (where.host == "localhost") return both(&SocketAddress::loopback);
  auto addresses = sockets.resolve(where.host, where.port, info.deadline);
  const bool numeric = addresses && addresses->size() == 1 && addresses->front().host() == where.host;
  // An address that is not this host's own may still lead here, through translation: then listen on all.
  if (numeric && (addresses->front().is_loopback() || is_own(addresses->front(), sockets)))
    return listen_on_all(*addresses, sockets);
  return both(&SocketAddress::any);
}

Result<Hosted> host_store(const JoinInfo& info, const JobKey& key) {
  Error last;
  for (const HostPort& endpoint : info.endpoints) {
    if (auto allowed = check_allowed(endpoint, key, info); !allowed) return tl::unexpected(allowed.error());
    auto opened = listen_at(endpoint, info);
    if (!opened) {
      last = opened.error();
      continue;
    }
    SocketAddress local = opened->front().address;
    if (local.is_any()) local = SocketAddress::loopback(local.family(), local.port());
    std::vector<Fd> listeners;
    for (Sockets::Listening& each : *opened) listeners.push_back(std::move(each.socket));
    auto store = Store::start(std::move(listeners), key, *info.sockets);
    if (!store) return tl::unexpected(store.error());
    return Hosted{std::move(*store), {local.host(), local.port()}};
  }
  last.message = "rank 0 cannot serve the store: " + last.message;
  return tl::unexpected(last);
}

tl::unexpected<Error> blamed_on(int rank, Error error) {
  error.rank = rank;
  return tl::unexpected(std::move(error));
}

}  // namespace

Result<std::vector<Blob>> join(const JoinInfo& info) {
  Result<Gathered> gathered = attend(info);
  if (!gathered) return tl::unexpected(gathered.error());
  return std::move(gathered->blobs);
}

Result<Gathered> attend(const JoinInfo& info) {
  if (auto checked = check(info); !checked) return blamed_on(info.rank, checked.error());
  const JobKey key(info.secret, info.job);
  JoinInfo own = info;
  if (info.rank == 0 && info.rank_zero_hosts) {
    auto hosted = host_store(info, key);
    if (!hosted) return blamed_on(info.rank, hosted.error());
    own.local_store = std::move(hosted->store);
    own.endpoints = {hosted->endpoint};
  }
  const bool observed = own.local_store && info.on_joined;
  if (observed) own.local_store->on_joined(info.on_joined);
  auto gathered = Joiner(own, key).run();
  if (observed) own.local_store->on_joined({});
  // The process may end once we return; the others' answers must not end with it.
  if (own.local_store)
    own.local_store->wait_answered(Deadline::in(gathered ? std::max(1.0, info.deadline.seconds_left()) : 1.0));
  if (!gathered) return blamed_on(info.rank, gathered.error());
  return gathered;
}

}  // namespace tutti
