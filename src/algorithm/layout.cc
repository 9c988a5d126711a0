#include "algorithm/layout.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace tutti {

int Layout::hosts() const { return host_of.empty() ? 0 : *std::max_element(host_of.begin(), host_of.end()) + 1; }

int Layout::leaf_of(int host) const { return leaf_of_host.empty() ? 0 : leaf_of_host[static_cast<std::size_t>(host)]; }

std::vector<int> Layout::ranks_on(int host) const {
  std::vector<int> local;
  for (int rank = 0; rank < ranks(); ++rank)
    if (host_of[static_cast<std::size_t>(rank)] == host) local.push_back(rank);
  return local;
}

bool Layout::even() const {
  std::vector<int> count(static_cast<std::size_t>(hosts()), 0);
  for (int host : host_of) ++count[static_cast<std::size_t>(host)];
  return std::all_of(count.begin(), count.end(), [&](int ranks_here) { return ranks_here == count.front(); });
}

Status Layout::validate() const {
  if (host_of.empty()) return fail(ErrorCode::invalid_argument, "the layout has no ranks");
  std::vector<bool> used(host_of.size(), false);
  for (int rank = 0; rank < ranks(); ++rank) {
    const int host = host_of[static_cast<std::size_t>(rank)];
    if (host < 0 || host >= ranks())
      return fail(ErrorCode::invalid_argument,
                  fmt::format("rank {} sits on host {}, expected 0 to {}", rank, host, ranks() - 1));
    used[static_cast<std::size_t>(host)] = true;
  }
  for (int host = 0; host < hosts(); ++host)
    if (!used[static_cast<std::size_t>(host)])
      return fail(ErrorCode::invalid_argument, fmt::format("host {} has no ranks", host));
  if (!leaf_of_host.empty() && static_cast<int>(leaf_of_host.size()) != hosts())
    return fail(ErrorCode::invalid_argument,
                fmt::format("leaf_of_host has {} entries, expected one per host: {}", leaf_of_host.size(), hosts()));
  return {};
}

Layout Layout::one_host(int ranks) { return blocks(ranks, ranks); }

Layout Layout::blocks(int ranks, int ranks_per_host) {
  Layout layout;
  for (int rank = 0; rank < ranks; ++rank) layout.host_of.push_back(rank / ranks_per_host);
  return layout;
}

std::vector<int> host_order(const Layout& layout) {
  std::vector<int> hosts(static_cast<std::size_t>(layout.hosts()));
  std::iota(hosts.begin(), hosts.end(), 0);
  std::stable_sort(hosts.begin(), hosts.end(), [&](int a, int b) { return layout.leaf_of(a) < layout.leaf_of(b); });
  return hosts;
}

namespace {

/// The ranks of a host from `local[enter]` to `local[leave]`, the others between them.
void append_path(const std::vector<int>& local, int enter, int leave, std::vector<int>& order) {
  const int size = static_cast<int>(local.size());
  order.push_back(local[static_cast<std::size_t>(enter)]);
  if (size == 1) return;
  for (int step = 0; step < size; ++step) {
    const int index = enter <= leave ? step : size - 1 - step;
    if (index != enter && index != leave) order.push_back(local[static_cast<std::size_t>(index)]);
  }
  order.push_back(local[static_cast<std::size_t>(leave)]);
}

/// Where the ring leaves the i-th of `hosts` hosts, entered at local index `enter`; `gates` local indices exist on
/// all hosts. The ring goes to and fro between the first and the last gate; with an odd number of hosts that would
/// leave the last but one at gate 0, where the last one must leave, so it takes gate 1 if there is one to spare.
int leaving_gate(int i, int hosts, int enter, int gates) {
  const bool last_but_one = i == hosts - 2;
  if (last_but_one && hosts % 2 == 1 && gates > 2) return 1;
  return enter == 0 ? gates - 1 : 0;
}

}  // namespace

std::vector<int> ring_order(const Layout& layout) {
  std::vector<std::vector<int>> by_host(static_cast<std::size_t>(layout.hosts()));
  for (int rank = 0; rank < layout.ranks(); ++rank)
    by_host[static_cast<std::size_t>(layout.host_of[static_cast<std::size_t>(rank)])].push_back(rank);
  int gates = layout.ranks();
  for (const auto& local : by_host) gates = std::min(gates, static_cast<int>(local.size()));

  std::vector<int> order;
  order.reserve(layout.host_of.size());
  int enter = 0;
  int visited = 0;
  for (int host : host_order(layout)) {
    const auto& local = by_host[static_cast<std::size_t>(host)];
    int leave = leaving_gate(visited++, layout.hosts(), enter, gates);
    if (leave == enter) leave = static_cast<int>(local.size()) - 1;  // a single gate, but more ranks here
    append_path(local, enter, leave, order);
    enter = std::min(leave, gates - 1);
  }
  return order;
}

int cross_leaf_hops(const Layout& layout, const std::vector<int>& order) {
  int hops = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int here = layout.host_of[static_cast<std::size_t>(order[i])];
    const int next = layout.host_of[static_cast<std::size_t>(order[(i + 1) % order.size()])];
    if (layout.leaf_of(here) != layout.leaf_of(next)) ++hops;
  }
  return hops;
}

}  // namespace tutti
