// What others have published for topologies that are built in, to hold results against. Figures, no code; sources stand
// beside them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "program/program.hpp"

namespace tutti {

struct PublishedTime {
  std::uint64_t bytes = 0;
  double microseconds = 0;
};

struct Published {
  std::string_view who;
  std::string_view topology;  // its name
  Collective collective = Collective::all_gather;
  std::span<const PublishedTime> times;
};

std::span<const Published> published_times();

}  // namespace tutti
