#include "cli/bench/bench_report.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "tutti/version.hpp"

namespace tutti::cli {
namespace {

using nlohmann::ordered_json;

constexpr int kJsonVersion = 3;

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

// Ours only, and never the secret: reports are shared.
ordered_json environment() {
  ordered_json lines = ordered_json::array();
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (name.substr(0, 6) == "TUTTI_" && name != "TUTTI_SECRET" && name != "TUTTI_UNIQUE_ID")  // an id holds its secret
      lines.push_back(std::string(text));
  }
  return lines;
}

// nccl-tests writes booleans as text.
const char* yes_or_no(bool value) { return value ? "true" : "false"; }

int version_number() {
  int major = 0, minor = 0, patch = 0;
  std::sscanf(version(), "%d.%d.%d", &major, &minor, &patch);
  return major * 10000 + minor * 100 + patch;
}

ordered_json config_of(const BenchOptions& options) {
  ordered_json config = {{"nthreads", std::max(1, options.threads)},
                         {"ngpus", 0},
                         {"minimum_bytes", options.min_bytes},
                         {"maximum_bytes", options.max_bytes}};
  if (options.step_factor > 1)
    config["step_factor"] = options.step_factor;
  else
    config["step_bytes"] = options.step_bytes;
  config.update({{"warmup_iters", std::abs(options.warmups)},
                 {"iterations", options.iterations},
                 {"aggregated_iterations", 1},
                 {"validation", options.checks},
                 {"graph", 0},
                 {"blocking_collectives", "true"},
                 {"average", options.average},
                 {"memory", options.registered ? "registered" : "ordinary"}});
  return config;
}

}  // namespace

std::string fit_number(double value, int width) {
  for (const int decimals : {2, 1, 0}) {
    std::string text = fmt::format("{:{}.{}f}", value, width, decimals);
    if (static_cast<int>(text.size()) <= width) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width >= 7 ? 1 : 0);
}

std::string format_head(const RowHead& head) {
  return fmt::format("{:12}  {:12}  {:>8}  {:>6}  {:6}", head.bytes, head.count, head.type, head.op, head.root);
}

std::string format_half(const std::optional<Measurement>& half, bool checked) {
  if (!half) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "N/A", "N/A", "N/A", "N/A");
  const std::string wrong = checked ? fmt::format("{:>6}", half->wrong) : "   N/A";
  return fmt::format("  {}  {}  {}  {}", fit_number(half->microseconds, 7), fit_number(half->algorithm_gbs, 6),
                     fit_number(half->bus_gbs, 6), wrong);
}

BenchReport::BenchReport(const BenchOptions& options, std::string collective, std::vector<std::string> arguments)
    : options_(options), collective_(std::move(collective)) {
  json_ = {{"version", kJsonVersion},
           {"start_time", now()},
           {"args", arguments},
           {"env", environment()},
           {"nccl_version", version_number()},
           {"tutti_version", version()},
           {"collective", collective_},
           {"config", config_of(options)}};
}

void BenchReport::begin(const std::vector<RankInfo>& ranks) {
  fmt::print("# tutti version {} in nccl-tests' layout\n", version());
  fmt::print("# Collective test starting: {}_perf\n", collective_);
  fmt::print(
      "# nThread {} nGpus 0 minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: 1 "
      "validation: {} graph: 0 unalign: 0\n",
      std::max(1, options_.threads), options_.min_bytes, options_.max_bytes,
      options_.step_factor > 1 ? options_.step_factor : options_.step_bytes,
      options_.step_factor > 1 ? "factor" : "bytes",
      options_.warmups >= 0 || options_.iterations > 0 ? fmt::format("{}", std::abs(options_.warmups)) : "until steady",
      options_.iterations > 0 ? fmt::format("{}", options_.iterations) : "for 0.2 s", options_.checks);
  fmt::print("#\n# Using devices\n");
  ordered_json devices = ordered_json::array();
  for (const RankInfo& each : ranks) {
    fmt::print("#  Rank {:2} Group {:2} Pid {:6} on {:>10} device {:2} [{}] {}\n", each.rank, 0, each.pid, each.host, 0,
               options_.registered ? "registered memory" : "host memory", each.device);
    devices.push_back({{"rank", each.rank},
                       {"group", 0},
                       {"pid", each.pid},
                       {"hostname", each.host},
                       {"device", 0},
                       {"device_info", each.device}});
  }
  // nccl-tests writes the devices into its config.
  json_["config"]["devices"] = devices;
  json_["devices"] = devices;
  json_["results"] = ordered_json::array();
  fmt::print(
      "#\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place          \n", "",
      "", "", "", "");
  const auto line = [](const char* a, const char* b, const char* c, const char* d, const char* e, const char* time,
                       const char* algorithm, const char* bus, const char* wrong) {
    fmt::print("# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", a, b, c, d, e);
    for (int half = 0; half < 2; ++half) fmt::print("  {:>7}  {:>6}  {:>6}  {:>6}", time, algorithm, bus, wrong);
  };
  line("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong");
  fmt::print("  {:>8}\n", "iters");
  line("(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "");
  fmt::print(" \n");
  std::fflush(stdout);
}

void BenchReport::begin_row(const RowHead& head) {
  fmt::print("{}", format_head(head));
  std::fflush(stdout);
  iterations_ = 0;
  row_ = {{"size", head.bytes},
          {"count", head.count},
          {"type", head.type},
          {"redop", head.op},
          {"root", fmt::format("{:6}", head.root)}};
}

void BenchReport::half(const std::optional<Measurement>& measured, bool in_place) {
  fmt::print("{}", format_half(measured, options_.checks > 0));
  std::fflush(stdout);
  ordered_json& target = row_[in_place ? "in_place" : "out_of_place"];
  if (!measured) return;
  // Both halves choose for themselves; the smaller number is the one to judge a row by.
  iterations_ = iterations_ > 0 ? std::min(iterations_, measured->iterations) : measured->iterations;
  target = {{"time", measured->microseconds}, {"alg_bw", measured->algorithm_gbs}, {"bus_bw", measured->bus_gbs}};
  target["nwrong"] = options_.checks > 0 ? ordered_json(measured->wrong) : ordered_json();
  bus_sum_ += measured->bus_gbs;
  ++halves_;
  if (measured->wrong != 0) ++wrong_rows_;
}

void BenchReport::end_row() {
  fmt::print("  {:>8}\n", iterations_);
  std::fflush(stdout);
  row_["actual_iterations"] = iterations_;
  row_["experiment_name"] = "";
  json_["results"].push_back(row_);
}

void BenchReport::end(const std::vector<std::string>& errors) {
  const double bandwidth = halves_ == 0 ? 0.0 : bus_sum_ / halves_;
  fmt::print("# {:<20} : {} {}\n", "Out of bounds values", wrong_rows_, wrong_rows_ == 0 ? "OK" : "FAILED");
  fmt::print("# {:<20} : {:g} \n#\n", "Avg bus bandwidth", bandwidth);
  fmt::print("# Collective test concluded: {}_perf\n#\n", collective_);
  std::fflush(stdout);
  json_["out_of_bounds"] = {{"count", wrong_rows_}, {"okay", yes_or_no(wrong_rows_ == 0)}};
  json_["average_bus_bandwidth"] = {{"bandwidth", bandwidth}, {"okay", "unchecked"}};
  json_["errors"] = errors;
  json_["end_time"] = now();
}

}  // namespace tutti::cli
