// Counts of what each of many simulated members sends and receives, and the lines of JSON that tell.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

namespace tutti::membership {

/// A figure of each member.
class Figures {
 public:
  explicit Figures(int members) : of_(static_cast<std::size_t>(members)) {}
  std::uint64_t& operator[](int member) { return of_[static_cast<std::size_t>(member)]; }
  std::uint64_t most() const { return *std::max_element(of_.begin(), of_.end()); }
  double mean() const {
    return static_cast<double>(std::accumulate(of_.begin(), of_.end(), std::uint64_t{0})) /
           static_cast<double>(of_.size());
  }

 private:
  std::vector<std::uint64_t> of_;
};

/// One line: the figure `what` of a scenario of so many ranks.
inline void print_figure(const std::string& scenario, int ranks, const char* what, double mean, double most) {
  fmt::print("{{\"scenario\": \"{}\", \"ranks\": {}, \"what\": \"{}\", \"mean\": {:.6g}, \"max\": {:.10g}}}\n",
             scenario, ranks, what, mean, most);
  std::fflush(stdout);
}

inline void print_figure(const std::string& scenario, int ranks, const char* what, const Figures& figures) {
  print_figure(scenario, ranks, what, figures.mean(), static_cast<double>(figures.most()));
}

}  // namespace tutti::membership
