#include "algorithm/patterns.hpp"

#include <algorithm>
#include <utility>

namespace tutti::generate {

Group Group::of(std::vector<int> members, int rank) {
  const auto place = std::find(members.begin(), members.end(), rank);
  const int position = static_cast<int>(place - members.begin());
  return {std::move(members), position};
}

ExchangeWorkers exchange_with(PartBuilder& part, int to, int from, bool single_chunk, int channel) {
  if (single_chunk) {
    const WorkerRef both = part.worker(to, from, channel);
    return {both, both};
  }
  return {part.worker(to, kNobody, channel), part.worker(kNobody, from, channel)};
}

namespace {

bool is_single_chunk(const std::vector<Cells>& cells) { return cells.size() == 1 && cells.front().count == 1; }

}  // namespace

void pairwise(PartBuilder& part, const Group& group, const CellListOf& share, const CellListOf& into, int channel) {
  const auto exchange = [&](int distance) {
    const bool single =
        is_single_chunk(share(group.shifted(distance))) && is_single_chunk(into(group.shifted(-distance)));
    return exchange_with(part, group.rank_at(group.position + distance), group.rank_at(group.position - distance),
                         single, channel);
  };
  for (int distance = 1; distance < group.size(); ++distance)
    for (const Cells& cells : share(group.shifted(distance))) exchange(distance).sender.send(cells);
  for (int distance = 1; distance < group.size(); ++distance)
    for (const Cells& cells : into(group.shifted(-distance))) exchange(distance).receiver.recv(cells);
}

void pairwise(PartBuilder& part, const Group& group, const CellsOf& share, const CellsOf& into, int channel) {
  const auto listed = [](const CellsOf& cells_of) {
    return [&cells_of](int position) { return std::vector<Cells>{cells_of(position)}; };
  };
  pairwise(part, group, CellListOf(listed(share)), CellListOf(listed(into)), channel);
}

Cells landing(const Group& group, Cells received, int position, int count) {
  const int index = group.wrapped(position - group.position) - 1;
  return part_of(received, index * count, count);
}

std::vector<Cells> operands_in_order(const Group& group, Cells own, Cells received, int count) {
  std::vector<Cells> operands;
  for (int position = 0; position < group.size(); ++position)
    operands.push_back(position == group.position ? own : landing(group, received, position, count));
  return operands;
}

void ring_all_reduce(PartBuilder& part, const Group& group, const CellsOf& source, const CellsOf& target, int channel) {
  if (group.size() == 1) return;
  const WorkerRef ring = part.worker(group.next(), group.previous(), channel);
  ring.send(source(group.shifted(-1)));
  for (int back = 2; back < group.size(); ++back) ring.recv_reduce_send(source(group.shifted(-back)), {});
  ring.recv_reduce_copy_send(source(group.position), target(group.position), {.completes = true});
  for (int back = 1; back < group.size() - 1; ++back) ring.recv_copy_send(target(group.shifted(-back)));
  ring.recv(target(group.shifted(1)));
}

void ring_reduce_scatter(PartBuilder& part, const Group& group, const CellsOf& source, Cells target, int channel) {
  if (group.size() == 1) return;
  const WorkerRef ring = part.worker(group.next(), group.previous(), channel);
  ring.send(source(group.shifted(-1)));
  for (int back = 2; back < group.size(); ++back) ring.recv_reduce_send(source(group.shifted(-back)), {});
  ring.recv_reduce(source(group.position), target, {.completes = true});
}

void ring_all_gather(PartBuilder& part, const Group& group, Cells own, const CellsOf& target, int channel) {
  if (group.size() == 1) return;
  const WorkerRef ring = part.worker(group.next(), group.previous(), channel);
  ring.send(own);
  for (int back = 1; back < group.size() - 1; ++back) ring.recv_copy_send(target(group.shifted(-back)));
  ring.recv(target(group.shifted(1)));
}

void chain_broadcast(PartBuilder& part, const Group& group, int first, Cells source, Cells target, int channel) {
  if (group.size() == 1) return;
  const bool starts = group.position == first;
  const bool ends = group.shifted(1) == first;
  const WorkerRef link = part.worker(ends ? kNobody : group.next(), starts ? kNobody : group.previous(), channel);
  if (starts)
    link.send(source);
  else if (ends)
    link.recv(target);
  else
    link.recv_copy_send(target);
}

void chain_reduce(PartBuilder& part, const Group& group, int last, Cells source, Cells target, int channel) {
  if (group.size() == 1) return;
  const bool ends = group.position == last;
  const bool starts = group.shifted(-1) == last;
  const WorkerRef link = part.worker(ends ? kNobody : group.next(), starts ? kNobody : group.previous(), channel);
  if (starts)
    link.send(source);
  else if (ends)
    link.recv_reduce(source, target, {.completes = true});
  else
    link.recv_reduce_send(source, {});
}

void tree_broadcast(PartBuilder& part, const TreePlace& place, Cells source, Cells target, int channel) {
  const bool is_root = place.parent == kNobody;
  auto child = place.children.begin();
  if (!is_root) {
    const bool forwards = child != place.children.end();
    const WorkerRef above = part.worker(forwards ? *child++ : kNobody, place.parent, channel);
    if (forwards)
      above.recv_copy_send(target);
    else
      above.recv(target);
  }
  for (; child != place.children.end(); ++child) part.worker(*child, kNobody, channel).send(is_root ? source : target);
}

void tree_reduce(PartBuilder& part, const TreePlace& place, Cells source, Cells target, int channel) {
  const bool is_root = place.parent == kNobody;
  if (place.children.empty() && !is_root) return part.worker(place.parent, kNobody, channel).send(source);
  Cells sum = source;
  for (auto child = place.children.rbegin(); child != place.children.rend(); ++child) {
    const bool last = std::next(child) == place.children.rend();
    const bool local_first = part.rank() < *child;
    if (last && !is_root) {
      part.worker(place.parent, *child, channel).recv_reduce_send(sum, {.local_first = local_first});
      continue;
    }
    const bool in_scratch = sum.buffer == Buffer::scratch;
    const Cells into = is_root ? target : in_scratch ? sum : part.scratch(source.count);
    part.worker(kNobody, *child, channel).recv_reduce(sum, into, {.local_first = local_first, .completes = last});
    sum = into;
  }
}

}  // namespace tutti::generate
