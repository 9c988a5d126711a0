// A stranger says anything at all to either side of a handshake: it is never let in, and never makes us read or write
// beyond the messages.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "net/handshake.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size < 2) return 0;
  const Side side = (data[0] & 1) != 0 ? Side::connector : Side::acceptor;
  const std::size_t piece = data[1] % 70 + 1;
  Handshake handshake(side, Purpose::bootstrap, JobKey("secret", "", false), SocketAddress::loopback());
  std::span<const std::byte> rest = std::as_bytes(std::span(data, size)).subspan(2);
  while (!rest.empty() && handshake.wanted() != 0) {
    const std::size_t count = std::min({piece, rest.size(), handshake.wanted()});
    if (!handshake.receive(rest.first(count))) break;
    rest = rest.subspan(count);
    handshake.sent(handshake.outgoing().size());
  }
  if (handshake.done()) std::abort();
  (void)handshake.closed();
  return 0;
}
