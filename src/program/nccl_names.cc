#include "program/nccl_names.hpp"

#include <iterator>

namespace tutti {

const char* nccl_name_of(Collective collective, bool sends) {
  static constexpr const char* kNames[] = {"AllReduce", "Reduce", "Broadcast", "AllGather", "ReduceScatter",
                                           "AlltoAll",  "Gather", "Scatter",   "Barrier"};
  if (collective == Collective::point_to_point) return sends ? "Send" : "Recv";
  const auto index = static_cast<std::size_t>(collective);
  return index < std::size(kNames) ? kNames[index] : "Unknown";
}

}  // namespace tutti
