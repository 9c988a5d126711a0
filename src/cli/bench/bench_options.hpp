// What `tutti bench` was asked for, in nccl-tests' words. Plain values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/types.hpp"

namespace tutti::cli {

struct BenchOptions {
  std::string collective;  // or "all"
  int ranks = 0;           // processes to start; 0: one per core, at least two
  int threads = 0;         // ranks as threads of one process instead; 0: processes
  std::size_t min_bytes = 32 << 20;
  std::size_t max_bytes = 32 << 20;
  std::size_t step_bytes = 1 << 20;
  std::size_t step_factor = 1;  // above 1: sizes are multiplied, else step_bytes is added
  int iterations = 0;           // timed calls; 0: as many as take a fifth of a second, but five at least
  int warmups = -1;             // -1: one where `iterations` is given, else until a call takes no less time than before
  int checks = 1;
  std::string type = "float";
  std::string op = "sum";
  int root = 0;              // -1: every rank in turn
  int average = 3;           // over ranks: 0 rank 0, 1 average, 2 minimum, 3 maximum
  std::string program_file;  // runs instead of what selection would choose
  std::string json_file;
  bool registered = false;  // memory of tutti::allocate
  double timeout = 30.0;

  /// The sizes asked for, in order.
  std::vector<std::size_t> sizes() const;
};

struct NamedType {
  const char* name;
  DataType type;
};
struct NamedOperator {
  const char* name;
  Operator op;
};
/// nccl-tests' names, in its order.
const std::vector<NamedType>& bench_types();
const std::vector<NamedOperator>& bench_operators();

/// Those that `name` stands for ("all": each); empty for an unknown name.
std::vector<NamedType> types_named(std::string_view name);
std::vector<NamedOperator> operators_named(std::string_view name);

}  // namespace tutti::cli
