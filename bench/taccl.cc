// TACCL's own examples through TACCL's stages (synthesis/taccl.hpp): a table of what each took, and of what its model
// says the result takes. Fails where one has no result, or takes longer than TACCL's examples may: taccl_bench EXAMPLES
#include "synthesis/taccl/taccl.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "synthesis/taccl/taccl_shipped.hpp"

namespace {

constexpr double kMostSeconds = 10;

}  // namespace

int main(int argc, char** argv) {
  const auto cases = tutti::shipped_cases(argc > 1 ? argv[1] : "examples");
  if (!cases) {
    fmt::print(stderr, "taccl: {}\n", cases.error().message);
    return 1;
  }
  fmt::print("| example | rows x binaries | seconds | routed us | ordered us | TACCL us | proven |\n");
  fmt::print("|---|---|---|---|---|---|---|\n");
  int failures = 0;
  double slowest = 0;
  for (const tutti::ShippedCase& one : *cases) {
    const auto result = tutti::taccl_synthesize(one.profile, one.restrictions, one.collective);
    if (!result) {
      fmt::print("| {} | {} |\n", one.name(), result.error().message);
      ++failures;
      continue;
    }
    slowest = std::max(slowest, result->solve_seconds);
    fmt::print("| {} | {} x {} | {:.2f} | {:.2f} | {:.2f} | {:.2f} | {}{} |\n", one.name(), result->rows,
               result->binaries, result->solve_seconds, result->routed_seconds * 1e6, result->ordered_seconds * 1e6,
               result->seconds * 1e6,
               result->routing_optimal ? "routes" : fmt::format("routes within {:.2f} %", 100 * result->routing_gap),
               result->joining_optimal ? ", joins" : "");
    std::fflush(stdout);
  }
  fmt::print("\n{} examples, {} without a result; the slowest took {:.1f} s\n", cases->size(), failures, slowest);
  return failures == 0 && slowest < kMostSeconds ? 0 : 1;
}
