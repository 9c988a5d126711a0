// Blocking calls as they were bound, so that the same call runs again on other buffers without being chosen and bound
// anew. Owner's thread only.
#pragma once

#include <array>

#include "communicator/operation/operation.hpp"
#include "engine/call.hpp"

namespace tutti {

struct OperationQueue;

struct BoundCall {
  CallKey key;
  bool bound = false;
  OperationQueue* queue = nullptr;
  Operation operation;
};

class BoundCallCache {
 public:
  /// Returns where the call is, if it is bound, or else where it belongs, instead of another.
  BoundCall& slot_of(const CallKey& key) { return slots_[key.hash() % slots_.size()]; }
  void clear() {
    for (BoundCall& each : slots_) each.bound = false;
  }

 private:
  std::array<BoundCall, 16> slots_;
};

}  // namespace tutti
