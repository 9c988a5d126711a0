// The inside of a UniqueId, and how to join by one.
#pragma once

#include <string>
#include <vector>

#include "base/net.hpp"
#include "bootstrap/join.hpp"
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

}  // namespace tutti
