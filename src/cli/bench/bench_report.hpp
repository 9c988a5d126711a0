// What `tutti bench` prints and writes: nccl-tests' table and JSON, so that what reads theirs reads ours. Used by rank
// 0 alone.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/bench_measure.hpp"
#include "cli/bench/bench_options.hpp"

namespace tutti::cli {

/// A rank, for the list at the top.
struct RankInfo {
  int rank = 0;
  int pid = 0;
  std::string host;
  std::string device;
};

/// The left part of a row.
struct RowHead {
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::string type;
  std::string op;
  int root = -1;
};

/// A number in `width` characters, with as many decimals as fit, two at most.
std::string fit_number(double value, int width);
std::string format_head(const RowHead& head);
/// One half of a row; nothing measured: N/A. `checked` false: N/A for #wrong.
std::string format_half(const std::optional<Measurement>& half, bool checked);

class BenchReport {
 public:
  BenchReport(const BenchOptions& options, std::string collective, std::vector<std::string> arguments);

  void begin(const std::vector<RankInfo>& ranks);
  void begin_row(const RowHead& head);
  void half(const std::optional<Measurement>& measured, bool in_place);
  void end_row();
  void end(const std::vector<std::string>& errors);

  std::int64_t wrong_rows() const { return wrong_rows_; }
  nlohmann::ordered_json& json() { return json_; }

 private:
  const BenchOptions& options_;
  std::string collective_;
  nlohmann::ordered_json json_;
  nlohmann::ordered_json row_;
  int iterations_ = 0;  // of the row
  double bus_sum_ = 0.0;
  int halves_ = 0;
  std::int64_t wrong_rows_ = 0;
};

}  // namespace tutti::cli
