#include "transport/peer_context.hpp"

#include <utility>

namespace tutti {

void PeerContext::look_soon() {
  if (std::exchange(looks_soon, true)) return;
  tick_by(now() + kLookEvery);
}

}  // namespace tutti
