#include "cli/demo/demo_scenes.hpp"

#include <algorithm>

namespace tutti::cli {
namespace {

constexpr DataType kFloat = DataType::float32;
constexpr Operator kSum = Operator::sum;

std::size_t everything(const Stage& stage) { return stage.count; }
std::size_t even_share(const Stage& stage) { return stage.block; }
std::size_t even_shares(const Stage& stage) { return stage.block * static_cast<std::size_t>(stage.ranks); }
std::size_t own_share(const Stage& stage) { return stage.own_count(); }

/// Only on the root, which here is the last rank: nothing may depend on rank 0 being it.
int root_of(const Stage& stage) { return stage.ranks - 1; }
auto on_root(std::size_t (*amount)(const Stage&)) {
  return [amount](const Stage& stage) { return stage.rank == root_of(stage) ? amount(stage) : 0; };
}

float sum_at(const Stage& stage, std::size_t index) { return stage.sum(index); }
float sum_of_share(const Stage& stage, std::size_t index) {
  return stage.sum(static_cast<std::size_t>(stage.rank) * stage.block + index);
}
float sum_of_uneven_share(const Stage& stage, std::size_t index) {
  return stage.sum(stage.offsets[static_cast<std::size_t>(stage.rank)] + index);
}
float from_root(const Stage& stage, std::size_t index) { return stage.input(root_of(stage), index); }
float gathered(const Stage& stage, std::size_t index) {
  return stage.input(static_cast<int>(index / stage.block), index % stage.block);
}
float scattered(const Stage& stage, std::size_t index) {
  return from_root(stage, static_cast<std::size_t>(stage.rank) * stage.block + index);
}
float exchanged(const Stage& stage, std::size_t index) {
  const std::size_t mine = static_cast<std::size_t>(stage.rank) * stage.block;
  return stage.input(static_cast<int>(index / stage.block), mine + index % stage.block);
}
float gathered_unevenly(const Stage& stage, std::size_t index) {
  const auto after = std::upper_bound(stage.offsets.begin(), stage.offsets.end(), index);
  const auto source = static_cast<std::size_t>(after - stage.offsets.begin()) - 1;
  return stage.input(static_cast<int>(source), index - stage.offsets[source]);
}
float scattered_unevenly(const Stage& stage, std::size_t index) {
  return from_root(stage, stage.offsets[static_cast<std::size_t>(stage.rank)] + index);
}

/// For all_to_all_v rank s sends counts[d] elements to rank d, so d receives as many from everybody.
std::vector<std::size_t> incoming_counts(const Stage& stage) {
  return std::vector<std::size_t>(static_cast<std::size_t>(stage.ranks), stage.own_count());
}
std::size_t incoming(const Stage& stage) { return stage.own_count() * static_cast<std::size_t>(stage.ranks); }
float exchanged_unevenly(const Stage& stage, std::size_t index) {
  const std::size_t mine = stage.offsets[static_cast<std::size_t>(stage.rank)];
  return stage.input(static_cast<int>(index / stage.own_count()), mine + index % stage.own_count());
}

Status play_ring(Stage& stage) {
  Group group;
  const int next = (stage.rank + 1) % stage.ranks;
  const int previous = (stage.rank + stage.ranks - 1) % stage.ranks;
  if (auto sent = stage.communicator.send(stage.send.data(), stage.count, kFloat, next); !sent) return sent;
  if (auto got = stage.communicator.recv(stage.recv.data(), stage.count, kFloat, previous); !got) return got;
  return group.end();
}
float from_previous(const Stage& stage, std::size_t index) {
  return stage.input((stage.rank + stage.ranks - 1) % stage.ranks, index);
}

Status play_async(Stage& stage) {
  auto work = stage.communicator.all_reduce_async(stage.send.data(), stage.recv.data(), stage.count, kFloat, kSum);
  if (!work) return tl::unexpected(work.error());
  return work->wait();
}

std::vector<Scene> even_scenes() {
  return {
      {"all_reduce",
       [](Stage& s) { return s.communicator.all_reduce(s.send.data(), s.recv.data(), s.count, kFloat, kSum); },
       everything, sum_at},
      {"all_reduce, async", play_async, everything, sum_at},
      {"reduce",
       [](Stage& s) { return s.communicator.reduce(s.send.data(), s.recv.data(), s.count, kFloat, kSum, root_of(s)); },
       on_root(everything), sum_at},
      {"broadcast",
       [](Stage& s) { return s.communicator.broadcast(s.send.data(), s.recv.data(), s.count, kFloat, root_of(s)); },
       everything, from_root},
      {"all_gather", [](Stage& s) { return s.communicator.all_gather(s.send.data(), s.recv.data(), s.block, kFloat); },
       even_shares, gathered},
      {"reduce_scatter",
       [](Stage& s) { return s.communicator.reduce_scatter(s.send.data(), s.recv.data(), s.block, kFloat, kSum); },
       even_share, sum_of_share},
      {"all_to_all", [](Stage& s) { return s.communicator.all_to_all(s.send.data(), s.recv.data(), s.block, kFloat); },
       even_shares, exchanged},
      {"gather",
       [](Stage& s) { return s.communicator.gather(s.send.data(), s.recv.data(), s.block, kFloat, root_of(s)); },
       on_root(even_shares), gathered},
      {"scatter",
       [](Stage& s) { return s.communicator.scatter(s.send.data(), s.recv.data(), s.block, kFloat, root_of(s)); },
       even_share, scattered},
      {"send, recv", play_ring, everything, from_previous},
  };
}

std::vector<Scene> uneven_scenes() {
  return {
      {"all_gather_v",
       [](Stage& s) { return s.communicator.all_gather_v(s.send.data(), s.recv.data(), s.counts, s.offsets, kFloat); },
       everything, gathered_unevenly},
      {"reduce_scatter_v",
       [](Stage& s) {
         return s.communicator.reduce_scatter_v(s.send.data(), s.recv.data(), s.counts, s.offsets, kFloat, kSum);
       },
       own_share, sum_of_uneven_share},
      {"all_to_all_v",
       [](Stage& s) {
         return s.communicator.all_to_all_v(s.send.data(), s.counts, s.offsets, s.recv.data(), incoming_counts(s), {},
                                            kFloat);
       },
       incoming, exchanged_unevenly},
      {"gather_v",
       [](Stage& s) {
         return s.communicator.gather_v(s.send.data(), s.own_count(), s.recv.data(), s.counts, s.offsets, kFloat,
                                        root_of(s));
       },
       on_root(everything), gathered_unevenly},
      {"scatter_v",
       [](Stage& s) {
         return s.communicator.scatter_v(s.send.data(), s.counts, s.offsets, s.recv.data(), s.own_count(), kFloat,
                                         root_of(s));
       },
       own_share, scattered_unevenly},
  };
}

}  // namespace

// Rank r's uneven share is proportional to r + 1; the last takes what rounding leaves.
Stage::Stage(Communicator& of, std::size_t elements)
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
float Stage::input(int of, std::size_t index) const {
  return static_cast<float>((of + 1) * static_cast<int>(1 + index % 97));
}

float Stage::sum(std::size_t index) const {
  return static_cast<float>(ranks * (ranks + 1) / 2 * static_cast<int>(1 + index % 97));
}

void Stage::reset() {
  for (std::size_t i = 0; i < count; ++i) send[i] = input(rank, i);
  std::fill(recv.begin(), recv.end(), -1.0F);
}

std::vector<Scene> demo_scenes() {
  std::vector<Scene> all = even_scenes();
  for (Scene& scene : uneven_scenes()) all.push_back(std::move(scene));
  all.push_back({"barrier", [](Stage& s) { return s.communicator.barrier(); }, nullptr, nullptr});
  return all;
}

}  // namespace tutti::cli
