#include "bootstrap/unique_id.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "base/per_process.hpp"
#include "base/settings.hpp"
#include "net/interfaces.hpp"

namespace tutti {
namespace {

// magic 4 | addresses 1 | - 1 | port 2 | secret 32 | nonce 16 | 4 x (family 1, host 16) | checksum 4
constexpr std::array<std::uint8_t, 4> kMagic = {'T', 'U', 'T', 1};
constexpr std::size_t kCountAt = 4;
constexpr std::size_t kPortAt = 6;
constexpr std::size_t kSecretAt = 8;
constexpr std::size_t kNonceAt = kSecretAt + IdParts::kSecretBytes;
constexpr std::size_t kAddressesAt = kNonceAt + IdParts::kNonceBytes;
constexpr std::size_t kAddressBytes = 17;
constexpr std::size_t kChecksumAt = kAddressesAt + IdParts::kMaxAddresses * kAddressBytes;
constexpr std::size_t kChecksumBytes = 4;
static_assert(kChecksumAt + kChecksumBytes == UniqueId::kBytes);

std::array<std::uint8_t, kChecksumBytes> checksum(const UniqueId::Bytes& bytes) {
  std::array<std::uint8_t, crypto_generichash_BYTES> hash;
  crypto_generichash(hash.data(), hash.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()), kChecksumAt,
                     nullptr, 0);
  std::array<std::uint8_t, kChecksumBytes> start;
  std::copy_n(hash.begin(), kChecksumBytes, start.begin());
  return start;
}

void put_address(std::byte* at, const SocketAddress& address) {
  at[0] = static_cast<std::byte>(address.family() == AF_INET ? 4 : 6);
  if (address.family() == AF_INET)
    std::memcpy(at + 1, &reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr, sizeof(in_addr));
  else
    std::memcpy(at + 1, &reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr, sizeof(in6_addr));
}

Result<SocketAddress> get_address(const std::byte* at, std::uint16_t port) {
  const int family = at[0] == std::byte{4} ? AF_INET : AF_INET6;
  if (family == AF_INET6 && at[0] != std::byte{6}) return fail(ErrorCode::invalid_argument, "unknown address family");
  SocketAddress address = SocketAddress::any(family, port);
  if (family == AF_INET)
    std::memcpy(&reinterpret_cast<sockaddr_in*>(&address.storage)->sin_addr, at + 1, sizeof(in_addr));
  else
    std::memcpy(&reinterpret_cast<sockaddr_in6*>(&address.storage)->sin6_addr, at + 1, sizeof(in6_addr));
  return address;
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string text(bytes.size() * 2 + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  text.pop_back();
  return text;
}

using SealKey = std::array<std::uint8_t, crypto_secretbox_KEYBYTES>;
static_assert(std::tuple_size_v<SealedId> ==
              crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + UniqueId::kBytes);

SealKey seal_key(const std::string& secret) {
  constexpr std::string_view kPurpose = "tutti seals an id";
  SealKey key;
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, key.size());
  for (const std::string_view part : {kPurpose, std::string_view(secret)})
    crypto_generichash_update(&state, reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
  crypto_generichash_final(&state, key.data(), key.size());
  return key;
}

// The stores of the ids made in this process, until they are over; at the latest until it exits.
class Stores {
 public:
  Stores() {
    settings();  // outlives the threads
    std::atexit([] { of_process<Stores>().close_all(); });
  }

  void add(const std::string& nonce, std::shared_ptr<Store> store) {
    const std::lock_guard lock(mutex_);
    std::erase_if(stores_, [](const auto& entry) { return entry.second->over(); });
    stores_.emplace(nonce, std::move(store));
  }
  std::shared_ptr<Store> find(const std::string& nonce) {
    const std::lock_guard lock(mutex_);
    const auto found = stores_.find(nonce);
    return found == stores_.end() ? nullptr : found->second;
  }
  /// Handed out, for its end may wait for its thread.
  std::shared_ptr<Store> remove(const std::string& nonce) {
    const std::lock_guard lock(mutex_);
    auto node = stores_.extract(nonce);
    return node.empty() ? nullptr : std::move(node.mapped());
  }

 private:
  void close_all() {
    std::map<std::string, std::shared_ptr<Store>> closed;
    const std::lock_guard lock(mutex_);
    closed.swap(stores_);
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Store>> stores_;
};

// The addresses other ranks should try, best first: one of each interface before the second of any.
std::vector<SocketAddress> addresses_to_offer(const std::vector<Interface>& chosen) {
  std::vector<SocketAddress> offered;
  for (std::size_t turn = 0; offered.size() < IdParts::kMaxAddresses; ++turn) {
    const std::size_t before = offered.size();
    for (const Interface& interface : chosen)
      if (turn < interface.addresses.size() && offered.size() < IdParts::kMaxAddresses)
        offered.push_back(interface.addresses[turn]);
    if (offered.size() == before) break;
  }
  // A link-local IPv6 address means nothing without the interface's name on the other host.
  std::erase_if(offered, [](const SocketAddress& a) { return a.family() == AF_INET6 && a.is_link_local(); });
  if (offered.empty()) offered.push_back(SocketAddress::loopback());
  return offered;
}

struct Opened {
  std::vector<Fd> listeners;
  std::vector<SocketAddress> addresses;
};

// All at one port. An address whose port is taken, or that cannot be bound, is left out.
Result<Opened> open_listeners(const std::vector<SocketAddress>& offered) {
  Opened opened;
  std::uint16_t port = 0;
  Error last;
  for (const SocketAddress& address : offered) {
    auto listener = listen_on(address.with_port(port));
    if (!listener) {
      last = listener.error();
      continue;
    }
    const auto local = local_address(listener->get());
    if (!local) return tl::unexpected(local.error());
    port = local->port();
    opened.listeners.push_back(std::move(*listener));
    opened.addresses.push_back(address.with_port(port));
  }
  if (opened.listeners.empty()) return tl::unexpected(last);
  return opened;
}

}  // namespace

UniqueId::Bytes encode_id(const IdParts& parts) {
  UniqueId::Bytes bytes{};
  const std::size_t count = std::min(parts.addresses.size(), IdParts::kMaxAddresses);
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  bytes[kCountAt] = static_cast<std::byte>(count);
  const std::uint16_t port = count == 0 ? 0 : parts.addresses.front().port();
  std::memcpy(&bytes[kPortAt], &port, sizeof port);
  std::memcpy(&bytes[kSecretAt], parts.secret.data(), std::min(parts.secret.size(), IdParts::kSecretBytes));
  std::memcpy(&bytes[kNonceAt], parts.nonce.data(), std::min(parts.nonce.size(), IdParts::kNonceBytes));
  for (std::size_t i = 0; i < count; ++i) put_address(&bytes[kAddressesAt + i * kAddressBytes], parts.addresses[i]);
  const auto sum = checksum(bytes);
  std::memcpy(&bytes[kChecksumAt], sum.data(), sum.size());
  return bytes;
}

Result<IdParts> decode_id(const UniqueId::Bytes& bytes) {
  if (std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0)
    return fail(ErrorCode::invalid_argument, "these bytes are not a unique id of this version of tutti");
  const auto damaged = [] { return fail(ErrorCode::invalid_argument, "the unique id was damaged on its way"); };
  const auto sum = checksum(bytes);
  if (std::memcmp(&bytes[kChecksumAt], sum.data(), sum.size()) != 0) return damaged();
  const auto count = static_cast<std::size_t>(bytes[kCountAt]);
  std::uint16_t port = 0;
  std::memcpy(&port, &bytes[kPortAt], sizeof port);
  if (count == 0 || count > IdParts::kMaxAddresses || port == 0) return damaged();
  IdParts parts;
  parts.secret.assign(reinterpret_cast<const char*>(&bytes[kSecretAt]), IdParts::kSecretBytes);
  parts.nonce.assign(reinterpret_cast<const char*>(&bytes[kNonceAt]), IdParts::kNonceBytes);
  for (std::size_t i = 0; i < count; ++i) {
    auto address = get_address(&bytes[kAddressesAt + i * kAddressBytes], port);
    if (!address) return damaged();
    parts.addresses.push_back(*address);
  }
  return parts;
}

Result<UniqueId> UniqueId::create() {
  if (sodium_init() < 0) return fail(ErrorCode::system, "the system gives no random numbers");
  auto chosen = chosen_interfaces();
  if (!chosen) return tl::unexpected(chosen.error());
  auto opened = open_listeners(addresses_to_offer(*chosen));
  if (!opened) return tl::unexpected(opened.error());
  const IdParts parts{opened->addresses, random_bytes(IdParts::kSecretBytes), random_bytes(IdParts::kNonceBytes)};
  auto store = Store::start(std::move(opened->listeners), JobKey(parts.secret, to_hex(parts.nonce)));
  if (!store) return tl::unexpected(store.error());
  of_process<Stores>().add(parts.nonce, std::move(*store));
  return UniqueId(encode_id(parts));
}

Result<UniqueId> UniqueId::from_bytes(const Bytes& bytes) {
  if (auto parts = decode_id(bytes); !parts) return tl::unexpected(parts.error());
  return UniqueId(bytes);
}

Result<UniqueId> UniqueId::from_string(std::string_view text) {
  Bytes bytes;
  std::size_t length = 0;
  const char* end = nullptr;
  const int code = sodium_hex2bin(reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size(), text.data(), text.size(),
                                  nullptr, &length, &end);
  if (code != 0 || length != kBytes || end != text.data() + text.size())
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("a unique id is {} hexadecimal digits; this is not, with {} characters", 2 * kBytes, text.size()));
  return from_bytes(bytes);
}

std::string UniqueId::to_string() const {
  return to_hex(std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size()));
}

