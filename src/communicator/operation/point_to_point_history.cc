#include "communicator/operation/point_to_point_history.hpp"

#include <fmt/core.h>

namespace tutti {

void PointToPointHistory::add(const Call& call, OperationTag tag) {
  RecentCall& current = entries_[tag.number % entries_.size()];
  current.number.store(0, std::memory_order_relaxed);
  current.what.store(static_cast<std::uint64_t>(call.count) << 8 | static_cast<std::uint64_t>(call.type),
                     std::memory_order_release);
  current.number.store(tag.number + 1, std::memory_order_release);
}

std::string PointToPointHistory::find(std::uint32_t number) const {
  const RecentCall& entry = entries_[number % entries_.size()];
  if (entry.number.load(std::memory_order_acquire) != number + 1) return "";
  const std::uint64_t what = entry.what.load(std::memory_order_acquire);
  if (entry.number.load(std::memory_order_relaxed) != number + 1) return "";
  return fmt::format("{} x {}", what >> 8, name_of(static_cast<DataType>(what & 255)));
}

}  // namespace tutti
