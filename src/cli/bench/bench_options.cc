#include "cli/bench/bench_options.hpp"

namespace tutti::cli {
namespace {

template <typename Named>
std::vector<Named> named(const std::vector<Named>& all, std::string_view name) {
  if (name == "all") return all;
  std::vector<Named> found;
  for (const Named& each : all)
    if (name == each.name) found.push_back(each);
  return found;
}

}  // namespace

std::vector<std::size_t> BenchOptions::sizes() const {
  std::vector<std::size_t> all;
  for (std::size_t bytes = min_bytes; bytes <= max_bytes;) {
    all.push_back(bytes);
    const std::size_t next = step_factor > 1 ? bytes * step_factor : bytes + step_bytes;
    if (next <= bytes) break;
    bytes = next;
  }
  return all;
}

const std::vector<NamedType>& bench_types() {
  static const std::vector<NamedType> all = {
      {"int8", DataType::int8},         {"uint8", DataType::uint8},        {"int32", DataType::int32},
      {"uint32", DataType::uint32},     {"int64", DataType::int64},        {"uint64", DataType::uint64},
      {"half", DataType::float16},      {"float", DataType::float32},      {"double", DataType::float64},
      {"bfloat16", DataType::bfloat16}, {"f8e4m3", DataType::float8_e4m3}, {"f8e5m2", DataType::float8_e5m2},
  };
  return all;
}

const std::vector<NamedOperator>& bench_operators() {
  static const std::vector<NamedOperator> all = {
      {"sum", Operator::sum}, {"prod", Operator::product}, {"max", Operator::max},
      {"min", Operator::min}, {"avg", Operator::average},  {"mulsum", Operator::premultiplied_sum},
  };
  return all;
}

std::vector<NamedType> types_named(std::string_view name) { return named(bench_types(), name); }
std::vector<NamedOperator> operators_named(std::string_view name) { return named(bench_operators(), name); }

}  // namespace tutti::cli
