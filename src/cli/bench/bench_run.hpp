// A whole `tutti bench` run as one rank sees it: every collective, type, operator, root and size asked for.
#pragma once

#include <string>
#include <vector>

#include "cli/bench/bench_options.hpp"
#include "tutti/communicator.hpp"

namespace tutti::cli {

/// 0; 1 where a result was wrong or a call failed, which is then told on standard error. Rank 0 prints the table.
int run_bench(Communicator& communicator, const BenchOptions& options, const std::vector<std::string>& arguments);

}  // namespace tutti::cli
