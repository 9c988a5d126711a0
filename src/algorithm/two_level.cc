// Two levels for several ranks per host: within the host over its links, and between hosts along rails. A rail joins
// the ranks of equal local index, so that what crosses between hosts uses every NIC and stays on one switch.
// Channel 0 carries what happens before and along the rails, channel 1 what is handed around in the host afterwards.
#include <memory>

#include "algorithm/families.hpp"
#include "algorithm/patterns.hpp"

namespace tutti::generate {
namespace {

constexpr int kBefore = 0;
constexpr int kAfter = 1;
constexpr int kChannels = 2;

/// Ranks by host, in host_order, and local index.
struct Grid {
  std::vector<std::vector<int>> ranks;
  std::vector<int> host_of;  // per rank: its row
  bool consecutive = true;   // every host's ranks are consecutive numbers

  int hosts() const { return static_cast<int>(ranks.size()); }
  int locals() const { return static_cast<int>(ranks.front().size()); }
  int at(int host, int local) const { return ranks[static_cast<std::size_t>(host)][static_cast<std::size_t>(local)]; }

  static Grid of(const Layout& layout) {
    Grid grid;
    grid.host_of.resize(layout.host_of.size());
    for (int host : host_order(layout)) {
      const auto& local = grid.ranks.emplace_back(layout.ranks_on(host));
      for (int rank : local) grid.host_of[static_cast<std::size_t>(rank)] = grid.hosts() - 1;
      grid.consecutive = grid.consecutive && local.back() - local.front() + 1 == static_cast<int>(local.size());
    }
    return grid;
  }
};

/// Where the rank whose part is told sits: its host, its rail, and the numbers that name its share.
struct GridPosition {
  const Grid& grid;
  int host;
  int local;
  Group in_host;
  Group on_rail;

