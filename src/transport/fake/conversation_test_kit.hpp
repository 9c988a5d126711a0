// A sender and a receiver of one link that offer, expect, poll and release whenever chance has it, and check every
// byte: what tests of simulated lanes have in common. One thread.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/peer.hpp"

namespace tutti {

inline LinkLimits small_limits() {
  LinkLimits limits;
  limits.chunk_limit = 2000;
  limits.window = 6000;
  limits.copy_limit = 100;
  return limits;
}

class Conversation {
 public:
  using Draw = std::function<std::uint64_t(std::uint64_t)>;

  Conversation(Draw draw, Peer& from, Peer& to, const LinkId& link, std::uint64_t chunks)
      : draw_(std::move(draw)), chunks_(chunks), send_(from.open_send(link)), recv_(to.open_recv(link)) {}

  bool done() const { return taken_ == chunks_ && send_->released() == chunks_; }
  /// The peer is gone: what is left will not come.
  bool is_over() const { return send_->error() != nullptr || recv_->error() != nullptr; }
  std::uint64_t taken() const { return taken_; }
  std::string progress() const;

  /// Nothing more is offered than so many chunks, until this is called again.
  void allow(std::uint64_t chunks) { allowed_ = chunks; }
  void act();
  /// Everything that can be done without waiting.
  void act_all();
  void check(bool may_fail = false);

 private:
  bool offer();
  void expect(std::uint64_t more);
  bool take();

  Draw draw_;
  std::uint64_t chunks_;
  std::uint64_t allowed_ = ~std::uint64_t{0};
  std::deque<std::vector<std::byte>> memory_;    // of chunks sent and not released
  std::deque<std::vector<std::byte>> landings_;  // of chunks expected and not taken; empty: anywhere
  std::unique_ptr<SendLink> send_;               // these go first
  std::unique_ptr<RecvLink> recv_;
  std::uint64_t reused_ = 0;
  std::uint64_t expected_ = 0;
  std::uint64_t taken_ = 0;
};

}  // namespace tutti