int UniqueId::waiting() const {
  const auto parts = decode_id(bytes_);
  const auto store = parts ? of_process<Stores>().find(parts->nonce) : nullptr;
  return store == nullptr ? 0 : store->newcomers();
}

Result<JoinInfo> join_info(const UniqueId& id, int rank, int size) {
  auto parts = decode_id(id.bytes());
  if (!parts) return tl::unexpected(parts.error());
  JoinInfo info;
  for (const SocketAddress& address : parts->addresses) info.endpoints.push_back({address.host(), address.port()});
  info.secret = parts->secret;
  info.job = to_hex(parts->nonce);
  info.rank = rank;
  info.size = size;
  info.rank_zero_hosts = false;
  info.local_store = of_process<Stores>().find(parts->nonce);
  return info;
}

void close_meeting(const UniqueId& id) {
  if (const auto parts = decode_id(id.bytes())) of_process<Stores>().remove(parts->nonce);
}

SealedId seal(const UniqueId& id, const std::string& secret) {
  const SealKey key = seal_key(secret);
  SealedId sealed;
  auto* const nonce = reinterpret_cast<std::uint8_t*>(sealed.data());
  randombytes_buf(nonce, crypto_secretbox_NONCEBYTES);
  crypto_secretbox_easy(nonce + crypto_secretbox_NONCEBYTES, reinterpret_cast<const std::uint8_t*>(id.bytes().data()),
                        UniqueId::kBytes, nonce, key.data());
  return sealed;
}

Result<UniqueId> unseal(std::span<const std::byte> sealed, const std::string& secret) {
  const auto no = [] { return fail(ErrorCode::refused, "a sealed id came from one who does not know the secret"); };
  if (sealed.size() != std::tuple_size_v<SealedId>) return no();
  const SealKey key = seal_key(secret);
  const auto* const nonce = reinterpret_cast<const std::uint8_t*>(sealed.data());
  UniqueId::Bytes bytes;
  if (crypto_secretbox_open_easy(reinterpret_cast<std::uint8_t*>(bytes.data()), nonce + crypto_secretbox_NONCEBYTES,
                                 sealed.size() - crypto_secretbox_NONCEBYTES, nonce, key.data()) != 0)
    return no();
  return UniqueId::from_bytes(bytes);
}

}  // namespace tutti
