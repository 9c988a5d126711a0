#include "net/handshake.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "base/settings.hpp"
#include "net/secret.hpp"

namespace tutti {
namespace {

static_assert(crypto_auth_BYTES == Handshake::kProofBytes);
static_assert(crypto_auth_KEYBYTES == JobKey::kBytes);

constexpr std::array<std::uint8_t, 8> kMagic = {0x89, 'T', 'U', 'T', 'T', 'I', '\r', '\n'};
constexpr std::uint8_t kFormat = 1;

// Where things stand in a hello.
constexpr std::size_t kFormatAt = 8;
constexpr std::size_t kPurposeAt = 9;
constexpr std::size_t kSideAt = 10;
constexpr std::size_t kVersionAt = 12;
constexpr std::size_t kJobAt = 18;
constexpr std::size_t kNonceAt = 32;
constexpr std::size_t kNonceBytes = Handshake::kHelloBytes - kNonceAt;
static_assert(kJobAt + JobKey::kTagBytes <= kNonceAt);

void put_u16(std::uint8_t* at, std::uint16_t value) {
  at[0] = static_cast<std::uint8_t>(value);
  at[1] = static_cast<std::uint8_t>(value >> 8);
}
std::uint16_t get_u16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] | at[1] << 8); }

constexpr const char* kOpenHint =
    " (no TUTTI_SECRET is set, so that of the user on this host is taken: is it another user, or a container with a "
    "/dev/shm of its own? Set TUTTI_SECRET)";

Version version_in(std::span<const std::uint8_t> hello) {
  const std::uint8_t* at = hello.data() + kVersionAt;
  return {get_u16(at), get_u16(at + 2), get_u16(at + 4)};
}

Side other(Side side) { return side == Side::connector ? Side::acceptor : Side::connector; }

void prepare_library() {
  // Idempotent and thread-safe; fails only where the system has no randomness at all, and then aborts by itself later.
  static const int initialised = sodium_init();
  (void)initialised;
}

}  // namespace

std::string_view name_of(Purpose purpose) {
  switch (purpose) {
    case Purpose::bootstrap:
      return "bootstrap";
    case Purpose::control:
      return "control";
    case Purpose::report:
      return "report";
    case Purpose::data:
      return "data";
  }
  return "?";
}

JobKey::JobKey(std::string_view secret, std::string_view job) : JobKey(secret, job, settings().insecure) {}

Result<std::array<std::uint8_t, JobKey::kBytes>> JobKey::material_of(std::string_view secret) const {
  if (!open_ || insecure_) return key_of_secret(secret);
  const auto own = user_secret();
  if (!own) return tl::unexpected(own.error());
  return key_of_secret(*own);
}

JobKey::JobKey(std::string_view secret, std::string_view job, bool insecure)
    : open_(secret.empty()), insecure_(insecure) {
  prepare_library();
  const auto material = material_of(secret);
  if (!material) {
    // A key that nobody knows: it opens nothing.
    made_ = tl::unexpected(material.error());
    randombytes_buf(bytes_.data(), bytes_.size());
    return;
  }
  const auto absorb = [](crypto_generichash_state& state, std::string_view text) {
    const std::uint64_t length = text.size();
    crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(&length), sizeof length);
    crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  };
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, kBytes);
  absorb(state, "tutti job key 2");
  absorb(state, {reinterpret_cast<const char*>(material->data()), material->size()});
  absorb(state, job);
  crypto_generichash_final(&state, bytes_.data(), kBytes);
  std::array<std::uint8_t, kBytes> tag;
  crypto_generichash_init(&state, nullptr, 0, tag.size());
  absorb(state, "tutti job tag 1");
  absorb(state, job);
  crypto_generichash_final(&state, tag.data(), tag.size());
  std::copy_n(tag.begin(), kTagBytes, job_tag_.begin());
}

