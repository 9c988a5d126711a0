// The measuring of `tutti topo measure`: messages between the ranks of a communicator, through its public calls, on
// host memory. All ranks call measure_job() alike; rank 0's clock decides when time is up.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "measure/measurements.hpp"
#include "tutti/communicator.hpp"

namespace tutti::cli {

struct MeasureOptions {
  std::vector<std::uint64_t> sizes = {8,        1 << 10,   4 << 10, 16 << 10,
                                      64 << 10, 256 << 10, 1 << 20, 4 << 20};  // ascending
  double seconds = 60;  // for all of it; less where networks are fast
};

/// How far measuring is, of what.
struct MeasureProgress {
  std::string what;
  std::size_t done = 0;
  std::size_t of = 0;
};

/// The same result on every rank. `tell` is called on every rank.
Result<Measurements> measure_job(Communicator& communicator, const MeasureOptions& options,
                                 const std::function<void(const MeasureProgress&)>& tell);

}  // namespace tutti::cli
