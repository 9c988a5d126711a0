#include "synthesis/taccl/taccl_problem.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "topology/disjoint_sets.hpp"

namespace tutti {
namespace {

constexpr int kFar = 1 << 20;

std::size_t at(int index) { return static_cast<std::size_t>(index); }

class TacclProblemBuilder {
 public:
  TacclProblemBuilder(TacclModel model, Collective collective) {
    problem_.shape = {collective, model.ranks(), 0, model.chunks};
    problem_.ports_of = model.ports_of_links();
    for (const SymmetryOffset& rule : model.symmetries) {
      Permutation ranks;
      for (int rank = 0; rank < model.ranks(); ++rank)
        ranks.push_back((rank % rule.group + rule.offset) % rule.group + rank / rule.group * rule.group);
      problem_.symmetries.push_back(std::move(ranks));
    }
    problem_.model = std::move(model);
    for (std::size_t i = 0; i < links().size(); ++i)
      link_between_[{links()[i].from, links()[i].to}] = static_cast<int>(i);
  }

  Result<TacclProblem> build() {
    for (int chunk = 0; chunk < chunks_of(problem_.shape); ++chunk)
      if (Status status = add_chunk(chunk); !status) return tl::unexpected(status.error());
    equate_options();
    equate_arrivals();
    equate_connections();
    return std::move(problem_);
  }

 private:
  const std::vector<TacclLink>& links() const { return problem_.model.links; }

  Status add_chunk(int index) {
    TacclChunk chunk;
    chunk.home = home_of(problem_.shape, index);
    for (int rank = 0; rank < problem_.model.ranks(); ++rank)
      if (rank != chunk.home && wants(problem_.shape, index, rank)) chunk.wanted.push_back(rank);
    const std::vector<int> allowed = allowed_links(chunk);
    const auto inside = on_shortest_paths(chunk, allowed);
    if (!inside) return tl::unexpected(inside.error());
    for (const int link : allowed)
      if ((*inside)[at(links()[at(link)].from)] && (*inside)[at(links()[at(link)].to)] &&
          links()[at(link)].to != chunk.home) {
        chunk.options.push_back(static_cast<int>(problem_.options.size()));
        problem_.options.push_back({index, link, 0});
      }
    problem_.chunks.push_back(std::move(chunk));
    return {};
  }

  std::vector<int> allowed_links(const TacclChunk& chunk) const {
    const TacclModel& model = problem_.model;
    const int home = model.node_of(chunk.home);
    std::set<int> nodes = {home};
    for (const int rank : chunk.wanted) nodes.insert(model.node_of(rank));
    const std::vector<int>& senders = model.senders_of[at(chunk.home)];
    std::vector<int> allowed;
    for (std::size_t i = 0; i < links().size(); ++i) {
      const TacclLink& link = links()[i];
      if (nodes.count(model.node_of(link.from)) == 0 || nodes.count(model.node_of(link.to)) == 0) continue;
      const bool may_leave = senders.empty() || std::find(senders.begin(), senders.end(), link.from) != senders.end();
      if (!link.remote || (model.node_of(link.from) == home && may_leave)) allowed.push_back(static_cast<int>(i));
    }
    return allowed;
  }

  /// Hops from (or, backwards, to) a rank over some links.
  std::vector<int> hops(int rank, const std::vector<int>& allowed, bool backwards) const {
    std::vector<std::vector<int>> next(at(problem_.model.ranks()));
    for (const int link : allowed) {
      const auto [from, to] = std::pair(links()[at(link)].from, links()[at(link)].to);
      next[at(backwards ? to : from)].push_back(backwards ? from : to);
    }
    std::vector<int> distance(at(problem_.model.ranks()), kFar);
    std::vector<int> queue = {rank};
    distance[at(rank)] = 0;
    for (std::size_t i = 0; i < queue.size(); ++i)
      for (const int peer : next[at(queue[i])])
        if (distance[at(peer)] == kFar) {
          distance[at(peer)] = distance[at(queue[i])] + 1;
          queue.push_back(peer);
        }
    return distance;
  }

  Result<std::vector<char>> on_shortest_paths(const TacclChunk& chunk, const std::vector<int>& allowed) const {
    const std::vector<int> from_home = hops(chunk.home, allowed, false);
    std::vector<char> inside(at(problem_.model.ranks()), 0);
    for (const int rank : chunk.wanted) {
      if (from_home[at(rank)] == kFar) return unreachable(chunk.home, rank);
      const std::vector<int> to_rank = hops(rank, allowed, true);
      for (int via = 0; via < problem_.model.ranks(); ++via)
        if (from_home[at(via)] + to_rank[at(via)] == from_home[at(rank)]) inside[at(via)] = 1;
    }
    return inside;
  }

