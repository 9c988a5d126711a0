// The inside of a UniqueId, and how to join by one.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/join.hpp"
#include "net/socket.hpp"
#include "tutti/unique_id.hpp"

namespace tutti {

struct IdParts {
  static constexpr std::size_t kMaxAddresses = 4;
  static constexpr std::size_t kSecretBytes = 32;
  static constexpr std::size_t kNonceBytes = 16;

  std::vector<SocketAddress> addresses;  // 1 to kMaxAddresses, of one port
  std::string secret;                    // kSecretBytes
  std::string nonce;                     // kNonceBytes; tells ids apart
};

UniqueId::Bytes encode_id(const IdParts& parts);
Result<IdParts> decode_id(const UniqueId::Bytes& bytes);

/// Everything join() needs but the blob and the settings. Where the id was made in this process, it also holds on to
/// its store.
Result<JoinInfo> join_info(const UniqueId& id, int rank, int size);

/// Ends the meeting of an id that was made in this process, whoever still waits for it.
void close_meeting(const UniqueId& id);

/// For the way to other ranks over connections that anybody may read: only those who know `secret` can open it.
using SealedId = std::array<std::byte, 24 + 16 + UniqueId::kBytes>;  // nonce, tag, id
SealedId seal(const UniqueId& id, const std::string& secret);
Result<UniqueId> unseal(std::span<const std::byte> sealed, const std::string& secret);

}  // namespace tutti
