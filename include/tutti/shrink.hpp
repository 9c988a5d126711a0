// What Communicator::shrink() may do without. Plain values.
//
// Deaths are known or presumed. A death is known if the process's host or its connection told of its end, or if it said
// goodbye. It is presumed if the process is silent: it may be dead, or live on the far side of a network that fell
// apart, and presume the same of this side. If both sides went on, there would be two rank 0, which write the same
// files. So ranks go on without silent ones only if they have a quorum, which at most one side can have.
#pragma once

#include <vector>

namespace tutti {

/// Who may go on without ranks that are silent. Pass the same on all ranks.
enum class Quorum {
  majority,     // more than half of the communicator's ranks, the dead included
  with_rank_0,  // the same, and of two equal halves the one that holds rank 0; for jobs on two hosts
  none,         // whoever is left: only if something else, such as a power switch, made sure that the others are dead
};

struct ShrinkOptions {
  double seconds = 10.0;  // to wait for ranks that live and have not called shrink()
  Quorum quorum = Quorum::majority;
  std::vector<int> dead = {};  // ranks that the caller knows to be dead: they need no quorum, and are left out
};

}  // namespace tutti