Status JobKey::allows(const SocketAddress& peer) const {
  if (!made_ && (!open_ || peer.is_loopback())) return made_;
  if (!open_ || insecure_ || peer.is_loopback()) return {};
  return fail(ErrorCode::refused,
              fmt::format("{} is not on this host's loopback and the job has no secret: set TUTTI_SECRET or "
                          "TUTTI_SECRET_FILE to the same secret on all ranks, or TUTTI_INSECURE=1 to do without",
                          peer.to_string()));
}

Handshake::Handshake(Side side, Purpose purpose, const JobKey& key, const SocketAddress& peer, Version version)
    : side_(side), purpose_(purpose), key_(key), peer_(peer), version_(version), allowed_(key.allows(peer)) {
  std::copy(kMagic.begin(), kMagic.end(), own_hello_.begin());
  own_hello_[kFormatAt] = kFormat;
  own_hello_[kPurposeAt] = static_cast<std::uint8_t>(purpose);
  own_hello_[kSideAt] = static_cast<std::uint8_t>(side);
  put_u16(&own_hello_[kVersionAt], version.major);
  put_u16(&own_hello_[kVersionAt + 2], version.minor);
  put_u16(&own_hello_[kVersionAt + 4], version.patch);
  std::copy(key.job_tag().begin(), key.job_tag().end(), own_hello_.begin() + kJobAt);
  randombytes_buf(&own_hello_[kNonceAt], kNonceBytes);
  if (!allowed_) {
    state_ = State::failed;
  } else if (side == Side::connector) {
    queue_hello();
  }
}

std::span<const std::byte> Handshake::outgoing() const {
  return std::span(out_).subspan(out_begin_, out_end_ - out_begin_);
}

void Handshake::sent(std::size_t bytes) {
  out_begin_ += std::min(bytes, out_end_ - out_begin_);
  if (out_begin_ == out_end_) out_begin_ = out_end_ = 0;
}

std::size_t Handshake::wanted() const {
  if (state_ == State::hello) return kHelloBytes - received_;
  if (state_ == State::proof) return kProofBytes - received_;
  return 0;
}

Status Handshake::receive(std::span<const std::byte> bytes) {
  if (!allowed_) return allowed_;
  if (bytes.empty()) return {};
  if (bytes.size() > wanted()) return fail(ErrorCode::internal, "more bytes than the handshake asked for");
  std::memcpy(incoming_.data() + received_, bytes.data(), bytes.size());
  received_ += bytes.size();
  // Garbage is turned away at its first wrong byte: nobody waits for 64 bytes that an impatient stranger never sends.
  const std::size_t magic_seen = std::min(received_, kMagic.size());
  if (state_ == State::hello && std::memcmp(incoming_.data(), kMagic.data(), magic_seen) != 0)
    return reject("does not speak tutti's protocol");
  if (wanted() != 0) return {};
  received_ = 0;
  return state_ == State::hello ? on_hello() : on_proof();
}

Status Handshake::on_hello() {
  std::memcpy(peer_hello_.data(), incoming_.data(), kHelloBytes);
  greeted_ = true;
  // Our hello goes out even to one we turn away, so that it can say why.
  if (side_ == Side::acceptor) queue_hello();
  const Version theirs = version_in(peer_hello_);
  if (peer_hello_[kFormatAt] != kFormat || !theirs.works_with(version_))
    return reject(fmt::format("runs tutti {}, we run {}", theirs.to_string(), version_.to_string()));
  if (peer_hello_[kSideAt] != static_cast<std::uint8_t>(other(side_))) return reject("plays our own part");
  if (peer_hello_[kPurposeAt] != static_cast<std::uint8_t>(purpose_)) {
    const auto theirs_is = name_of(static_cast<Purpose>(peer_hello_[kPurposeAt]));
    return reject(fmt::format("is there for {}, we are for {}", theirs_is, name_of(purpose_)));
  }
  if (!std::equal(key_.job_tag().begin(), key_.job_tag().end(), peer_hello_.begin() + kJobAt))
    return reject("is of another job");
  state_ = State::proof;
  if (side_ == Side::connector) queue_proof();
  return {};
}

