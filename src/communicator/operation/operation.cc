#include "communicator/operation/operation.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace tutti {

void Operation::own_counts() {
  std::span<const std::size_t>* const spans[4] = {&call.send_counts, &call.send_offsets, &call.recv_counts,
                                                  &call.recv_offsets};
  for (int i = 0; i < 4; ++i) {
    counts[i].assign(spans[i]->begin(), spans[i]->end());
    *spans[i] = counts[i];
  }
}

void Operation::stage_input(int ranks) {
  const bool scaled = reduces(call.collective) && call.reduction.op == Operator::premultiplied_sum;
  const bool exchanged = call.collective == Collective::all_to_all && call.in_place;
  if (!scaled && !exchanged) return;
  const bool blocks = call.collective == Collective::reduce_scatter || call.collective == Collective::all_to_all;
  std::size_t elements = call.count * static_cast<std::size_t>(blocks ? ranks : 1);
  for (std::size_t block = 0; call.uneven && block < call.send_counts.size(); ++block) {
    const std::size_t offset = call.send_offsets.empty() ? elements : call.send_offsets[block];
    elements = std::max(elements, offset + call.send_counts[block]);
  }
  staged.resize(elements * size_of(call.type));
  if (exchanged)
    copy(staged.data(), call.send, staged.size(), false);
  else
    scale(staged.data(), call.send, elements, call.type, call.reduction.factor);
  call.send = staged.data();
  call.in_place = false;
}

std::string Operation::name() const {
  const bool sends = is_point_to_point() && call.sends;
  return fmt::format("{} #{}", sends ? "send" : is_point_to_point() ? "recv" : name_of(call.collective), number());
}

Error Operation::attribute(Error reported, int rank) const {
  reported.rank = rank;
  if (reported.operation.empty()) reported.operation = name();
  return reported;
}

}  // namespace tutti
