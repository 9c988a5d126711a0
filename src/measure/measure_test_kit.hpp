// Machines that exist on paper: what measuring them would give.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "measure/findings.hpp"
#include "measure/plan.hpp"

namespace tutti {

inline constexpr double kMB = 1e6;
inline constexpr double kMicro = 1e-6;

struct PaperMachine {
  std::vector<int> host_of;
  std::function<double(int, int)> rate;                                            // bytes per second, of a pair alone
  std::function<double(int, int)> latency = [](int, int) { return 50 * kMicro; };  // seconds
  std::function<double(const Together&)> limit = [](const Together&) { return 1e300; };  // of flows together
  double noise = 0.02;

  Measurements measure(unsigned seed = 1) const {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> off(1 - noise, 1 + noise);
    Measurements found;
    found.host_of = host_of;
    for (const auto& [a, b] : pairs_in_rounds(found.ranks()))
      for (const RankFlow flow : {RankFlow{a, b}, RankFlow{b, a}}) {
        PairTimes pair{flow.from, flow.to, {}, 0, 0, 0};
        for (const std::uint64_t bytes : {8, 4096, 65536, 1 << 20})
          pair.times.push_back(
              {bytes,
               (latency(flow.from, flow.to) + static_cast<double>(bytes) / rate(flow.from, flow.to)) * off(random)});
        found.pairs.push_back(pair);
      }
    const PairTable pairs(found);
    for (Together together : plan_together(pairs, islands_of(pairs))) {
      together.rate = std::min(together.alone, limit(together)) * off(random);
      found.together.push_back(together);
    }
    return found;
  }
};

/// The rate of what goes through each rank's port, as a limit of flows that may each take as long as the slowest.
inline double port_limit(const Together& together, const std::function<double(int, int)>& rate, double out, double in) {
  std::map<int, double> sent, received;
  double alone = 0, longest = 1;
  for (const RankFlow& flow : together.flows) {
    alone += rate(flow.from, flow.to);
    longest = std::max(longest, (sent[flow.from] += rate(flow.from, flow.to)) / out);
    longest = std::max(longest, (received[flow.to] += rate(flow.from, flow.to)) / in);
  }
  return alone / longest;
}

}  // namespace tutti
