#include "cli/demo/demo_scenes.hpp"

#include <algorithm>

namespace tutti::cli {
namespace {

constexpr DataType kFloat = DataType::float32;
constexpr Operator kSum = Operator::sum;

std::size_t everything(const SceneBuffers& buffers) { return buffers.count; }
std::size_t even_share(const SceneBuffers& buffers) { return buffers.block; }
std::size_t even_shares(const SceneBuffers& buffers) { return buffers.block * static_cast<std::size_t>(buffers.ranks); }
std::size_t own_share(const SceneBuffers& buffers) { return buffers.own_count(); }

/// Only on the root, which here is the last rank: nothing may depend on rank 0 being it.
int root_of(const SceneBuffers& buffers) { return buffers.ranks - 1; }
auto on_root(std::size_t (*amount)(const SceneBuffers&)) {
  return [amount](const SceneBuffers& buffers) { return buffers.rank == root_of(buffers) ? amount(buffers) : 0; };
}

float sum_at(const SceneBuffers& buffers, std::size_t index) { return buffers.sum(index); }
float sum_of_share(const SceneBuffers& buffers, std::size_t index) {
  return buffers.sum(static_cast<std::size_t>(buffers.rank) * buffers.block + index);
}
float sum_of_uneven_share(const SceneBuffers& buffers, std::size_t index) {
  return buffers.sum(buffers.offsets[static_cast<std::size_t>(buffers.rank)] + index);
}
float from_root(const SceneBuffers& buffers, std::size_t index) { return buffers.input(root_of(buffers), index); }
float gathered(const SceneBuffers& buffers, std::size_t index) {
  return buffers.input(static_cast<int>(index / buffers.block), index % buffers.block);
}
float scattered(const SceneBuffers& buffers, std::size_t index) {
  return from_root(buffers, static_cast<std::size_t>(buffers.rank) * buffers.block + index);
}
float exchanged(const SceneBuffers& buffers, std::size_t index) {
  const std::size_t mine = static_cast<std::size_t>(buffers.rank) * buffers.block;
  return buffers.input(static_cast<int>(index / buffers.block), mine + index % buffers.block);
}
float gathered_unevenly(const SceneBuffers& buffers, std::size_t index) {
  const auto after = std::upper_bound(buffers.offsets.begin(), buffers.offsets.end(), index);
  const auto source = static_cast<std::size_t>(after - buffers.offsets.begin()) - 1;
  return buffers.input(static_cast<int>(source), index - buffers.offsets[source]);
}
float scattered_unevenly(const SceneBuffers& buffers, std::size_t index) {
  return from_root(buffers, buffers.offsets[static_cast<std::size_t>(buffers.rank)] + index);
}

/// For all_to_all_v rank s sends counts[d] elements to rank d, so d receives as many from everybody.
std::vector<std::size_t> incoming_counts(const SceneBuffers& buffers) {
  return std::vector<std::size_t>(static_cast<std::size_t>(buffers.ranks), buffers.own_count());
}
std::size_t incoming(const SceneBuffers& buffers) {
  return buffers.own_count() * static_cast<std::size_t>(buffers.ranks);
}
float exchanged_unevenly(const SceneBuffers& buffers, std::size_t index) {
  const std::size_t mine = buffers.offsets[static_cast<std::size_t>(buffers.rank)];
  return buffers.input(static_cast<int>(index / buffers.own_count()), mine + index % buffers.own_count());
}

Status play_ring(SceneBuffers& buffers) {
  Group group;
  const int next = (buffers.rank + 1) % buffers.ranks;
  const int previous = (buffers.rank + buffers.ranks - 1) % buffers.ranks;
  if (auto sent = buffers.communicator.send(buffers.send.data(), buffers.count, kFloat, next); !sent) return sent;
  if (auto got = buffers.communicator.recv(buffers.recv.data(), buffers.count, kFloat, previous); !got) return got;
  return group.end();
}
float from_previous(const SceneBuffers& buffers, std::size_t index) {
  return buffers.input((buffers.rank + buffers.ranks - 1) % buffers.ranks, index);
}

Status play_async(SceneBuffers& buffers) {
  auto work =
      buffers.communicator.all_reduce_async(buffers.send.data(), buffers.recv.data(), buffers.count, kFloat, kSum);
  if (!work) return tl::unexpected(work.error());
  return work->wait();
}

std::vector<Scene> even_scenes() {
  return {
      {"all_reduce",
       [](SceneBuffers& s) { return s.communicator.all_reduce(s.send.data(), s.recv.data(), s.count, kFloat, kSum); },
       everything, sum_at},
      {"all_reduce, async", play_async, everything, sum_at},
      {"reduce",
       [](SceneBuffers& s) {
         return s.communicator.reduce(s.send.data(), s.recv.data(), s.count, kFloat, kSum, root_of(s));
       },
       on_root(everything), sum_at},
      {"broadcast",
       [](SceneBuffers& s) {
         return s.communicator.broadcast(s.send.data(), s.recv.data(), s.count, kFloat, root_of(s));
       },
       everything, from_root},
      {"all_gather",
       [](SceneBuffers& s) { return s.communicator.all_gather(s.send.data(), s.recv.data(), s.block, kFloat); },
       even_shares, gathered},
      {"reduce_scatter",
       [](SceneBuffers& s) {
         return s.communicator.reduce_scatter(s.send.data(), s.recv.data(), s.block, kFloat, kSum);
       },
       even_share, sum_of_share},
      {"all_to_all",
       [](SceneBuffers& s) { return s.communicator.all_to_all(s.send.data(), s.recv.data(), s.block, kFloat); },
       even_shares, exchanged},
      {"gather",
       [](SceneBuffers& s) { return s.communicator.gather(s.send.data(), s.recv.data(), s.block, kFloat, root_of(s)); },
       on_root(even_shares), gathered},
      {"scatter",
       [](SceneBuffers& s) {
         return s.communicator.scatter(s.send.data(), s.recv.data(), s.block, kFloat, root_of(s));
       },
       even_share, scattered},
      {"send, recv", play_ring, everything, from_previous},
  };
}

std::vector<Scene> uneven_scenes() {
  return {
      {"all_gather_v",
       [](SceneBuffers& s) {
         return s.communicator.all_gather_v(s.send.data(), s.recv.data(), s.counts, s.offsets, kFloat);
       },
       everything, gathered_unevenly},
      {"reduce_scatter_v",
       [](SceneBuffers& s) {
         return s.communicator.reduce_scatter_v(s.send.data(), s.recv.data(), s.counts, s.offsets, kFloat, kSum);
       },
       own_share, sum_of_uneven_share},
      {"all_to_all_v",
       [](SceneBuffers& s) {
         return s.communicator.all_to_all_v(s.send.data(), s.counts, s.offsets, s.recv.data(), incoming_counts(s), {},
                                            kFloat);
       },
       incoming, exchanged_unevenly},
      {"gather_v",
       [](SceneBuffers& s) {
         return s.communicator.gather_v(s.send.data(), s.own_count(), s.recv.data(), s.counts, s.offsets, kFloat,
                                        root_of(s));
       },
       on_root(everything), gathered_unevenly},
      {"scatter_v",
       [](SceneBuffers& s) {
         return s.communicator.scatter_v(s.send.data(), s.counts, s.offsets, s.recv.data(), s.own_count(), kFloat,
                                         root_of(s));
       },
       own_share, scattered_unevenly},
  };
}

}  // namespace

// Rank r's uneven share is proportional to r + 1; the last takes what rounding leaves.
SceneBuffers::SceneBuffers(Communicator& of, std::size_t elements)
    : communicator(of), rank(of.rank()), ranks(of.size()), count(elements) {
  const auto n = static_cast<std::size_t>(ranks);
  block = std::max<std::size_t>(1, elements / n);
  count = block * n;
  std::size_t given = 0;
  for (std::size_t r = 0; r < n; ++r) {
    offsets.push_back(given);
    counts.push_back(r + 1 == n ? count - given : count * (r + 1) * 2 / (n * (n + 1)));
    given += counts.back();
  }
  send.resize(count);
  // all_to_all_v: the last rank receives its large share from everybody.
  recv.resize(std::max(count, counts.back() * n));
  reset();
}

// Small integers: their sums are exact, whatever the order.
float SceneBuffers::input(int of, std::size_t index) const {
  return static_cast<float>((of + 1) * static_cast<int>(1 + index % 97));
}

float SceneBuffers::sum(std::size_t index) const {
  return static_cast<float>(ranks * (ranks + 1) / 2 * static_cast<int>(1 + index % 97));
}

void SceneBuffers::reset() {
  for (std::size_t i = 0; i < count; ++i) send[i] = input(rank, i);
  std::fill(recv.begin(), recv.end(), -1.0F);
}

std::vector<Scene> demo_scenes() {
  std::vector<Scene> all = even_scenes();
  for (Scene& scene : uneven_scenes()) all.push_back(std::move(scene));
  all.push_back({"barrier", [](SceneBuffers& s) { return s.communicator.barrier(); }, nullptr, nullptr});
  return all;
}

}  // namespace tutti::cli
