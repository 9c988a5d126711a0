// What a frame's header costs at either end of a TCP lane.
#include <benchmark/benchmark.h>

#include "transport/frame.hpp"

namespace {

tutti::FrameHeader sample() {
  tutti::FrameHeader header;
  header.link = {42, 0, 1, 3};
  header.bytes = 4096;
  header.tag = {7, 99};
  header.sequence = 123456;
  return header;
}

void frame_encode(benchmark::State& state) {
  const tutti::FrameHeader header = sample();
  for (auto _ : state) benchmark::DoNotOptimize(tutti::encode(header));
}
BENCHMARK(frame_encode);

void frame_parse(benchmark::State& state) {
  const tutti::FrameBytes bytes = tutti::encode(sample());
  for (auto _ : state) benchmark::DoNotOptimize(tutti::parse_frame(bytes));
}
BENCHMARK(frame_parse);

}  // namespace
