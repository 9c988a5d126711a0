// A connection on its way: it connects, both ends prove the job's secret, and they exchange greetings. The end that
// dialed greets first, the other one replies; both are bytes without a meaning here, preceded by their length.
//
//   dialed:    connecting -> proving -> sending -> receiving -> done
//   passed on: connecting -> proving -> sending -> done                      the reply is for another process
//   accepted:                proving -> receiving -> greeted -> sending -> done
//
// Passive: its owner watches descriptor() for events() and calls advance(). Reads nothing beyond a greeting or a reply:
// what follows stays in the socket. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.hpp"
#include "base/wire.hpp"
#include "net/handshake.hpp"
#include "net/route.hpp"
#include "net/sockets.hpp"
#include "tutti/error.hpp"

namespace tutti {

/// Why a connection was not made, for whoever decides what to try next.
enum class ConnectFailure : std::uint8_t {
  no_answer,       // the host does not answer
  nobody_listens,  // the host answers, and refuses
  ended,           // the connection ended before it was of use, or was too slow
  rejected,        // whoever answered is not of this job, or breaks the protocol
};

class PendingConnection {
 public:
  enum class Stage {
    connecting,
    proving,
    sending,    // our greeting or reply
    receiving,  // the other's
    greeted,    // accepted ones: waits for reply()
    done,       // take() it
  };

  /// `sockets` outlives the connection.
  static Result<PendingConnection> dial(Sockets& sockets, const Route& route, Purpose purpose, const JobKey& key,
                                        const Blob& greeting);
  /// Dials for another process, whose greeting it is, and leaves the rest to that one.
  static Result<PendingConnection> pass_on(Sockets& sockets, const Route& route, Purpose purpose, const JobKey& key,
                                           const Blob& greeting);
  /// Refuses greetings of more than `limit` bytes.
  static PendingConnection accept(Accepted accepted, Purpose purpose, const JobKey& key, std::size_t limit);

  int descriptor() const { return socket_.get(); }
  /// What to wait for before the next advance(): EPOLLIN, EPOLLOUT, EPOLLRDHUP.
  std::uint32_t events() const;

  /// Moves as far as the socket allows. Returns where it is now; an error is final, and failure() says of what kind.
  Result<Stage> advance();
  Stage stage() const { return stage_; }
  ConnectFailure failure() const { return failure_; }
  /// What it means that it did not get on in time.
  Error late() const;

  /// From greeted: sends `bytes` and is done; with none it is done at once.
  void reply(const Blob& bytes);
  /// What the other end said: the greeting of an accepted connection, the reply to a dialed one.
  const Blob& received() const { return input_; }

  /// Ends this object's use of the socket.
  Fd take() { return std::move(socket_); }
  /// What of our greeting has not been sent yet.
  std::span<const std::byte> unsent() const { return std::span(output_).subspan(sent_); }

  /// The other end has proven that it knows the secret.
  bool is_proven() const { return stage_ > Stage::proving; }
  /// Accepted: no byte has come. Somebody may only look whether there is a way.
  bool is_untouched() const { return stage_ == Stage::proving && !handshake_.heard(); }
  /// Where it leads to or comes from. Loopback for processes that came by a LocalListener.
  const SocketAddress& remote() const { return remote_; }
  bool is_local() const { return is_local_; }
  /// For messages.
  const std::string& name() const { return name_; }

 private:
  enum class Role : std::uint8_t { dialed, passed_on, accepted };

  PendingConnection(Fd socket, const SocketAddress& remote, std::string name, bool is_local, Role role, Purpose purpose,
                    const JobKey& key);
  static Result<PendingConnection> connect(Sockets& sockets, const Route& route, Role role, Purpose purpose,
                                           const JobKey& key, const Blob& greeting);
  // Each returns true once its stage is over.
  Result<bool> step();
  Result<bool> finish_connect();
  Result<bool> prove();
  Result<bool> send();
  Result<bool> receive();
  Result<bool> receive_into(std::size_t bytes);
  Result<bool> await_reply();
  tl::unexpected<Error> give_up(ConnectFailure failure, ErrorCode code, const std::string& why);

  Sockets* sockets_ = nullptr;  // of one that is dialed
  Fd socket_;
  SocketAddress remote_;
  std::string name_;
  bool is_local_;
  Role role_;
  Handshake handshake_;
  Stage stage_;
  ConnectFailure failure_ = ConnectFailure::ended;
  Blob output_;  // with its length
  std::size_t sent_ = 0;
  Blob input_;  // at first its length
  std::size_t received_ = 0;
  std::size_t limit_ = kReplyLimit;
  bool has_length_ = false;
  bool is_half_closed_ = false;  // greeted, and nothing more will come

  static constexpr std::size_t kReplyLimit = 4096;
};

}  // namespace tutti
