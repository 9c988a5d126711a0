#include "cli/bench/bench_measure.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#include "base/clock.hpp"
#include "tutti/memory.hpp"

namespace tutti::cli {
namespace {

constexpr std::size_t kSlotSpace = 256 * 1024;  // stays in a core's own cache
constexpr std::uint64_t kSeed = 1;
constexpr double kMeasured = 0.2e6;  // microseconds of timed calls, unless their number is given
constexpr double kWarmUp = 0.2e6;    // microseconds after which calls count as steady at the latest
constexpr double kSteady = 0.95;     // of what a call took before: no longer worth another round
constexpr double kShortRun = 2e3;    // microseconds: a run that takes less says little
constexpr int kLeastIterations = 5;
constexpr int kMostIterations = 1'000'000;

std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

Reduction reduction_of(Operator op, int rank) {
  return op == Operator::premultiplied_sum ? Reduction::premultiplied(premultiplier(rank)) : Reduction(op);
}

Status grow(BenchBuffer& buffer, std::size_t& capacity, std::size_t bytes, bool registered) {
  if (bytes <= capacity) return {};
  buffer = BenchBuffer();
  capacity = 0;
  auto grown = BenchBuffer::create(bytes, registered);
  if (!grown) return tl::unexpected(grown.error());
  buffer = std::move(*grown);
  capacity = bytes;
  return {};
}

}  // namespace

Result<BenchBuffer> BenchBuffer::create(std::size_t bytes, bool registered) {
  BenchBuffer buffer;
  if (registered) {
    auto memory = allocate(bytes);
    if (!memory) return tl::unexpected(memory.error());
    buffer.memory_ = {static_cast<std::byte*>(*memory), [](std::byte* data) { (void)deallocate(data); }};
    return buffer;
  }
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  if (memory == nullptr) return fail(ErrorCode::system, fmt::format("no memory for a buffer of {} bytes", bytes));
  buffer.memory_ = {memory, [](std::byte* data) { std::free(data); }};
  return buffer;
}

Status BenchRank::prepare(const BenchPoint& point) {
  const int ranks = communicator_.size();
  if (!tiles_ || tiles_->type != point.type || tiles_->op != point.op) {
    tiles_ = std::make_unique<Tiles>(Tiles{point.type, point.op, {}, {}});
    for (int rank = 0; rank < ranks; ++rank)
      tiles_->inputs.push_back(Tile::input(rank, ranks, point.type, point.op, kSeed));
    tiles_->reduced.push_back(Tile::reduced(ranks, point.type, point.op, kSeed));
  }
  Elements elements = point.bench_case->elements(point.count, ranks);
  if (point.in_place) elements.send = elements.recv = std::max(elements.send, elements.recv);
  slots_.send_stride = rounded(elements.send * size_of(point.type));
  slots_.recv_stride = rounded(elements.recv * size_of(point.type));
  const std::size_t each = std::max<std::size_t>(64, slots_.send_stride + slots_.recv_stride);
  const int most = options_.iterations > 0 ? options_.iterations : kMostIterations;
  slots_.count = static_cast<int>(std::clamp<std::size_t>(kSlotSpace / each, 1, static_cast<std::size_t>(most)));
  const auto slots = static_cast<std::size_t>(slots_.count);
  const std::size_t least = 64;
  if (auto grown = grow(recv_, recv_capacity_, std::max(least, slots_.recv_stride * slots), options_.registered);
      !grown)
    return grown;
  if (point.in_place) return {};
  return grow(send_, send_capacity_, std::max(least, slots_.send_stride * slots), options_.registered);
}

BenchCall BenchRank::call_at(const BenchPoint& point, int slot) const {
  const auto index = static_cast<std::size_t>(slot);
  BenchCall call;
  call.send = send_.data() + index * slots_.send_stride;
  call.recv = recv_.data() + index * slots_.recv_stride;
  call.count = point.count;
  call.type = point.type;
  call.reduction = reduction_of(point.op, communicator_.rank());
  call.root = point.root;
  if (!point.in_place) return call;
  const Elements offsets = point.bench_case->in_place_offsets(point.count, communicator_.rank());
  call.send = call.recv + offsets.send * size_of(point.type);
  call.recv = call.recv + offsets.recv * size_of(point.type);
  return call;
}

void BenchRank::write_input(const BenchPoint& point, int slot) const {
  const std::size_t count = point.bench_case->elements(point.count, communicator_.size()).send;
  tiles_->inputs[static_cast<std::size_t>(communicator_.rank())].fill(call_at(point, slot).send, count, 0);
}

Result<double> BenchRank::over_ranks(std::vector<double> times, const std::vector<int>& weights) {
  static constexpr Operator kOver[] = {Operator::sum, Operator::average, Operator::min, Operator::max};
  Status agreed;
  if (options_.average == 0)
    agreed = communicator_.broadcast(times.data(), times.data(), times.size(), DataType::float64, 0);
  else
    agreed =
        communicator_.all_reduce(times.data(), times.data(), times.size(), DataType::float64, kOver[options_.average]);
  if (!agreed) return tl::unexpected(agreed.error());
  return std::inner_product(times.begin(), times.end(), weights.begin(), 0.0) /
         std::accumulate(weights.begin(), weights.end(), 0);
}

Status BenchRank::warm_up(const BenchPoint& point) {
  const int calls = options_.warmups >= 0 ? options_.warmups : 1;
  for (int i = 0; i < calls; ++i) {
    write_input(point, 0);
    if (auto ran = point.bench_case->run(communicator_, call_at(point, 0)); !ran) return ran;
  }
  return {};
}

// Microseconds of a call in a run of so many, each on a slot of its own.
Result<double> BenchRank::time_run(const BenchPoint& point, int calls) {
  for (int slot = 0; slot < calls; ++slot) write_input(point, slot);
  if (auto met = communicator_.barrier(); !met) return tl::unexpected(met.error());
  const std::uint64_t start = ticks();
  for (int slot = 0; slot < calls; ++slot)
    if (auto ran = point.bench_case->run(communicator_, call_at(point, slot)); !ran) return tl::unexpected(ran.error());
  return microseconds_since(start) / calls;
}

// How many calls to time: makes calls until they get no faster. All ranks see the slowest rank's times, and so agree.
Result<int> BenchRank::choose_iterations(const BenchPoint& point) {
  if (options_.iterations > 0) return options_.iterations;
  double fastest = 0;
  double spent = 0;
  int calls = 1;
  bool steady = false;
  while (!steady) {
    const auto time = time_run(point, calls);
    if (!time) return tl::unexpected(time.error());
    double slowest = *time;
    if (auto agreed = communicator_.all_reduce(&slowest, &slowest, 1, DataType::float64, Operator::max); !agreed)
      return tl::unexpected(agreed.error());
    spent += slowest * calls;
    const bool long_enough = slowest * calls >= kShortRun || calls == slots_.count;
    steady = spent >= kWarmUp || (long_enough && fastest > 0 && slowest > fastest * kSteady);
    fastest = fastest > 0 ? std::min(fastest, slowest) : slowest;
    if (!long_enough) calls = std::min(calls * 2, slots_.count);
  }
  return static_cast<int>(std::clamp<double>(kMeasured / fastest, kLeastIterations, kMostIterations));
}

// Microseconds of a call: over iterations the average, over ranks as asked.
Result<double> BenchRank::average_time(const BenchPoint& point, int iterations) {
  std::vector<double> times;
  std::vector<int> weights;
  for (int left = iterations; left > 0; left -= weights.back()) {
    weights.push_back(std::min(left, slots_.count));
    const auto time = time_run(point, weights.back());
    if (!time) return time;
    times.push_back(*time);
  }
  return over_ranks(std::move(times), weights);
}

// Runs once more on a buffer that holds nothing right, and looks at every element.
Result<std::int64_t> BenchRank::count_wrong(const BenchPoint& point) {
  const BenchCall call = call_at(point, 0);
  std::memset(recv_.data(), 0xa5, std::max<std::size_t>(slots_.recv_stride, 1));
  write_input(point, 0);
  if (auto ran = point.bench_case->run(communicator_, call); !ran) return tl::unexpected(ran.error());
  std::int64_t wrong = 0;
  for (const Expectation& expected :
       point.bench_case->expectations(point.count, communicator_.rank(), communicator_.size(), point.root)) {
    const Tile& tile = expected.source == Expectation::kReduced
                           ? tiles_->reduced.front()
                           : tiles_->inputs[static_cast<std::size_t>(expected.source)];
    const std::byte* data = call.recv + expected.offset * size_of(point.type);
    wrong += static_cast<std::int64_t>(tile.count_wrong(data, expected.count, expected.phase));
  }
  auto summed = communicator_.all_reduce(&wrong, &wrong, 1, DataType::int64, Operator::sum);
  if (!summed) return tl::unexpected(summed.error());
  return wrong;
}

Result<Measurement> BenchRank::measure(const BenchPoint& point) {
  if (auto prepared = prepare(point); !prepared) return tl::unexpected(prepared.error());
  if (auto warm = warm_up(point); !warm) return tl::unexpected(warm.error());
  const auto iterations = choose_iterations(point);
  if (!iterations) return tl::unexpected(iterations.error());
  const auto time = average_time(point, *iterations);
  if (!time) return tl::unexpected(time.error());
  Measurement result;
  result.iterations = *iterations;
  result.microseconds = *time;
  const Elements elements = point.bench_case->elements(point.count, communicator_.size());
  const double bytes = static_cast<double>(std::max(elements.send, elements.recv) * size_of(point.type));
  result.algorithm_gbs = bytes / 1e3 / *time;
  result.bus_gbs = result.algorithm_gbs * point.bench_case->bus_factor(communicator_.size());
  for (int check = 0; check < options_.checks && result.wrong == 0; ++check) {
    const auto wrong = count_wrong(point);
    if (!wrong) return tl::unexpected(wrong.error());
    result.wrong = *wrong;
  }
  return result;
}

}  // namespace tutti::cli
