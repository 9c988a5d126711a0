// Both ends of a connection prove that they know the job's secret, before any byte is read as protocol.
//
//   connector: hello  = magic, format, purpose, role, version, nonce       (fixed size)
//   acceptor:  hello
//   connector: proof  = HMAC(key, "connector", both hellos)
//   acceptor:  proof  = HMAC(key, "acceptor", both hellos)
//
// The acceptor says nothing to a stranger who does not greet, and proves nothing to one who cannot. The purpose keeps
// bootstrap, control, data and report ports apart; both hellos are under the proofs, so neither version nor purpose can
// be altered. What follows on the connection is neither encrypted nor authenticated.
//
// The hello also says which job it is for, by a hash of its name, which is no secret. So a connector proves nothing to
// another job, and one that is turned away after its proof knows that the secrets differ. The connector proves first: a
// stranger who waits at a port could try guesses on the proof. See key_of_secret() for what a guess costs him.
//
// A Handshake is a value without a descriptor: bytes in, bytes out, so that an event loop, a test or a fuzzer can drive
// it. It never asks for more bytes than the handshake has: what follows stays in the socket. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/version.hpp"
#include "net/socket.hpp"
#include "tutti/error.hpp"

namespace tutti {

enum class Purpose : std::uint8_t { bootstrap = 1, control = 2, data = 3, report = 4 };
std::string_view name_of(Purpose purpose);

enum class Side : std::uint8_t { connector = 1, acceptor = 2 };

/// What a job's secret becomes. Without a secret the key is made of the user's own on this host, and serves loopback
/// connections only; if `insecure`, of nothing, and serves all.
class JobKey {
 public:
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kTagBytes = 8;

  JobKey() : JobKey(std::string_view()) {}
  /// `insecure` from TUTTI_INSECURE. Ranks whose `job` differs do not meet, even with the same secret.
  explicit JobKey(std::string_view secret, std::string_view job = {});
  JobKey(std::string_view secret, std::string_view job, bool insecure);

  std::span<const std::uint8_t, kBytes> bytes() const { return bytes_; }
  /// What tells jobs apart; no secret.
  std::span<const std::uint8_t, kTagBytes> job_tag() const { return job_tag_; }
  /// Made without a secret of the job.
  bool is_open() const { return open_; }
  /// Refused if there is no secret and `peer` is not loopback; the message says what to set. An error, too, if no key
  /// could be made.
  Status allows(const SocketAddress& peer) const;

 private:
  Result<std::array<std::uint8_t, kBytes>> material_of(std::string_view secret) const;

  std::array<std::uint8_t, kBytes> bytes_{};
  std::array<std::uint8_t, kTagBytes> job_tag_{};
  bool open_ = false;      // made of the empty secret
  bool insecure_ = false;  // and that is fine everywhere
  Status made_;
};

class Handshake {
 public:
  static constexpr std::size_t kHelloBytes = 64;
  static constexpr std::size_t kProofBytes = 32;

  Handshake(Side side, Purpose purpose, const JobKey& key, const SocketAddress& peer,
            Version version = library_version());

  /// Bytes to send now; tell how many went with sent().
  std::span<const std::byte> outgoing() const;
  void sent(std::size_t bytes);

  /// How many more bytes may be received now; 0 while only sending, or when over.
  std::size_t wanted() const;
  /// At most wanted() bytes, in any pieces. An error is final: close the connection, but send outgoing() first where
  /// that can be done without waiting (it tells the peer our version and purpose).
  Status receive(std::span<const std::byte> bytes);

  /// Both sides proven and nothing left to send.
  bool done() const { return state_ == State::proven && outgoing().empty(); }
  /// Any byte came.
  bool heard() const { return greeted_ || received_ != 0; }
  /// The peer has said hello: whoever it is, it speaks this protocol.
  bool greeted() const { return greeted_; }
  /// The peer serves the same job. If it closes the connection now, it most likely knows another secret.
  bool awaits_verdict() const { return side_ == Side::connector && state_ == State::proof && outgoing().empty(); }
  /// What it means that the connection ended now. `refused` only after our proof: the peer may have a different secret.
  /// It may as well have been the network: whoever knows the peer tries again.
  Error closed() const;
  /// What the peer said was judged and found wrong; false where the connection merely ended.
  bool rejected() const { return state_ == State::failed; }
  /// What it means that it did not get on in time.
  Error late() const;

  /// Moves as far as a non-blocking socket allows; true when done.
  Result<bool> advance(int descriptor);
  /// What to poll for before the next advance().
  short events() const;

 private:
  enum class State { hello, proof, proven, failed };

  Status on_hello();
  Status on_proof();
  std::array<std::uint8_t, kProofBytes> proof_of(Side side) const;
  void queue_hello();
  void queue_proof();
  tl::unexpected<Error> reject(const std::string& why);

  Side side_;
  Purpose purpose_;
  JobKey key_;
  SocketAddress peer_;
  Version version_;
  State state_ = State::hello;
  Status allowed_;
  bool greeted_ = false;
  std::array<std::uint8_t, kHelloBytes> own_hello_{};
  std::array<std::uint8_t, kHelloBytes> peer_hello_{};
  std::array<std::byte, kHelloBytes> incoming_{};
  std::size_t received_ = 0;
  std::array<std::byte, kHelloBytes + kProofBytes> out_{};
  std::size_t out_begin_ = 0;
  std::size_t out_end_ = 0;
};

/// The whole handshake on a connected, non-blocking socket.
Status authenticate(int descriptor, Side side, Purpose purpose, const JobKey& key, Deadline deadline);

}  // namespace tutti