  int hosts() const { return grid.hosts(); }
  int locals() const { return grid.locals(); }
  /// A host counted from this one: what is kept by it in scratch is kept alike on all hosts.
  int hosts_ahead(int row) const { return on_rail.wrapped(row - host); }
  /// Rows in the order in which a ring along the rail comes by them, this one first.
  std::vector<int> hosts_backwards() const {
    std::vector<int> rows;
    for (int back = 0; back < hosts(); ++back) rows.push_back(on_rail.shifted(-back));
    return rows;
  }
  std::vector<int> other_hosts() const {
    std::vector<int> rows;
    for (int distance = 1; distance < hosts(); ++distance) rows.push_back(on_rail.shifted(distance));
    return rows;
  }
};

GridPosition position_of(const Grid& grid, int rank) {
  const int host = grid.host_of[static_cast<std::size_t>(rank)];
  Group in_host = Group::of(grid.ranks[static_cast<std::size_t>(host)], rank);
  Group on_rail{{}, host};
  for (int row = 0; row < grid.hosts(); ++row) on_rail.members.push_back(grid.at(row, in_host.position));
  const int local = in_host.position;
  return {grid, host, local, std::move(in_host), std::move(on_rail)};
}

/// Shard l, of a chunk per host, is the business of local index l.
void all_reduce(PartBuilder& part, const GridPosition& position) {
  const int hosts = position.hosts();
  const auto shard = [&](int local) { return input(local * hosts, hosts); };
  const auto result = [&](int local) { return output(local * hosts, hosts); };
  Cells sum = shard(position.local);
  if (position.locals() > 1) {
    const Cells received = part.scratch((position.locals() - 1) * hosts);
    pairwise(
        part, position.in_host, shard, [&](int from) { return landing(position.in_host, received, from, hosts); },
        kBefore);
    const Cells own = sum;
    sum = hosts == 1 ? result(position.local) : part.scratch(hosts);
    part.local().reduce(operands_in_order(position.in_host, own, received, hosts), {sum}, hosts == 1);
  }
  ring_all_reduce(
      part, position.on_rail, [&](int host) { return part_of(sum, host); },
      [&](int host) { return part_of(result(position.local), host); }, kBefore);
  pairwise(
      part, position.in_host, [&](int) { return result(position.local); }, result, kAfter);
}

/// Every block that comes along the rail is handed on within the host.
void all_gather(PartBuilder& part, const GridPosition& position) {
  part.local().copy(input(0), output(part.rank()));
  ring_all_gather(
      part, position.on_rail, input(0), [&](int host) { return output(position.grid.at(host, position.local)); },
      kBefore);
  const auto blocks_of_rail = [&](int local) {
    std::vector<Cells> blocks;
    for (int host : position.hosts_backwards()) blocks.push_back(output(position.grid.at(host, local)));
    return blocks;
  };
  pairwise(part, position.in_host, CellListOf([&](int) { return blocks_of_rail(position.local); }),
           CellListOf(blocks_of_rail), kAfter);
}

/// In the host, local index l sums up the blocks of all ranks on its rail; the rail sums up over hosts.
void reduce_scatter(PartBuilder& part, const GridPosition& position) {
  const int hosts = position.hosts();
  const auto block = [&](int host, int local) { return input(position.grid.at(host, local)); };
  if (position.locals() == 1)
    return ring_reduce_scatter(
        part, position.on_rail, [&](int host) { return block(host, 0); }, output(0), kBefore);

  const Cells received = part.scratch((position.locals() - 1) * hosts);
  const auto landing_of = [&](int from, int host) {
    return part_of(landing(position.in_host, received, from, hosts), position.hosts_ahead(host));
  };
  const auto per_host = [&](auto cells_of) {
    return CellListOf([&position, cells_of](int local) {
      std::vector<Cells> cells;
      for (int host : position.hosts_backwards()) cells.push_back(cells_of(local, host));
      return cells;
    });
  };
  pairwise(part, position.in_host, per_host([&](int to, int host) { return block(host, to); }), per_host(landing_of),
           kBefore);

  const Cells sums = hosts == 1 ? output(0) : part.scratch(hosts);
  for (int host : position.hosts_backwards()) {
    std::vector<Cells> operands;
    for (int from = 0; from < position.locals(); ++from)
      operands.push_back(from == position.local ? block(host, position.local) : landing_of(from, host));
    part.local().reduce(std::move(operands), {part_of(sums, position.hosts_ahead(host))}, hosts == 1);
  }
  ring_reduce_scatter(
      part, position.on_rail, [&](int host) { return part_of(sums, position.hosts_ahead(host)); }, output(0), kBefore);
}

/// The root deals a chunk to each rank of its host; each travels along its rail, then around in every host.
void broadcast(PartBuilder& part, const GridPosition& position) {
  const int root = part.shape().root;
  const GridPosition root_position = position_of(position.grid, root);
  const bool is_root = part.rank() == root;
  const bool beside_root = !is_root && position.host == root_position.host;
  if (is_root)
    for (int distance = 1; distance < position.locals(); ++distance)
      part.worker(position.in_host.rank_at(position.local + distance), kNobody, kBefore)
          .send(input(position.in_host.shifted(distance)));
  if (beside_root) part.worker(kNobody, root, kBefore).recv(output(position.local));

  chain_broadcast(part, position.on_rail, root_position.host, is_root ? input(position.local) : output(position.local),
                  output(position.local), kBefore);

  for (int distance = 1; distance < position.locals(); ++distance) {
    const int to = position.in_host.rank_at(position.local + distance);
    if (to != root) part.worker(to, kNobody, kAfter).send(is_root ? input(position.local) : output(position.local));
  }
  for (int distance = 1; distance < position.locals() && !is_root; ++distance) {
    const int from = position.in_host.shifted(-distance);
    part.worker(kNobody, position.in_host.rank_at(from), kAfter).recv(output(from));
  }
  if (is_root) part.local().copy(input(0, position.locals()), output(0, position.locals()));
}

/// Each rank sums up a chunk within its host, the rail carries it to the root's host, where the root collects.
void reduce(PartBuilder& part, const GridPosition& position) {
  const int root = part.shape().root;
  const GridPosition root_position = position_of(position.grid, root);
  const bool is_root = part.rank() == root;
  const bool ends_here = position.host == root_position.host;
  Cells sum = input(position.local);
  const Cells result = is_root ? output(position.local) : ends_here ? part.scratch(1) : Cells{};
  if (position.locals() > 1) {
    const Cells received = part.scratch(position.locals() - 1);
    pairwise(
        part, position.in_host, [](int to) { return input(to); },
        [&](int from) { return landing(position.in_host, received, from, 1); }, kBefore);
    sum = position.hosts() == 1 ? result : part.scratch(1);
    part.local().reduce(operands_in_order(position.in_host, input(position.local), received, 1), {sum},
                        position.hosts() == 1);
  }
  chain_reduce(part, position.on_rail, root_position.host, sum, result, kBefore);
  if (!ends_here) return;
  if (!is_root) return part.worker(root, kNobody, kAfter).send(result);
  for (int distance = 1; distance < position.locals(); ++distance) {
    const int from = position.in_host.shifted(-distance);
    part.worker(kNobody, position.in_host.rank_at(from), kAfter).recv(output(from));
  }
}

/// Within the host, local index l collects what goes to ranks on its rail, and sends it to each in one go. The block
/// that stays in the host goes first: in place, what the receiver then overwrites it has sent as its own first.
void all_to_all(PartBuilder& part, const GridPosition& position) {
  const int locals = position.locals();
  const Cells collected = part.scratch(position.hosts() * locals);
  const auto slot = [&](int host, int from) { return part_of(collected, position.hosts_ahead(host) * locals + from); };
  const auto share = [&](int to) {
    std::vector<Cells> blocks{input(position.grid.at(position.host, to))};
    for (int host : position.other_hosts()) blocks.push_back(input(position.grid.at(host, to)));
    return blocks;
  };
  const auto into = [&](int from) {
    std::vector<Cells> blocks{output(position.grid.at(position.host, from))};
    for (int host : position.other_hosts()) blocks.push_back(slot(host, from));
    return blocks;
  };
  part.local().copy(input(part.rank()), output(part.rank()));
  for (int host : position.other_hosts())
    part.local().copy(input(position.grid.at(host, position.local)), slot(host, position.local));
  pairwise(part, position.in_host, CellListOf(share), CellListOf(into), kBefore);

  const bool at_once = position.grid.consecutive;
  const auto in_pieces = [&](Cells whole) {
    std::vector<Cells> pieces;
    for (int i = 0; i < locals; ++i) pieces.push_back(part_of(whole, i));
    return pieces;
  };
  const auto share_of_host = [&](int host) {
    const Cells whole = part_of(collected, position.hosts_ahead(host) * locals, locals);
    return at_once ? std::vector<Cells>{whole} : in_pieces(whole);
  };
  const auto blocks_from = [&](int host) {
    if (at_once) return std::vector<Cells>{output(position.grid.at(host, 0), locals)};
    std::vector<Cells> blocks;
    for (int from = 0; from < locals; ++from) blocks.push_back(output(position.grid.at(host, from)));
    return blocks;
  };
  pairwise(part, position.on_rail, CellListOf(share_of_host), CellListOf(blocks_from), kBefore);
}

void emit(PartBuilder& part, const Grid& grid) {
  const GridPosition position = position_of(grid, part.rank());
  switch (part.shape().collective) {
    case Collective::all_reduce:
      return all_reduce(part, position);
    case Collective::all_gather:
      return all_gather(part, position);
    case Collective::reduce_scatter:
      return reduce_scatter(part, position);
    case Collective::broadcast:
      return broadcast(part, position);
    case Collective::reduce:
      return reduce(part, position);
    default:
      return all_to_all(part, position);
  }
}

/// Which ranks are alike: in all_gather and reduce_scatter all; in all_reduce, whose shards hold a chunk per host in
/// the hosts' order, those of a host; in all_to_all, which packs blocks in the order of a host's ranks, those of a
/// rail.
Likeness likeness_of(Collective collective, const Grid& grid) {
  const int hosts = grid.hosts();
  const int locals = grid.locals();
  Likeness likeness;
  if (collective == Collective::all_reduce)
    likeness.translations = Translations({{1, hosts, false}, {hosts, locals, true}});
  else if (collective == Collective::all_to_all)
    likeness.translations = Translations({{1, locals, false}, {locals, hosts, true}});
  else if (collective == Collective::all_gather || collective == Collective::reduce_scatter)
    likeness.translations = Translations({{1, locals, true}, {locals, hosts, true}});
  else
    return likeness;
  likeness.position_of.resize(grid.host_of.size());
  for (int host = 0; host < hosts; ++host)
    for (int local = 0; local < locals; ++local)
      likeness.position_of[static_cast<std::size_t>(grid.at(host, local))] =
          collective == Collective::all_reduce ? local * hosts + host : host * locals + local;
  return likeness;
}

int chunks_for(Collective collective, const Grid& grid) {
  switch (collective) {
    case Collective::all_reduce:
      return grid.hosts() * grid.locals();
    case Collective::broadcast:
    case Collective::reduce:
      return grid.locals();
    default:
      return 1;
  }
}

}  // namespace

bool two_level_supports(Collective collective, const Layout& layout) {
  const bool offered = collective == Collective::all_reduce || collective == Collective::all_gather ||
                       collective == Collective::reduce_scatter || collective == Collective::broadcast ||
                       collective == Collective::reduce || collective == Collective::all_to_all;
  if (!offered || !layout.even()) return false;
  const int locals = layout.ranks() / layout.hosts();
  const int workers = 4 * locals + (collective == Collective::all_to_all ? 2 * layout.hosts() : 1);
  return workers <= kMaxWorkers;
}

Result<Program> make_two_level(Collective collective, const Layout& layout, const AlgorithmOptions& options) {
  const auto grid = std::make_shared<const Grid>(Grid::of(layout));
  return assemble({.name = "two_level",
                   .shape = shape_of(collective, layout, options, chunks_for(collective, *grid)),
                   .channels = kChannels,
                   .likeness = likeness_of(collective, *grid),
                   .emit = [grid](PartBuilder& part) { emit(part, *grid); }},
                  options.instances);
}

}  // namespace tutti::generate
