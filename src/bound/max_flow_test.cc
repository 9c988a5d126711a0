#include "bound/max_flow.hpp"

#include <gtest/gtest.h>

#include <random>

namespace tutti {
namespace {

struct Arc {
  int from, to;
  std::int64_t capacity;
};

std::int64_t least_cut_by_trying_all(int vertices, const std::vector<Arc>& arcs) {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (unsigned set = 0; set < (1U << vertices); ++set) {
    const auto inside = [&](int v) { return ((set >> v) & 1U) != 0; };
    if (!inside(0) || inside(vertices - 1)) continue;
    std::int64_t cut = 0;
    for (const Arc& arc : arcs)
      if (inside(arc.from) && !inside(arc.to)) cut += arc.capacity;
    least = std::min(least, cut);
  }
  return least;
}

TEST(MaxFlow, IsTheLeastCutOnRandomGraphs) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int vertices = 3 + static_cast<int>(random() % 7);
    std::vector<Arc> arcs;
    for (int i = 0; i < vertices * 3; ++i)
      arcs.push_back({static_cast<int>(random() % unsigned(vertices)), static_cast<int>(random() % unsigned(vertices)),
                      static_cast<std::int64_t>(random() % 20)});
    MaxFlow<std::int64_t> flow(vertices);
    MaxFlow<__int128> wide(vertices);
    const __int128 factor = __int128{1} << 80;
    for (const Arc& arc : arcs) {
      flow.add_arc(arc.from, arc.to, arc.capacity);
      wide.add_arc(arc.from, arc.to, factor * arc.capacity);
    }
    flow.finish();
    wide.finish();
    const std::int64_t least = least_cut_by_trying_all(vertices, arcs);
    EXPECT_EQ(flow.solve(0, vertices - 1), least) << "seed " << seed;
    EXPECT_TRUE(wide.solve(0, vertices - 1) == factor * least) << "seed " << seed;
    const auto side = flow.source_side(0);
    std::int64_t cut = 0;
    for (const Arc& arc : arcs)
      if (side[std::size_t(arc.from)] && !side[std::size_t(arc.to)]) cut += arc.capacity;
    EXPECT_EQ(cut, least) << "seed " << seed;
  }
}

TEST(MaxFlow, StopsWhenItHasEnough) {
  MaxFlow<std::int64_t> flow(3);
  flow.add_arc(0, 1, 10);
  const int second = flow.add_arc(1, 2, 10);
  flow.finish();
  EXPECT_EQ(flow.solve(0, 2, 4), 4);
  EXPECT_EQ(flow.solve(0, 2), 10) << "each solve starts anew";
  flow.set_capacity(second, 3);
  EXPECT_EQ(flow.solve(0, 2), 3);
}

}  // namespace
}  // namespace tutti
