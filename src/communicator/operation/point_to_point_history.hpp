// The last sends to a peer, or receives from it, so that two ends that differ can be told apart: their numbers count
// per peer and direction. The owner of the communicator's token adds, any thread looks up.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "engine/call.hpp"

namespace tutti {

class PointToPointHistory {
 public:
  void add(const Call& call, OperationTag tag);
  /// Returns "8 x float32": what was sent, or received, under that number. Empty if nothing was yet, or if it is
  /// forgotten.
  std::string find(std::uint32_t number) const;

 private:
  /// add() stores: `number` zero, `what`, `number`, both release. find() loads: `number`, `what`, both acquire, and
  /// `number` again.
  struct RecentCall {
    std::atomic<std::uint32_t> number{0};  // plus one
    std::atomic<std::uint64_t> what{0};    // count (56 bits), type (8)
  };
  std::array<RecentCall, 64> entries_;  // as many as a pipe takes before the receiver looks
};

}  // namespace tutti
