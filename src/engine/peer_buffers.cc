#include "engine/peer_buffers.hpp"

#include <fmt/core.h>

#include <utility>

namespace tutti {

void PeerBuffers::end() {
  for (const int peer : in_use_) peers_->end_use(peer);
  in_use_.clear();
}

bool PeerBuffers::has_entered(int peer) {
  switch (peers_->has_entered(peer, run_.tag())) {
    case OneSidedPeers::Entered::not_yet:
      return false;
    case OneSidedPeers::Entered::same_call:
      run_.note_move();
      return true;
    case OneSidedPeers::Entered::other_call:
      break;
  }
  Error error;
  error.code = ErrorCode::mismatch;
  error.message = fmt::format("rank {} entered operation {} with another call", peer, run_.tag().number);
  return run_.fail_about(peer, std::move(error));
}

bool PeerBuffers::find(int peer, bool reaches) {
  if (!has_entered(peer)) return false;
  Found& found = found_[static_cast<std::size_t>(peer)];
  if (reaches) {
    const auto places = peers_->begin_use(peer);
    if (!places) return run_.fail_about(peer, places.error());
    in_use_.push_back(peer);
    found.places = *places;
  }
  found.number = run_.tag().number + 1;
  return true;
}

}  // namespace tutti