Status Handshake::on_proof() {
  const auto expected = proof_of(other(side_));
  if (sodium_memcmp(incoming_.data(), expected.data(), kProofBytes) != 0)
    return reject("does not know the job's secret");
  if (side_ == Side::acceptor) queue_proof();
  state_ = State::proven;
  return {};
}

std::array<std::uint8_t, Handshake::kProofBytes> Handshake::proof_of(Side side) const {
  const auto& connector = side_ == Side::connector ? own_hello_ : peer_hello_;
  const auto& acceptor = side_ == Side::connector ? peer_hello_ : own_hello_;
  std::array<std::uint8_t, 1 + 2 * kHelloBytes> text;
  text[0] = static_cast<std::uint8_t>(side);
  std::copy(connector.begin(), connector.end(), text.begin() + 1);
  std::copy(acceptor.begin(), acceptor.end(), text.begin() + 1 + kHelloBytes);
  std::array<std::uint8_t, kProofBytes> proof;
  crypto_auth(proof.data(), text.data(), text.size(), key_.bytes().data());
  return proof;
}

void Handshake::queue_hello() {
  std::memcpy(out_.data() + out_end_, own_hello_.data(), kHelloBytes);
  out_end_ += kHelloBytes;
}

void Handshake::queue_proof() {
  const auto proof = proof_of(side_);
  std::memcpy(out_.data() + out_end_, proof.data(), kProofBytes);
  out_end_ += kProofBytes;
}

tl::unexpected<Error> Handshake::reject(const std::string& why) {
  state_ = State::failed;
  return fail(ErrorCode::refused, fmt::format("{} {}", peer_.to_string(), why));
}

Error Handshake::closed() const {
  Error error;
  error.code = awaits_verdict() ? ErrorCode::refused : ErrorCode::system;
  error.message = awaits_verdict() ? fmt::format("{} turned us away: it has a different secret{}", peer_.to_string(),
                                                 key_.is_open() ? kOpenHint : "")
                                   : fmt::format("{} closed the connection during the handshake", peer_.to_string());
  return error;
}

Error Handshake::late() const {
  Error error;
  error.code = ErrorCode::timed_out;
  error.message = fmt::format("{} did not complete the handshake in time", peer_.to_string());
  return error;
}

Result<bool> Handshake::advance(int descriptor) {
  if (!allowed_) return tl::unexpected(allowed_.error());
  while (true) {
    std::size_t moved = 0;
    if (!outgoing().empty()) {
      const auto sent_now = send_some(descriptor, outgoing());
      if (!sent_now) return tl::unexpected(closed());
      sent(*sent_now);
      moved += *sent_now;
    }
    if (wanted() != 0) {
      std::array<std::byte, kHelloBytes> buffer;
      const auto received_now = recv_some(descriptor, std::span(buffer).first(wanted()));
      if (!received_now) return tl::unexpected(closed());
      if (auto status = receive(std::span(buffer).first(*received_now)); !status) {
        if (!outgoing().empty()) (void)send_some(descriptor, outgoing());
        return tl::unexpected(status.error());
      }
      moved += *received_now;
    }
    if (done()) return true;
    if (moved == 0) return false;
  }
}

short Handshake::events() const {
  return static_cast<short>((outgoing().empty() ? 0 : POLLOUT) | (wanted() == 0 ? 0 : POLLIN));
}

Status authenticate(int descriptor, Side side, Purpose purpose, const JobKey& key, Deadline deadline) {
  const auto peer = peer_address(descriptor);
  if (!peer) return tl::unexpected(peer.error());
  Handshake handshake(side, purpose, key, *peer);
  while (true) {
    auto done = handshake.advance(descriptor);
    if (!done) return tl::unexpected(done.error());
    if (*done) return {};
    if (!wait_for(descriptor, handshake.events(), deadline)) return tl::unexpected(handshake.late());
  }
}

}  // namespace tutti
