// What TACCL's routing decides on: which chunks there are, and over which links each may go.
//
// A chunk may use links between ranks that lie on a path with the fewest hops to some rank that wants it. It goes from
// its home node to every other node that wants it directly, through the senders the sketch names; it is in no other
// node. Ways that the senders forbid do not count as paths: TACCL counts them, and finds no routes for an all-to-all
// whose shortest ways lead through other senders.
//
// Symmetries make decisions equal: a chunk over a link, and the image of both, are one decision (`same`), except for
// links that cross from group to group of a symmetry; arrivals of a chunk at a rank, and of the images, likewise.
// Plain values.
#pragma once

#include <vector>

#include "synthesis/schedule.hpp"
#include "synthesis/taccl/taccl_model.hpp"

namespace tutti {

/// A chunk over a link: routing says yes or no.
struct TacclOption {
  int chunk = 0;
  int link = 0;
  int same = 0;  // options with the same number are taken together; dense, from 0
};

struct TacclChunk {
  int home = 0;
  std::vector<int> wanted;   // ranks, without its home
  std::vector<int> options;  // indices
};

struct TacclProblem {
  TacclModel model;
  Shape shape;
  std::vector<TacclChunk> chunks;  // as schedules number them
  std::vector<TacclOption> options;
  int decisions = 0;                       // different values of `same`
  std::vector<int> arrival_of;             // [chunk * ranks + rank] number of the arrival
  int arrivals = 0;                        // different values of these
  std::vector<int> connection_of;          // [link] number of those a symmetry equates
  std::vector<Permutation> symmetries;     // of ranks
  std::vector<std::vector<int>> ports_of;  // [link] the ports it goes through

  const TacclLink& link_of(const TacclOption& option) const { return model.links[std::size_t(option.link)]; }
  int arrival(int chunk, int rank) const {
    return arrival_of[std::size_t(chunk) * std::size_t(model.ranks()) + std::size_t(rank)];
  }
  /// The chunk that starts, and is wanted, where the symmetry takes the chunk's ranks.
  int image_of(int chunk, const Permutation& symmetry) const;
  /// The chunk's options that bring it to the rank.
  std::vector<int> options_into(int chunk, int rank) const;
};

/// all_gather or all_to_all. The error names a rank that the chunks of another cannot get to, and why.
Result<TacclProblem> taccl_problem(TacclModel model, Collective collective);

}  // namespace tutti
