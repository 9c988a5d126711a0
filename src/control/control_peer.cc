#include "control/control_peer.hpp"

#include "base/wire.hpp"

namespace tutti {

std::vector<std::byte> ControlPeer::encode() const {
  WireWriter out;
  out.put(id.high);
  out.put(id.low);
  out.put(static_cast<std::int64_t>(pid));
  out.put(start_time);
  out.put_text(host);
  out.put_text(local_path.size() > kPathLimit ? std::string() : local_path);
  out.put(static_cast<std::uint32_t>(addresses.size()));
  for (const SocketAddress& address : addresses) out.put_text(address.to_string());
  return out.take();
}

Result<ControlPeer> ControlPeer::decode(std::span<const std::byte> bytes) {
  WireReader in(bytes);
  ControlPeer peer;
  peer.id.high = in.get<std::uint64_t>();
  peer.id.low = in.get<std::uint64_t>();
  peer.pid = static_cast<pid_t>(in.get<std::int64_t>());
  peer.start_time = in.get<std::uint64_t>();
  peer.host = in.get_text();
  peer.local_path = in.get_text();
  for (auto left = in.get<std::uint32_t>(); left > 0 && in.ok(); --left) {
    auto address = SocketAddress::parse(in.get_text());
    if (!address) return tl::unexpected(address.error());
    peer.addresses.push_back(*address);
  }
  if (!in.complete() || peer.local_path.size() > kPathLimit)
    return fail(ErrorCode::invalid_argument, "the description of a peer is malformed");
  return peer;
}

}  // namespace tutti
