#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "algorithm/algorithm.hpp"
#include "base/clock.hpp"
#include "cli/tune/tune.hpp"

namespace tutti::cli {
namespace {

constexpr Collective kTuned[] = {Collective::all_reduce, Collective::reduce,         Collective::broadcast,
                                 Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all,
                                 Collective::gather,     Collective::scatter};

/// Whether a collective's size counts the blocks of all ranks.
bool counts_blocks(Collective collective) {
  return collective != Collective::all_reduce && collective != Collective::reduce &&
         collective != Collective::broadcast;
}

Status call(Communicator& communicator, Collective collective, const std::vector<float>& send, std::vector<float>& recv,
            std::size_t count) {
  const void* const from = send.data();
  void* const to = recv.data();
  switch (collective) {
    case Collective::all_reduce:
      return communicator.all_reduce(from, to, count, DataType::float32, Operator::sum);
    case Collective::reduce:
      return communicator.reduce(from, to, count, DataType::float32, Operator::sum, 0);
    case Collective::broadcast:
      return communicator.broadcast(from, to, count, DataType::float32, 0);
    case Collective::all_gather:
      return communicator.all_gather(from, to, count, DataType::float32);
    case Collective::reduce_scatter:
      return communicator.reduce_scatter(from, to, count, DataType::float32, Operator::sum);
    case Collective::all_to_all:
      return communicator.all_to_all(from, to, count, DataType::float32);
    case Collective::gather:
      return communicator.gather(from, to, count, DataType::float32, 0);
    case Collective::scatter:
      return communicator.scatter(from, to, count, DataType::float32, 0);
    default:
      return communicator.barrier();
  }
}

/// The slowest rank's time of one run of calls, in microseconds a call.
Result<double> time_calls(Communicator& communicator, Collective collective, const std::vector<float>& send,
                          std::vector<float>& recv, std::size_t count, int calls) {
  if (Status met = communicator.barrier(); !met) return tl::unexpected(met.error());
  const std::uint64_t start = ticks();
  for (int i = 0; i < calls; ++i)
    if (Status done = call(communicator, collective, send, recv, count); !done) return tl::unexpected(done.error());
  double mine = microseconds_since(start) / calls;
  double slowest = 0;
  if (Status done = communicator.all_reduce(&mine, &slowest, 1, DataType::float64, Operator::max); !done)
    return tl::unexpected(done.error());
  return slowest;
}

std::vector<Choice> candidates(Collective collective, const Layout& layout, std::size_t bytes) {
  std::vector<Choice> choices;
  for (const Algorithm& algorithm : algorithms()) {
    if (!algorithm.supports(collective, layout)) continue;
    // Programs that write peers' memory run by themselves where it can be mapped.
    if (algorithm.name == "direct_push") continue;
    choices.push_back({.algorithm = std::string(algorithm.name)});
    for (const std::size_t tile : {std::size_t{64} << 10, std::size_t{256} << 10, std::size_t{1} << 20})
      if (bytes / static_cast<std::size_t>(layout.ranks()) > tile)
        choices.push_back({.algorithm = std::string(algorithm.name), .tile = tile});
  }
  return choices;
}

}  // namespace

Result<std::vector<Trial>> search_programs(Communicator& communicator, const TuneOptions& options,
                                           const std::function<void(const Trial&)>& tell) {
  Layout layout;
  layout.host_of = communicator.layout().host_of_rank;
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<float> send(options.max_bytes / sizeof(float) + ranks, 1.0F);
  std::vector<float> recv(send.size());
  std::vector<Trial> trials;
  for (const Collective collective : kTuned)
    for (std::size_t bytes = options.min_bytes; bytes <= options.max_bytes; bytes *= 8) {
      const std::size_t blocks = counts_blocks(collective) ? ranks : 1;
      const std::size_t count = std::max<std::size_t>(1, bytes / sizeof(float) / blocks);
      for (const Choice& choice : candidates(collective, layout, bytes)) {
        SelectionRule rule;
        rule.collective = collective;
        rule.choice = choice;
        if (Status chosen = communicator.select(to_string({rule})); !chosen) return tl::unexpected(chosen.error());
        Trial trial{collective, bytes, choice, -1};
        // What cannot run here fails at the start on every rank alike, and leaves the communicator whole.
        const Status first = call(communicator, collective, send, recv, count);
        if (!first && !communicator.status()) return tl::unexpected(first.error());
        if (first) {
          const int calls = static_cast<int>(std::clamp<std::size_t>((4 << 20) / (bytes + 4096), 2, 200));
          for (int round = 0; round < 3; ++round) {
            const Result<double> time = time_calls(communicator, collective, send, recv, count, calls);
            if (!time) return tl::unexpected(time.error());
            trial.microseconds = trial.microseconds < 0 ? *time : std::min(trial.microseconds, *time);
          }
        }
        trials.push_back(trial);
        tell(trial);
      }
    }
  return trials;
}

std::vector<SelectionRule> rules_of(const std::vector<Trial>& trials, const HostLayout& hosts) {
  Layout layout;
  layout.host_of = hosts.host_of_rank;
  std::map<Collective, std::map<std::size_t, Trial>> best;
  for (const Trial& trial : trials) {
    if (trial.microseconds < 0) continue;
    auto& sizes = best[trial.collective];
    const auto found = sizes.find(trial.bytes);
    if (found == sizes.end() || trial.microseconds < found->second.microseconds) sizes[trial.bytes] = trial;
  }
  std::vector<SelectionRule> rules;
  for (const auto& [collective, sizes] : best) {
    std::uint64_t first = 0;
    for (auto at = sizes.begin(); at != sizes.end(); ++at) {
      const auto next = std::next(at);
      Choice choice = at->second.choice;
      // Trials run in ordinary memory; what runs in memory that can be mapped stays as it is.
      const Choice standard =
          select({.collective = collective, .bytes = at->first, .ranks = layout.ranks(), .hosts = layout.hosts()}, {});
      choice.when_mapped = standard.when_mapped;
      choice.mapped_tile = standard.mapped_tile;
      // Between two sizes measured the border lies at their geometric mean: 8 times apart, about a factor of 3.
      const std::uint64_t last = next == sizes.end() ? ~std::uint64_t{0} : at->first * 3;
      if (!rules.empty() && rules.back().collective == collective && rules.back().choice == choice)
        rules.back().last = last;
      else
        rules.push_back({collective, first, last, choice});
      first = last + 1;
    }
  }
  return rules;
}

}  // namespace tutti::cli
