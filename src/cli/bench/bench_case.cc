#include "cli/bench/bench_case.hpp"

namespace tutti::cli {
namespace {

// Around a ring: to the next rank, from the one before.
Status run_sendrecv(Communicator& communicator, const BenchCall& call) {
  const int next = (communicator.rank() + 1) % communicator.size();
  const int previous = (communicator.rank() + communicator.size() - 1) % communicator.size();
  Group group;
  if (auto sent = communicator.send(call.send, call.count, call.type, next); !sent) return sent;
  if (auto received = communicator.recv(call.recv, call.count, call.type, previous); !received) return received;
  return group.end();
}

}  // namespace

const std::vector<BenchCase>& bench_cases() {
  static const std::vector<BenchCase> all = {
      {"all_reduce", true, false, false, true},    {"reduce", true, true, false, true},
      {"broadcast", false, true, false, true},     {"all_gather", false, false, true, true},
      {"reduce_scatter", true, false, true, true}, {"all_to_all", false, false, true, false},
      {"gather", false, true, true, true},         {"scatter", false, true, true, true},
      {"sendrecv", false, false, false, false},    {"barrier", false, false, false, false, false},
  };
  return all;
}

const BenchCase* find_bench_case(std::string_view name) {
  for (const BenchCase& each : bench_cases())
    if (name == each.name) return &each;
  return nullptr;
}

Status BenchCase::run(Communicator& communicator, const BenchCall& call) const {
  const std::string_view which = name;
  const auto& [send, recv, count, type, reduction, root] = call;
  if (which == "all_reduce") return communicator.all_reduce(send, recv, count, type, reduction);
  if (which == "reduce") return communicator.reduce(send, recv, count, type, reduction, root);
  if (which == "broadcast") return communicator.broadcast(send, recv, count, type, root);
  if (which == "all_gather") return communicator.all_gather(send, recv, count, type);
  if (which == "reduce_scatter") return communicator.reduce_scatter(send, recv, count, type, reduction);
  if (which == "all_to_all") return communicator.all_to_all(send, recv, count, type);
  if (which == "gather") return communicator.gather(send, recv, count, type, root);
  if (which == "scatter") return communicator.scatter(send, recv, count, type, root);
  if (which == "sendrecv") return run_sendrecv(communicator, call);
  return communicator.barrier();
}

std::size_t BenchCase::count_of(std::size_t bytes, std::size_t element_bytes, int ranks) const {
  if (!moves_data) return 0;
  const std::size_t all = bytes / element_bytes;
  return blocks ? all / static_cast<std::size_t>(ranks) : all;
}

Elements BenchCase::elements(std::size_t count, int ranks) const {
  const std::size_t whole = count * static_cast<std::size_t>(ranks);
  const std::string_view which = name;
  if (which == "all_gather" || which == "gather") return {count, whole};
  if (which == "reduce_scatter" || which == "scatter") return {whole, count};
  if (which == "all_to_all") return {whole, whole};
  return {count, count};
}

Elements BenchCase::in_place_offsets(std::size_t count, int rank) const {
  const std::size_t block = count * static_cast<std::size_t>(rank);
  const std::string_view which = name;
  if (which == "all_gather" || which == "gather") return {block, 0};
  if (which == "reduce_scatter" || which == "scatter") return {0, block};
  return {0, 0};
}

std::vector<Expectation> BenchCase::expectations(std::size_t count, int rank, int ranks, int root) const {
  const std::string_view which = name;
  const std::size_t mine = count * static_cast<std::size_t>(rank);
  const bool at_root = rank == root;
  if (which == "all_reduce" || (which == "reduce" && at_root)) return {{0, count, Expectation::kReduced, 0}};
  if (which == "reduce_scatter") return {{0, count, Expectation::kReduced, mine}};
  if (which == "broadcast") return {{0, count, root, 0}};
  if (which == "scatter") return {{0, count, root, mine}};
  if (which == "sendrecv") return {{0, count, (rank + ranks - 1) % ranks, 0}};
  std::vector<Expectation> all;
  const bool gathers = which == "all_gather" || (which == "gather" && at_root);
  if (!gathers && which != "all_to_all") return all;
  for (int source = 0; source < ranks; ++source)
    all.push_back({count * static_cast<std::size_t>(source), count, source, gathers ? 0 : mine});
  return all;
}

double BenchCase::bus_factor(int ranks) const {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (std::string_view(name) == "all_reduce") return 2 * share;
  return blocks ? share : 1.0;
}

}  // namespace tutti::cli
