// Bytes per second of every reduction kernel: sources read plus targets written, at sizes that fit the first cache,
// the second, and neither. Names read type_operator_isa_sources_targets[_stream]/bytes.
//   reduce_bench --benchmark_filter='float32_sum_.*'
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "reduce/reduce.hpp"

namespace {

using tutti::DataType;
using tutti::Isa;
using tutti::Operator;

struct Shape {
  int sources;
  int targets;
  bool stream;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Buffer = std::unique_ptr<void, Free>;

Buffer make_buffer(std::size_t bytes) {
  Buffer buffer(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  std::memset(buffer.get(), 0x3c, bytes);  // an ordinary number in every type
  return buffer;
}

void measure(benchmark::State& state, DataType type, tutti::ReduceKernel kernel, Shape shape) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<Buffer> buffers;
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (int s = 0; s < shape.sources; ++s) sources.push_back(buffers.emplace_back(make_buffer(bytes)).get());
  for (int t = 0; t < shape.targets; ++t) targets.push_back(buffers.emplace_back(make_buffer(bytes)).get());
  tutti::ReduceCall call;
  call.targets = targets.data();
  call.target_count = shape.targets;
  call.sources = sources.data();
  call.source_count = shape.sources;
  call.elements = bytes / tutti::size_of(type);
  call.stream = shape.stream;
  for (auto _ : state) {
    kernel(call);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0) *
                          (shape.sources + shape.targets));
}

std::string name_of(DataType type, Operator op, Isa isa, Shape shape) {
  static constexpr const char* kIsas[] = {"scalar", "avx2", "avx512"};
  return std::string(tutti::name_of(type)) + "_" + std::string(tutti::name_of(op)) + "_" +
         kIsas[static_cast<int>(isa)] + "_" + std::to_string(shape.sources) + "_" + std::to_string(shape.targets) +
         (shape.stream ? "_stream" : "");
}

void add(DataType type, Operator op, Isa isa, Shape shape) {
  const tutti::ReduceKernel kernel = tutti::find_kernel(type, op, isa);
  if (kernel == nullptr) return;
  benchmark::RegisterBenchmark(name_of(type, op, isa, shape).c_str(), measure, type, kernel, shape)
      ->Arg(4 << 10)
      ->Arg(256 << 10)
      ->Arg(16 << 20);
}

void measure_copy(benchmark::State& state, bool stream) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const Buffer source = make_buffer(bytes);
  const Buffer target = make_buffer(bytes);
  for (auto _ : state) {
    tutti::copy(target.get(), source.get(), bytes, stream);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(0) * 2);
}

const bool kRegistered = [] {
  for (bool stream : {false, true}) {
    benchmark::RegisterBenchmark(stream ? "copy_stream" : "copy", measure_copy, stream)
        ->Arg(4 << 10)
        ->Arg(256 << 10)
        ->Arg(16 << 20);
  }
  for (int t = 0; t < tutti::kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    for (Isa isa : {Isa::scalar, Isa::avx2, Isa::avx512}) {
      if (isa > tutti::best_isa()) break;
      for (Operator op : {Operator::sum, Operator::product, Operator::min, Operator::max, Operator::bit_xor}) {
        add(type, op, isa, {2, 1, false});
      }
      add(type, Operator::sum, isa, {2, 2, false});
      add(type, Operator::sum, isa, {8, 1, false});
      add(type, Operator::sum, isa, {8, 8, false});
      add(type, Operator::sum, isa, {2, 1, true});
    }
  }
  return true;
}();

}  // namespace
