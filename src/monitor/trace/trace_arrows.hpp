// Arrows between ranks: from the rank that came last to an operation to those that had waited for it. Drawn once all
// ranks of the operation are known, so that the last one surely was; what stays incomplete is forgotten after a while.
// One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "monitor/trace/trace_file.hpp"

namespace tutti::monitor {

/// A rank's part in an operation, and where its slice lies.
struct OperationArrival {
  std::uint64_t communicator = 0;
  std::uint32_t number = 0;
  int ranks = 0;
  int rank = 0;
  std::uint32_t pid = 0, tid = 0;
  std::int64_t entered = 0;
  std::int64_t met = 0;  // as if all waiting had come first
  std::int64_t done = 0;
};

class Arrows {
 public:
  explicit Arrows(TraceFile& file) : file_(file) {}
  void add(const OperationArrival& arrival);

 private:
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // communicator, number

  void draw(const std::vector<OperationArrival>& all);

  TraceFile& file_;
  std::map<Key, std::vector<OperationArrival>> incomplete_;
  std::deque<Key> order_;
  std::uint64_t last_id_ = 0;
};

}  // namespace tutti::monitor
