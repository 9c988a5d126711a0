#include "measure/measurements.hpp"

#include <nlohmann/json.hpp>

#include "measure/fit.hpp"

namespace tutti {
namespace {

nlohmann::ordered_json pair_to_json(const PairTimes& pair) {
  nlohmann::ordered_json times = nlohmann::ordered_json::array();
  for (const SizeTime& time : pair.times) times.push_back({{"bytes", time.bytes}, {"us", time.seconds * 1e6}});
  const LineFit fit = fit_line(pair.times);
  nlohmann::ordered_json written = {{"from", pair.from},
                                    {"to", pair.to},
                                    {"latency_us", fit.latency * 1e6},
                                    {"MBps", fit.rate / 1e6},
                                    {"MBps_error", fit.rate_error},
                                    {"fit_error", fit.error},
                                    {"one_way", times}};
  if (pair.chunk_bytes > 0)
    written["chunks"] = {{"bytes", pair.chunk_bytes},
                         {"one_by_one_us", pair.one_by_one * 1e6},
                         {"back_to_back_us", pair.back_to_back * 1e6}};
  return written;
}

nlohmann::ordered_json together_to_json(const Together& together) {
  nlohmann::ordered_json flows = nlohmann::ordered_json::array();
  for (const RankFlow& flow : together.flows) flows.push_back({flow.from, flow.to});
  return {{"shared", name_of(together.shared)},
          {"subject", together.subject},
          {"flows", flows},
          {"alone_MBps", together.alone / 1e6},
          {"together_MBps", together.rate / 1e6}};
}

}  // namespace

std::string_view name_of(SharedResource shared) {
  switch (shared) {
    case SharedResource::egress:
      return "egress";
    case SharedResource::ingress:
      return "ingress";
    case SharedResource::host_egress:
      return "host egress";
    case SharedResource::host_ingress:
      return "host ingress";
    case SharedResource::host_memory:
      return "host memory";
    case SharedResource::trunk:
      return "trunk";
  }
  return "?";
}

std::string measurements_to_json(const Measurements& measurements) {
  nlohmann::ordered_json written = {
      {"format", "tutti measurements 1"},         {"ranks", measurements.ranks()},
      {"host_of_rank", measurements.host_of},     {"sampled", measurements.sampled},
      {"pairs", nlohmann::ordered_json::array()}, {"together", nlohmann::ordered_json::array()}};
  for (const PairTimes& pair : measurements.pairs) written["pairs"].push_back(pair_to_json(pair));
  for (const Together& together : measurements.together) written["together"].push_back(together_to_json(together));
  return written.dump(1) + "\n";
}

}  // namespace tutti
