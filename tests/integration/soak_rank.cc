// One rank of a job that works, and whose steps are as uneven as those of real jobs: slow first steps, computation that
// varies from step to step and a little from rank to rank, micro-batches, exchanges of uneven size, validation in which
// other operations are called, checkpoints. It ends when a file named `stop` exists. Nothing that is said of it is
// true.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tutti/communicator.hpp"

namespace tutti::integration {
namespace {

constexpr int kWarmUpSteps = 10;
constexpr int kValidationEvery = 50, kValidationSteps = 8;
constexpr int kCheckpointEvery = 300;
constexpr double kComputeMs = 15;
constexpr std::size_t kLayer = 24 << 10;  // elements, for each rank

/// Draws what all ranks have in common from one generator and what is this rank's own from another.
class SoakRank {
 public:
  SoakRank(Communicator world, std::unique_ptr<Communicator> half, unsigned seed)
      : world_(std::move(world)),
        half_(std::move(half)),
        common_(seed),
        own_(seed + 1 + static_cast<unsigned>(world_.rank())) {}

  /// Returns whether the job goes on.
  Result<bool> step(int number);

 private:
  void sleep_ms(double milliseconds) {
    std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(milliseconds));
  }
  void compute(int number);
  Status train();
  Status exchange_tokens();
  Status reduce_gradients();
  Status validate();
  void save_checkpoint();
  Result<bool> goes_on();

  Communicator world_;
  std::unique_ptr<Communicator> half_;
  std::mt19937 common_, own_;
};

void SoakRank::compute(int number) {
  const double usual = kComputeMs * std::lognormal_distribution(0.0, 0.25)(common_);
  const double jitter = std::uniform_real_distribution(0.97, 1.03)(own_);
  sleep_ms(usual * jitter * (number < kWarmUpSteps ? 10 : 1));
}

/// Sends each rank of the half a number of tokens that the step decides.
Status SoakRank::exchange_tokens() {
  const auto size = static_cast<std::size_t>(half_->size());
  const auto rank = static_cast<std::size_t>(half_->rank());
  std::vector<std::size_t> table(size * size);  // from each to each
  for (std::size_t& count : table) count = std::uniform_int_distribution<std::size_t>(0, 8192)(common_);
  std::vector<std::size_t> out(size), in(size);
  for (std::size_t peer = 0; peer < size; ++peer) {
    out[peer] = table[rank * size + peer];
    in[peer] = table[peer * size + rank];
  }
  const std::vector<float> sent(std::accumulate(out.begin(), out.end(), std::size_t{1}));
  std::vector<float> received(std::accumulate(in.begin(), in.end(), std::size_t{1}));
  return half_->all_to_all_v(sent.data(), out, {}, received.data(), in, {}, DataType::float32);
}

Status SoakRank::reduce_gradients() {
  const auto size = static_cast<std::size_t>(world_.size());
  std::vector<float> layer(kLayer * size), share(kLayer);
  for (int i = 0; i < 3; ++i) {
    if (Status done = world_.reduce_scatter(layer.data(), share.data(), kLayer, DataType::float32, Operator::sum);
        !done)
      return done;
    if (Status done = world_.all_gather(share.data(), layer.data(), kLayer, DataType::float32); !done) return done;
  }
  return {};
}

Status SoakRank::train() {
  const int batches = std::uniform_int_distribution(2, 4)(common_);
  for (int batch = 0; batch < batches; ++batch) {
    sleep_ms(2 * std::uniform_real_distribution(0.9, 1.1)(own_));
    if (Status done = exchange_tokens(); !done) return done;
  }
  return reduce_gradients();
}

Status SoakRank::validate() {
  std::vector<float> score(1024);
  if (Status done = world_.broadcast(score.data(), score.data(), score.size(), DataType::float32, 0); !done)
    return done;
  return world_.reduce(score.data(), score.data(), score.size(), DataType::float32, Operator::sum, 0);
}

/// All ranks write; rank 0 a little more than the others.
void SoakRank::save_checkpoint() {
  sleep_ms(std::uniform_real_distribution(1500.0, 2500.0)(own_) + (world_.rank() == 0 ? 300 : 0));
}

/// The small reduction also says whether any rank is told to stop.
Result<bool> SoakRank::goes_on() {
  int stop = ::access("stop", F_OK) == 0 ? 1 : 0;
  if (Status done = world_.all_reduce(&stop, &stop, 1, DataType::int32, Operator::max); !done)
    return tl::unexpected(done.error());
  return stop == 0;
}

Result<bool> SoakRank::step(int number) {
  compute(number);
  const bool validates = number % kValidationEvery >= kValidationEvery - kValidationSteps;
  if (Status done = validates ? validate() : train(); !done) return tl::unexpected(done.error());
  if (number % kCheckpointEvery == kCheckpointEvery - 1) save_checkpoint();
  return goes_on();
}

int fail_with(const Error& error) {
  fmt::print(stderr, "{}\n", error.to_string());
  return 1;
}

int run(unsigned seed) {
  auto world = Communicator::create_from_environment(Options::from_environment());
  if (!world) return fail_with(world.error());
  auto half = world->split(2 * world->rank() / world->size());
  if (!half) return fail_with(half.error());
  const bool speaks = world->rank() == 0;
  SoakRank rank(*std::move(world), *std::move(half), seed);
  for (int number = 0;; ++number) {
    if (number == kWarmUpSteps && speaks) {
      fmt::print("ready\n");
      std::fflush(stdout);
    }
    const Result<bool> goes_on = rank.step(number);
    if (!goes_on) return fail_with(goes_on.error());
    if (!*goes_on) return 0;
  }
}

}  // namespace
}  // namespace tutti::integration

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  return tutti::integration::run(static_cast<unsigned>(std::atoi(argv[1])));
}
