// The addresses of another process, and what connections have shown of them. A value; one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "net/socket.hpp"

namespace tutti {

class PeerAddresses {
 public:
  explicit PeerAddresses(std::vector<SocketAddress> all) : all_(std::move(all)), proven_(all_.size()) {}

  const std::vector<SocketAddress>& all() const { return all_; }
  /// Returns which address to dial first: not the one that was connected last.
  std::size_t first() const { return first_; }
  /// Returns whether an address is surely the process's own.
  bool is_proven(std::size_t index) const { return proven_[index]; }
  /// Returns the address over which the process was connected last without a detour; null: none yet.
  const SocketAddress* connected_at() const { return connected_ ? &all_[*connected_] : nullptr; }

  /// Notes a connection without a detour. A process that dialed us comes from one of its addresses, at another port.
  /// So does one near it that relays for it, if the two share the address.
  void note_connection(const SocketAddress& remote) {
    auto found = std::find(all_.begin(), all_.end(), remote);
    if (found == all_.end())
      found = std::find_if(all_.begin(), all_.end(),
                           [&](const SocketAddress& address) { return address.host() == remote.host(); });
    if (found == all_.end()) return;
    const auto index = static_cast<std::size_t>(found - all_.begin());
    proven_[index] = true;
    connected_ = index;
    first_ = (index + 1) % all_.size();
  }

 private:
  std::vector<SocketAddress> all_;
  std::vector<bool> proven_;
  std::size_t first_ = 0;
  std::optional<std::size_t> connected_;
};

}  // namespace tutti
