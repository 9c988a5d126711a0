// What membership costs each rank, of 16 to 100,000 simulated ones: a line of JSON per figure (bench/membership.py).
//
//   membership_bench agreement|notices|startup RANKS [flat]
#include <cstdlib>
#include <cstring>

#include "agreement.hpp"
#include "flood.hpp"
#include "startup.hpp"

int main(int count, char** arguments) {
  using namespace tutti::membership;
  if (count < 3) return 2;
  const int ranks = std::atoi(arguments[2]);
  if (ranks < 16) return 2;
  if (std::strcmp(arguments[1], "notices") == 0) return measure_notices(ranks) ? 0 : 1;
  if (std::strcmp(arguments[1], "startup") == 0) return measure_startup(ranks) ? 0 : 1;
  if (count > 3)
    return measure_agreement("agreement, all right below the leader",
                             {.members = ranks, .flat = true, .dead_before = 8})
               ? 0
               : 1;
  const bool right = measure_agreement("agreement, 8 known dead", {.members = ranks, .dead_before = 8}) &&
                     measure_agreement("agreement, the leader dies while it proposes",
                                       {.members = ranks, .dead_before = 2, .leader_dies = true}) &&
                     measure_agreement("agreement, 3 die under way", {.members = ranks, .inner_deaths = 3});
  return right ? 0 : 1;
}