  tl::unexpected<Error> unreachable(int home, int rank) const {
    const std::vector<int>& senders = problem_.model.senders_of[at(home)];
    const bool other_node = problem_.model.node_of(home) != problem_.model.node_of(rank);
    const std::string why = !other_node ? "no links within the node lead there"
                            : senders.empty()
                                ? "no connection of internode_conn leads there"
                                : fmt::format("gpus_to_sender_rev_map lets them leave their node through {} only",
                                              fmt::join(senders, ", "));
    return fail(ErrorCode::invalid_argument,
                fmt::format("the sketch cannot be met: chunks of rank {} cannot get to rank {}: {}", home, rank, why));
  }

  int image_of_link(int link, const Permutation& symmetry) const {
    const auto found = link_between_.find({symmetry[at(links()[at(link)].from)], symmetry[at(links()[at(link)].to)]});
    return found == link_between_.end() ? -1 : found->second;
  }

  /// Links from group to group of a symmetry are as free as TACCL leaves them.
  bool crosses(int link, const SymmetryOffset& rule) const {
    return links()[at(link)].from / rule.group != links()[at(link)].to / rule.group;
  }

  void equate_options() {
    std::map<std::pair<int, int>, int> index;
    std::vector<TacclOption>& options = problem_.options;
    for (std::size_t i = 0; i < options.size(); ++i) index[{options[i].chunk, options[i].link}] = static_cast<int>(i);
    DisjointSets classes(static_cast<int>(options.size()));
    std::vector<int> lonely;  // their images are ruled out, so they are
    for (std::size_t rule = 0; rule < problem_.symmetries.size(); ++rule)
      for (std::size_t i = 0; i < options.size(); ++i) {
        if (crosses(options[i].link, problem_.model.symmetries[rule])) continue;
        const Permutation& symmetry = problem_.symmetries[rule];
        const auto image =
            index.find({problem_.image_of(options[i].chunk, symmetry), image_of_link(options[i].link, symmetry)});
        if (image == index.end())
          lonely.push_back(static_cast<int>(i));
        else
          classes.unite(static_cast<int>(i), image->second);
      }
    drop(lonely, classes);
  }

  void drop(const std::vector<int>& lonely, DisjointSets& classes) {
    std::set<int> dropped;
    for (const int option : lonely) dropped.insert(classes.find(option));
    std::vector<TacclOption> kept;
    std::map<int, int> numbers;
    for (TacclChunk& chunk : problem_.chunks) {
      std::vector<int> options;
      for (const int option : chunk.options) {
        const int own = classes.find(option);
        if (dropped.count(own) > 0) continue;
        options.push_back(static_cast<int>(kept.size()));
        kept.push_back(problem_.options[at(option)]);
        kept.back().same = numbers.emplace(own, static_cast<int>(numbers.size())).first->second;
      }
      chunk.options = std::move(options);
    }
    problem_.options = std::move(kept);
    problem_.decisions = static_cast<int>(numbers.size());
  }

  void equate_arrivals() {
    const int ranks = problem_.model.ranks();
    DisjointSets classes(static_cast<int>(problem_.chunks.size()) * ranks);
    for (const Permutation& symmetry : problem_.symmetries)
      for (int chunk = 0; chunk < static_cast<int>(problem_.chunks.size()); ++chunk)
        for (int rank = 0; rank < ranks; ++rank)
          classes.unite(chunk * ranks + rank, problem_.image_of(chunk, symmetry) * ranks + symmetry[at(rank)]);
    problem_.arrival_of = classes.numbers();
    for (const int arrival : problem_.arrival_of) problem_.arrivals = std::max(problem_.arrivals, arrival + 1);
  }

  void equate_connections() {
    DisjointSets classes(static_cast<int>(links().size()));
    for (std::size_t rule = 0; rule < problem_.symmetries.size(); ++rule)
      for (int link = 0; link < static_cast<int>(links().size()); ++link)
        if (const int image = image_of_link(link, problem_.symmetries[rule]);
            image >= 0 && !crosses(link, problem_.model.symmetries[rule]))
          classes.unite(link, image);
    problem_.connection_of = classes.numbers();
  }

  TacclProblem problem_;
  std::map<std::pair<int, int>, int> link_between_;
};

}  // namespace

int TacclProblem::image_of(int chunk, const Permutation& symmetry) const {
  const int piece = chunk % shape.chunks, block = chunk / shape.chunks;
  if (shape.collective != Collective::all_to_all) return symmetry[at(block)] * shape.chunks + piece;
  return (symmetry[at(block / shape.ranks)] * shape.ranks + symmetry[at(block % shape.ranks)]) * shape.chunks + piece;
}

std::vector<int> TacclProblem::options_into(int chunk, int rank) const {
  std::vector<int> into;
  for (const int option : chunks[at(chunk)].options)
    if (link_of(options[at(option)]).to == rank) into.push_back(option);
  return into;
}

Result<TacclProblem> taccl_problem(TacclModel model, Collective collective) {
  if (collective != Collective::all_gather && collective != Collective::all_to_all)
    return fail(ErrorCode::unsupported,
                fmt::format("TACCL's routing does all_gather and all_to_all, not {}", name_of(collective)));
  return TacclProblemBuilder(std::move(model), collective).build();
}

}  // namespace tutti
